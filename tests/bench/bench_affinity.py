"""What it costs HAProxy to keep the requests of a sequence together."""

import contextlib
import json
import re
import shutil
import statistics
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs
from bench.row import Row
from haproxy_tritons import view
from servers.haproxy import HaproxyServer, RenderedHaproxy
from servers.keyed_haproxy import KeyedHaproxy
from servers.triton import real_triton

from tarn.clock import SystemClock
from tarn.domain import Member
from tarn.testing.wait import until
from tarn_plugins.discovery.haproxy.servers import HAProxyServers
from tarn_plugins.discovery.haproxy.settings import HaproxyTarget

ROUNDS = 7
SECONDS = 3
TRITONS = 3
SIZES = {"4 KB": 4096, "1 MB": 1_000_000}
MODEL = "length"
TENSORS = """max_batch_size: 0
input [{name: "IN" data_type: TYPE_UINT8 dims: [-1]}]
output [{name: "OUT" data_type: TYPE_INT32 dims: [1]}]
instance_group [{kind: KIND_CPU count: 1}]
"""
CODE = """import numpy as np
import triton_python_backend_utils as pb

class TritonPythonModel:
    def execute(self, requests):
        return [self.length(pb.get_input_tensor_by_name(one, "IN")) for one in requests]

    def length(self, given):
        size = np.array([given.shape()[0]], np.int32)
        return pb.InferenceResponse([pb.Tensor("OUT", size)])
"""
MODELS = {MODEL: (CODE, f'backend: "python"\n{TENSORS}')}
PLAIN = "without affinity"
DOORS = {PLAIN: "", "a sequence": MODEL, "another model": "acc"}
"""Name to the model whose sequences are kept; the requests are for `MODEL`."""
_RATE = re.compile(r"Requests/sec:\s*([0-9.]+)")
_BAD = re.compile(r"Non-2xx|Socket errors")
SCRIPT = """\
local at, bodies, heads = 0, {{}}, {{}}
for number = 0, 63 do
  local file = io.open("{folder}/" .. number, "rb")
  bodies[number] = file:read("a")
  file:close()
end
function request()
  at = (at + 1) % 64
  return wrk.format("POST", "/v2/models/{model}/infer",
    {{["Inference-Header-Content-Length"] = "{head}"}}, bodies[at])
end
"""


@attrs.frozen
class _Round:
    rate: float
    """Requests a second."""
    cpu_us: float
    """HAProxy's own CPU for a request."""


def affinity_rows() -> list[Row]:
    """Measure throughput and HAProxy's own CPU, in interleaved rounds, before the same Tritons."""
    if shutil.which("wrk") is None:
        print("affinity: not measured, since wrk is not installed")
        return []
    with contextlib.ExitStack() as stack:
        members = list(_tritons(stack))
        doors = {name: _door(stack, members, model) for name, model in DOORS.items()}
        return [row for size in SIZES for row in _rows(stack, doors, size)]


def _rows(
    stack: contextlib.ExitStack, doors: Mapping[str, HaproxyServer], size: str
) -> Iterator[Row]:
    script = _script(_folder(stack), SIZES[size])
    told: dict[str, list[_Round]] = {name: [] for name in doors}
    for number in range(ROUNDS):
        for name in doors if number % 2 else reversed(doors):
            told[name].append(_round(doors[name], script))
    medians = {
        name: _Round(
            statistics.median(one.rate for one in rounds),
            statistics.median(one.cpu_us for one in rounds),
        )
        for name, rounds in told.items()
    }
    plain = medians.pop(PLAIN)
    for name, one in medians.items():
        what = f"HAProxy, {name}, {size}"
        yield Row(f"{what}: throughput", one.rate, "/s", None, PLAIN, plain.rate)
        yield Row(f"{what}: its CPU for a request", one.cpu_us, "µs", None, PLAIN, plain.cpu_us)


def _folder(stack: contextlib.ExitStack) -> Path:
    return Path(stack.enter_context(tempfile.TemporaryDirectory()))


def _tritons(stack: contextlib.ExitStack) -> Iterator[Member]:
    for number in range(1, TRITONS + 1):
        root = _folder(stack)
        (root / "triton").mkdir()
        running = real_triton(root / "triton", 5, models=MODELS)
        _, endpoint = stack.enter_context(running)
        yield Member(f"fleet-{number:04d}", f"c-{number}", endpoint, "aaaaaaaaaaaa")


def _door(stack: contextlib.ExitStack, members: list[Member], model: str) -> HaproxyServer:
    root = _folder(stack)
    made: Any = KeyedHaproxy(root) if model else RenderedHaproxy(root, grpc=False)
    haproxy: HaproxyServer = stack.enter_context(made)
    engine = HAProxyServers(HaproxyTarget(haproxy.socket, fleet="fleet"), SystemClock())
    stack.callback(engine.close, withdraw=False)
    rule = {"models": [model], "key": "sequence", "idle_s": 5.0}
    engine.follow({"complete": True, "rules": [rule]} if model else None)
    engine.sync(view(1, *members))
    until(lambda: haproxy.statistics()["BACKEND"]["act"] == str(TRITONS), 60)
    return haproxy


def _script(folder: Path, size: int) -> Path:
    """Write bodies of 64 sequences, and the program that has wrk send them."""
    head = b""
    for number in range(64):
        # ids of one length, so that the JSON is as long in each body
        binary = {"binary_data_size": size}
        tensor = {"name": "IN", "shape": [size], "datatype": "UINT8", "parameters": binary}
        given = {"sequence_id": 100 + number, "sequence_start": True}
        head = json.dumps({"parameters": given, "inputs": [tensor]}).encode()
        (folder / str(number)).write_bytes(head + bytes(size))
    path = folder / "post.lua"
    path.write_text(SCRIPT.format(folder=folder, model=MODEL, head=len(head)))
    return path


def _round(haproxy: HaproxyServer, script: Path) -> _Round:
    address = f"http://127.0.0.1:{haproxy.http_port}"
    argv = ["wrk", "-t1", "-c8", f"-d{SECONDS}s", "-s", str(script), address]
    before = _cpu_ns(haproxy)
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=True)
    used = _cpu_ns(haproxy) - before
    found = _RATE.search(done.stdout)
    assert found is not None, done.stdout
    assert not _BAD.search(done.stdout), done.stdout
    rate = float(found[1])
    return _Round(rate, used / 1000 / (rate * SECONDS))


def _cpu_ns(haproxy: HaproxyServer) -> int:
    threads = Path(f"/proc/{haproxy.pid}/task").iterdir()
    return sum(int((one / "schedstat").read_text().split()[0]) for one in threads)
