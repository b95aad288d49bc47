"""The local runtime with a real tritonserver and a real Python model."""

import concurrent.futures
import json
import os
import signal
import socket
import time
import urllib.request
from pathlib import Path

import attrs
import pytest
from local_runtime import LocalRuntimeHome, eventually, fact

from tarn.domain import Ended, Running
from tarn.errors import Superseded
from tarn_plugins.runtime.local.files import Records
from tarn_plugins.runtime.local.machine import processes_of
from tarn_plugins.runtime.local.runtime import LocalRuntime

pytestmark = pytest.mark.triton
ID = "echo-0001"
READY_S = 60.0
END_S = 40.0


@pytest.fixture(scope="session")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def stage(tmp_path, cache):
    stage = LocalRuntimeHome(tmp_path, cache)
    yield stage
    stage.end()


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:
            return answer.status == 200
    except OSError:
        return False


def infer(running: Running, values: list[float], delay: float = 0.0) -> list[float]:
    body = {
        "inputs": [{"name": "IN", "shape": [len(values)], "datatype": "FP32", "data": values}],
        "parameters": {"delay": str(delay)},
    }
    request = urllib.request.Request(
        f"http://{running.endpoint.http}/v2/models/echo/infer", json.dumps(body).encode()
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)["outputs"][0]["data"]


def start_one(stage: LocalRuntimeHome) -> tuple[LocalRuntime, Running]:
    runtime = stage.master()
    runtime.start("http://127.0.0.1:1")
    runtime.apply(stage.wish(ID))
    running = fact(runtime, ID, Running)
    assert running is not None, runtime.facts()
    eventually(lambda: answers(f"http://{running.endpoint.http}/v2/models/echo/ready"), READY_S)
    # The metrics service comes last.
    eventually(lambda: answers(f"http://{running.endpoint.metrics}/metrics"), READY_S)
    return runtime, running


def shm_prefix(stage: LocalRuntimeHome) -> str:
    (record,), _ = Records(stage.directory / "instances").read()
    return record.shm_prefix


def shm_of(stage: LocalRuntimeHome) -> list[Path]:
    return list(Path("/dev/shm").glob(f"{shm_prefix(stage)}*"))


def test_starts_serves_and_stops_without_a_trace(stage):
    """A Python model answers; after the stop no process, port, shared memory or record is left."""
    runtime, running = start_one(stage)
    assert infer(running, [1.0, 2.5]) == [1.0, 2.5]
    assert shm_of(stage)
    assert [p for p in processes_of(stage.directory) if not p.leader]
    prefix = shm_prefix(stage)
    runtime.apply(stage.wish(stop=(ID,)))
    ended = eventually(lambda: fact(runtime, ID, Ended), END_S)
    assert ended.exit.expected
    assert ended.exit.code == 0
    assert processes_of(stage.directory) == ()
    assert not list(Path("/dev/shm").glob(f"{prefix}*"))
    for port in attrs.astuple(running.endpoint)[1:]:
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port), 1)
    runtime.apply(stage.wish())
    assert runtime.facts() == ()
    assert list((stage.directory / "instances").iterdir()) == []


def test_a_killed_triton_is_noticed_within_a_second_with_its_reason(stage):
    """Its Python stubs and its shared memory go with it."""
    runtime, running = start_one(stage)
    prefix = shm_prefix(stage)
    begun_s = time.monotonic()
    os.kill(int(running.container_id), signal.SIGKILL)
    ended = eventually(lambda: fact(runtime, ID, Ended), 3.0)
    assert time.monotonic() - begun_s < 3.0
    assert ended.exit.code == -9
    assert "SIGKILL" in ended.exit.reason
    eventually(lambda: processes_of(stage.directory) == ())
    assert not list(Path("/dev/shm").glob(f"{prefix}*"))


def test_a_successor_adopts_what_serves_and_the_old_master_is_powerless(stage):
    """The same process goes on answering; only the new epoch may end it."""
    old, running = start_one(stage)
    old_stop = stage.wish(stop=(ID,))
    new = stage.master()
    recovered = new.start("http://127.0.0.1:2")
    assert recovered.running == (attrs.evolve(running, adopted=True),)
    with pytest.raises(Superseded):
        old.apply(old_stop)
    assert infer(running, [3.0]) == [3.0]
    new.apply(stage.wish(stop=(ID,)))
    assert eventually(lambda: fact(new, ID, Ended), END_S).exit.expected
    assert processes_of(stage.directory) == ()


def test_a_request_in_flight_is_answered_before_triton_ends(stage):
    """SIGTERM goes to Triton alone, not to its stubs; what the model printed is in the log."""
    runtime, running = start_one(stage)
    log = stage.directory / "logs" / ID / "triton.stderr"
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        answer = pool.submit(infer, running, [7.0], 2.0)
        # No metric of Triton counts what executes; the model says it.
        eventually(lambda: "waits" in log.read_text())
        assert "echo waits 2 s" in runtime.log(ID, 500).lines
        runtime.apply(stage.wish(stop=(ID,)))
        assert answer.result(30) == [7.0]
    assert eventually(lambda: fact(runtime, ID, Ended), END_S).exit.expected


def test_a_frozen_triton_ends_too(stage):
    """SIGSTOP, then the stop: it goes on, and ends."""
    runtime, running = start_one(stage)
    os.kill(int(running.container_id), signal.SIGSTOP)
    runtime.apply(stage.wish(stop=(ID,)))
    assert eventually(lambda: fact(runtime, ID, Ended), END_S).exit.expected
    assert processes_of(stage.directory) == ()


def test_a_model_that_cannot_load_leaves_triton_up(stage, tmp_path):
    """One bad model does not end the server: its readiness is a matter of each model."""
    bad = tmp_path / "models" / "bad" / "1"
    bad.mkdir(parents=True)
    (bad / "model.py").write_text("raise RuntimeError('broken on purpose')\n")
    (bad.parent / "config.pbtxt").write_text('backend: "python"\n')
    runtime = stage.master()
    runtime.start("http://127.0.0.1:1")
    stage.launch = attrs.evolve(stage.launch, repository=str(bad.parent.parent))
    runtime.apply(stage.wish(ID))
    running = fact(runtime, ID, Running)
    url = f"http://{running.endpoint.http}/v2/health/ready"
    eventually(lambda: answers(url), READY_S)
    assert fact(runtime, ID, Running) is not None
