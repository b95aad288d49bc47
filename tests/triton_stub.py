"""As much of a Triton as a master asks, with fixed answers, and a fleet of several."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

import attrs
from fake_master import instance, snapshot

from tarn.domain import Endpoint
from tarn.read.snapshot import Snapshot

__all__ = ["TritonStub", "fleet_of", "statistics", "stub_answers"]


class TritonStub:
    """One Triton; its answers are by path."""

    def __init__(self, answers: dict[str, tuple[int, Any]]) -> None:
        self.answers = answers
        self.asked: list[tuple[str, str, str]] = []
        self.bodies: list[bytes] = []
        """Those of requests that have one."""
        self.go_on = threading.Event()
        self.go_on.set()
        stub = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = -1

            def do_GET(self) -> None:
                size = int(self.headers.get("Content-Length") or 0)
                stub.bodies += [self.rfile.read(size)] if size else []
                stub.asked.append((self.command, self.path, self.headers.get("tarn-key") or ""))
                stub.go_on.wait(20)
                status, body = stub.answers.get(self.path, (404, {"error": "Not Found"}))
                text = b"" if body is None else json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            do_POST = do_GET  # noqa: N815 (the library's name)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()
        port = self._server.server_port
        self.endpoint = Endpoint("127.0.0.1", port, port, port)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.go_on.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)


def statistics(count: int, name: str = "echo") -> dict[str, Any]:
    row = {"name": name, "version": "1", "inference_count": count, "batch_stats": []}
    return {"model_stats": [row]}


def stub_answers(count: int = 1) -> dict[str, tuple[int, Any]]:
    rows = [{"name": "echo", "version": "1", "state": "READY"}]
    return {
        "/v2": (200, {"name": "triton", "version": "2", "extensions": ["a"]}),
        "/v2/models/stats": (200, statistics(count)),
        "/v2/models/echo/stats": (200, statistics(count)),
        "/v2/models/echo": (200, {"name": "echo"}),
        "/v2/models/echo/ready": (200, None),
        "/v2/repository/index": (200, rows),
        "/v2/logging": (200, {"log_info": True}),
        "/v2/trace/setting": (200, {"trace_rate": "1"}),
    }


def fleet_of(tritons: tuple[TritonStub, ...], **changes: Any) -> Snapshot:
    return snapshot(
        *(
            attrs.evolve(instance(n), endpoint=one.endpoint, **changes)
            for n, one in enumerate(tritons, 1)
        )
    )
