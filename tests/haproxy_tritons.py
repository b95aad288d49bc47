"""As much of a Triton as HAProxy sees, and views that name some."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from servers.haproxy import ThreeBackendHaproxy

from tarn.domain import DiscoveryView, Endpoint, Epoch, Member

EPOCH = Epoch(1_700_000_000_000, 2)


class Triton:
    """As much of a Triton as HAProxy sees: ready, or not, and requests that last."""

    def __init__(self, number: int) -> None:
        self.ready = True
        self.go_on = threading.Event()
        self.begun = threading.Event()
        triton = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = -1  # one packet an answer

            def do_GET(self) -> None:
                if self.path == "/slow":
                    triton.begun.set()
                    triton.go_on.wait(30)
                good = triton.ready or self.path != "/v2/health/ready"
                text = str(number).encode()
                self.send_response(200 if good else 400)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *_: object) -> None:
                pass

        class Server(ThreadingHTTPServer):
            def handle_error(self, *_: object) -> None:
                """Say nothing of connections that HAProxy drops."""

        self._server = Server(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()
        self.port = self._server.server_port
        self.member = member(number, self.port)

    def close(self) -> None:
        self.go_on.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)


def member(number: int, port: int, host: str = "127.0.0.1") -> Member:
    endpoint = Endpoint(host, port, port, port)
    return Member(f"fleet-{number:04d}", f"container-{number}", endpoint, "aaaaaaaaaaaa")


def view(revision: int, *members: Member, complete: bool = True) -> DiscoveryView:
    return DiscoveryView(EPOCH, revision, complete, tuple(sorted(members)))


def served_by(haproxy: ThreeBackendHaproxy, port: int = 0) -> str:
    """Return the number of the Triton that answered, or the status."""
    status, body = haproxy.get(port=port)
    return body.decode() if status == 200 else str(status)
