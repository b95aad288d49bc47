"""A real HAProxy with the file that keeps sequences together, and lets requests wait."""

import contextlib
import http.client
import json
import os
import subprocess
import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np

from servers.haproxy import HaproxyServer
from servers.process import free_ports
from tarn.domain import Endpoint, Member
from tarn_plugins.discovery.haproxy.configuration import HaproxyCfgSettings, render
from tarn_plugins.discovery.haproxy.keyed_routing import (
    DOOR_LUA,
    HELD_PATHS,
    KeyedRouting,
    begin_line,
    door_text,
    key_lines,
)

SEQUENCE = {"models": ["acc"], "key": "sequence", "idle_s": 5.0}
RULES = {"complete": True, "rules": [SEQUENCE]}
CONFIG = """backend: "python"
max_batch_size: 8
input [{name: "IN" data_type: TYPE_FP32 dims: [-1]}]
output [{name: "OUT" data_type: TYPE_FP32 dims: [1]}]
instance_group [{kind: KIND_CPU count: 1}]
sequence_batching {
  max_sequence_idle_microseconds: 5000000
  control_input [
    {name: "START" control [{kind: CONTROL_SEQUENCE_START fp32_false_true: [0, 1]}]},
    {name: "CORRID" control [{kind: CONTROL_SEQUENCE_CORRID data_type: TYPE_UINT64}]}
  ]
  oldest {max_candidate_sequences: 256}
}
"""
SUM = """import triton_python_backend_utils as pb
import numpy as np  # that module knows where it is

class TritonPythonModel:
    sums = {}

    def execute(self, requests):
        return [self.answer(one) for one in requests]

    def answer(self, request):
        read = lambda name: pb.get_input_tensor_by_name(request, name).as_numpy().ravel()[0]
        key, value = int(read("CORRID")), float(read("IN"))
        if read("START"):
            self.sums[key] = 0.0
        self.sums[key] = self.sums.get(key, -1e9) + value
        out = np.array([[self.sums[key]]], np.float32)
        return pb.InferenceResponse([pb.Tensor("OUT", out)])
"""
"""The first value of each request is added to its sequence's sum; without a start it is absurd."""
MODELS = {"acc": (SUM, CONFIG)}


class KeyedHaproxy(HaproxyServer):
    """One with the files of ``tarn lb haproxy config -o DIRECTORY``.

    Args:
        root: For its files and its log.
        hold_s: How long a request waits for an instance; 0: not at all.
        hold_most: How many may.
        slots: Placeholder servers; 0: servers are added.
        imbalance: The bound on an instance's load, in percent of the mean; 0: none.
        program: What starts HAProxy; None: the machine's own.
    """

    def __init__(
        self,
        root: Path,
        *,
        hold_s: int = 20,
        hold_most: int = 200,
        slots: int = 0,
        imbalance: int = 0,
        program: Path | None = None,
    ) -> None:
        super().__init__(root, environ={**os.environ})  # noqa: TID251 (HAProxy's)
        if program is not None:
            self.argv[0] = str(program)
        self._old: subprocess.Popen[bytes] | None = None
        self.http_port, self.grpc_port, peers = free_ports(3)
        (root / DOOR_LUA).write_text(door_text())
        lua = str(root / DOOR_LUA)
        keyed = KeyedRouting(
            door_lua=lua,
            hold_s=hold_s,
            hold_most=hold_most,
            imbalance=imbalance,
            peers_port=peers,
        )
        self.settings = HaproxyCfgSettings(
            address="127.0.0.1",
            http_port=self.http_port,
            grpc_port=self.grpc_port,
            stats_port=0,
            socket=str(self.socket),
            user="",
            group="",
            slots=slots,
            keyed=keyed,
        )
        self.file.write_text(render(self.settings))

    @property
    def grpc_address(self) -> str:
        """Where gRPC is spoken."""
        return f"127.0.0.1:{self.grpc_port}"

    def reload(self) -> None:
        """Start a new process; the old one ends once its requests and its table are handed on."""
        old = self._process
        assert old is not None
        self._process = self._spawned(*self.argv, "-sf", str(old.pid))
        self.wait()
        self._old = old

    def stop(self) -> None:
        # The old one first: it hands its table to the new one, and waits as long as that is away.
        if self._old is not None:
            self._old.wait(60)
        super().stop()


ECHO = """global
  stats socket {socket} level admin
{more}
defaults
  mode http
  timeout connect 2s
  timeout client 20s
  timeout server 20s
{frontends}
backend b
backend b_keyed
"""
ASK_AGAIN = 20
ANSWER = (
    '  http-request return status 200 content-type text/plain lf-string "'
    '%[var(txn.tarn_key)]|%[var(txn.tarn_stick)]|%[var(txn.tarn_end)]|%[var(txn.held)]"'
)


class EchoHaproxy(HaproxyServer):
    """One that answers the key of each request instead of passing it on."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        (root / DOOR_LUA).write_text(door_text())
        self.ports = dict(zip(("http", "grpc"), free_ports(2), strict=True))
        routing = KeyedRouting(door_lua=str(root / DOOR_LUA), hold_s=0, peers_port=0)
        frontends = []
        for protocol, port in self.ports.items():
            frontends += [f"frontend {protocol}_in", f"  bind 127.0.0.1:{port}"]
            holds = (
                f"  http-request set-var(txn.held) int(1) if {{ path_reg {HELD_PATHS[protocol]} }}"
            )
            frontends += [begin_line(protocol), *key_lines(protocol, "b", routing), holds, ANSWER]
        more, lines = "\n".join(routing.global_lines(alone=True)), "\n".join(frontends)
        self.file.write_text(ECHO.format(socket=self.socket, more=more, frontends=lines))

    def post(
        self, protocol: str, path: str, body: bytes, headers: Mapping[str, str] | None = None
    ) -> tuple[int, str]:
        """Return the status, and what was found: key, stick, end, holds; or the error."""
        for _ in range(ASK_AGAIN):
            # It answers by the head of a body and closes: a client that still sends may not see it.
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                return self._post(protocol, path, body, dict(headers or {}))
        raise AssertionError(f"{path}: cut {ASK_AGAIN} times")

    def _post(
        self, protocol: str, path: str, body: bytes, headers: dict[str, str]
    ) -> tuple[int, str]:
        link = http.client.HTTPConnection("127.0.0.1", self.ports[protocol], timeout=30)
        try:
            link.request("POST", path, body, headers)
            answer = link.getresponse()
            told = answer.getheader("grpc-message")
            assert told is None or answer.getheader("content-type") == "application/grpc"
            return answer.status, told or answer.read().decode()
        finally:
            link.close()


def sequence_body(
    seq: object, step: int, last: int, *, values: int = 1, binary: bool = True, first: bool = True
) -> tuple[bytes, dict[str, str]]:
    """Return the body and the headers of one request of a sequence.

    Args:
        seq: The sequence's id.
        step: Which of its requests, from 0.
        last: The number of the last one.
        values: How many the tensor has.
        binary: Whether it is binary, behind the JSON.
        first: Whether the parameters come before the tensor.
    """
    given = {"sequence_id": seq, "sequence_start": step == 0, "sequence_end": step == last}
    tensor: dict[str, object] = {"name": "IN", "shape": [1, values], "datatype": "FP32"}
    data, headers = b"", dict[str, str]()
    if binary:
        data = np.ones(values, np.float32).tobytes()
        tensor["parameters"] = {"binary_data_size": len(data)}
    else:
        tensor["data"] = [1.0] * values
    parts = [("parameters", given), ("inputs", [tensor])]
    text = json.dumps(dict(parts if first else reversed(parts))).encode()
    if binary:
        headers["Inference-Header-Content-Length"] = str(len(text))
    return text + data, headers


def tell_rules(haproxy: HaproxyServer, *commands: str) -> None:
    """Tell HAProxy the rules as the agent does."""
    haproxy.command(";".join(["experimental-mode on", *commands]))


class PlayedSequences:
    """As much of a Triton with a sequence model as HAProxy sees; its sums are as `SUM`'s."""

    def __init__(self, number: int) -> None:
        self.sums: dict[object, float] = {}
        self.asked = 0
        self.before: Callable[[], object] = lambda: None
        """Called before each answer."""
        played = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = -1  # one packet an answer

            def do_GET(self) -> None:
                self.answer(200, b"")

            def do_POST(self) -> None:
                text = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                size = int(self.headers.get("Inference-Header-Content-Length", len(text)))
                status, said = played.infer(json.loads(text[:size]).get("parameters", {}))
                self.answer(status, json.dumps(said).encode())

            def answer(self, status: int, body: bytes) -> None:
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        class Server(ThreadingHTTPServer):
            request_queue_size = 512

            def handle_error(self, *_: object) -> None:
                """Say nothing of connections that HAProxy drops."""

        self._server = Server(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()
        port = self._server.server_port
        endpoint = Endpoint("127.0.0.1", port, port, port)
        self.member = Member(f"fleet-{number:04d}", f"c-{number}", endpoint, "aaaaaaaaaaaa")

    def infer(self, given: Mapping[str, object]) -> tuple[int, dict[str, object]]:
        """Return the status and the answer of a request with these parameters."""
        self.asked += 1
        self.before()
        seq = given.get("sequence_id")
        if given.get("sequence_start"):
            self.sums[seq] = 0.0
        if seq is not None and seq not in self.sums:
            return 400, {"error": f"sequence {seq} must specify the START flag"}
        if seq is not None:
            self.sums[seq] += 1.0
        return 200, {"outputs": [{"name": "OUT", "data": [self.sums.get(seq, 0.0)]}]}

    def close(self) -> None:
        """End it."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)


class SequenceClient:
    """Sends sequences over HTTP, on one connection for each thread, and keeps what came back."""

    def __init__(self, port: int, *, timeout_s: float = 60.0, **body: Any) -> None:
        self.port, self._timeout_s, self._body = port, timeout_s, body
        self.chunked = bool(body.pop("chunked", False))
        self.got: dict[object, list[object]] = {}
        self._lock = threading.Lock()

    def step(self, seq: object, step: int, last: int, model: str = "acc") -> None:
        """Send one request of a sequence; keep its sum, or the status and the error."""
        data, headers = sequence_body(seq, step, last, **self._body)
        link = http.client.HTTPConnection("127.0.0.1", self.port, timeout=self._timeout_s)
        try:
            body: Any = data
            if self.chunked:
                body = (data[at : at + 8000] for at in range(0, len(data), 8000))
            link.request(
                "POST", f"/v2/models/{model}/infer", body, headers, encode_chunked=self.chunked
            )
            answer = link.getresponse()
            said = json.loads(answer.read() or b"{}")
            good = answer.status == 200
            found = said["outputs"][0]["data"][0] if good else (answer.status, said.get("error"))
        except (OSError, http.client.HTTPException) as error:
            found = (0, type(error).__name__)
        finally:
            link.close()
        with self._lock:
            self.got.setdefault(seq, []).append(found)

    def steps(
        self, ids: Iterable[object], steps: Iterable[int], last: int, at_once: int = 8
    ) -> None:
        """Send these steps of each sequence, each after the answer of the one before."""
        steps = tuple(steps)

        def whole(seq: object) -> None:
            for step in steps:
                self.step(seq, step, last)

        with ThreadPoolExecutor(at_once) as pool:
            list(pool.map(whole, ids))

    def wrong(self) -> dict[object, list[object]]:
        """Return the sequences with an answer that is neither the right sum nor an error."""
        return {
            seq: row
            for seq, row in self.got.items()
            if any(not isinstance(x, tuple) and x != n + 1 for n, x in enumerate(row))
        }

    def failed(self) -> dict[object, list[object]]:
        """Return the sequences with an error."""
        return {seq: row for seq, row in self.got.items() if any(isinstance(x, tuple) for x in row)}
