"""A real HAProxy that asks whether requests may pass, between a played master and a played Triton.

The master answers `/authorize` as the real one does, or as a broken one would (`Master.mode`). The
Triton keeps what reached it. Everything is on loopback.
"""

import contextlib
import os
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

import attrs

from servers.haproxy import HaproxyServer
from servers.keyed_haproxy import RULES, tell_rules
from servers.process import free_port, free_ports
from tarn_plugins.discovery.haproxy.affinity_text import HaproxyRules
from tarn_plugins.discovery.haproxy.authz import LUA, Authz, lua_text
from tarn_plugins.discovery.haproxy.configuration import HaproxyCfgSettings, render
from tarn_plugins.discovery.haproxy.keyed_routing import DOOR_LUA, KeyedRouting, door_text

TOKEN, GATE = "token-of-this-proxy-01", "gate-of-knox-0123456789abcdef"
Question = tuple[str, str, str]
"""(user, action, model)"""


class AuthorizingMaster:
    """Answers questions; ``mode`` says how, `rights` what.

    Args:
        tls: None: in clear text.
    """

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self._tls = tls
        self.mode = "well"
        self.delay_s = 0.0
        self.rights: Callable[[Question], bool] = lambda _asked: True
        self.asked: list[Question] = []
        self.tokens: set[str] = set()
        self.release = threading.Event()
        self._ended = threading.Event()
        self._open: set[socket.socket] = set()
        self._door: socket.socket | None = None
        self._threads: list[threading.Thread] = []
        self.port = free_port()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self.stop()

    def start(self) -> None:
        """Listen, at the same port as ever."""
        self._ended.clear()
        self._door = socket.create_server(("127.0.0.1", self.port), backlog=512)
        self._spawn(self._accept, self._door)

    def stop(self) -> None:
        """Be gone: new connections are refused, open ones are closed."""
        self._ended.set()
        self.release.set()
        if self._door is not None:
            self._door.shutdown(socket.SHUT_RDWR)
            self._door.close()
            self._door = None
        for one in tuple(self._open):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(10)
        self._threads.clear()
        self.release.clear()

    def times(self, question: Question) -> int:
        """Count how often *question* was asked."""
        return self.asked.count(question)

    def _spawn(self, work: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=work, args=arguments)
        self._threads.append(thread)
        thread.start()

    def _accept(self, door: socket.socket) -> None:
        while not self._ended.is_set():
            try:
                one, _ = door.accept()
            except OSError:
                return
            self._spawn(self._serve, one)

    def _serve(self, raw: socket.socket) -> None:
        with raw, contextlib.suppress(OSError), self._spoken(raw) as one:
            self._open.add(one)
            while head := self._head(one):
                self._answer(one, head)

    def _spoken(self, one: socket.socket) -> socket.socket:
        return one if self._tls is None else self._tls.wrap_socket(one, server_side=True)

    @staticmethod
    def _head(one: socket.socket) -> str:
        head = b""
        while b"\r\n\r\n" not in head:
            if not (more := one.recv(4096)):
                return ""
            head += more
        return head.decode("latin-1")

    def _answer(self, one: socket.socket, head: str) -> None:
        query = parse_qs(urlsplit(head.split()[1]).query)
        question = (query["user"][0], query["action"][0], query["model"][0])
        self.asked.append(question)
        rows = (line.partition(":") for line in head.split("\r\n"))
        token = "".join(row[2].strip() for row in rows if row[0].lower() == "x-tarn-token")
        self.tokens.add(token)
        if self.mode == "hangs":
            self.release.wait(30)
            return one.close()
        if self.mode == "resets":
            one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            return one.close()
        if self.mode.startswith("drips"):
            return self._drip(one)
        self._ended.wait(self.delay_s)
        one.sendall(self._said(question, token))
        return None

    def _said(self, question: Question, token: str) -> bytes:
        word = "true" if self.rights(question) else "false"
        odd = {
            "html": (200, "<html>true</html>"),
            "garbage": (200, "tru"),
            "loud": (200, "TRUE"),
            "huge": (200, "true" + " " * 3_000_000),
            "fails": (500, "true"),
            "empty": (204, ""),
            "forbids": (403, "true"),
            "begins": (503, "true"),
            "hurried": (429, "true"),
        }
        status, body = odd.get(self.mode, (200, word))
        if token != TOKEN:
            status, body = 401, "no"
        if self.mode == "no-http":
            return b"hello\r\n\r\n"
        if self.mode == "endless":
            return b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\ntrue"
        length = f"Content-Length: {len(body)}\r\n"
        return f"HTTP/1.1 {status} X\r\n{length}\r\n{body}".encode()

    def _drip(self, one: socket.socket) -> None:
        text = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n"
        if self.mode == "drips-body":
            one.sendall(text + b"\r\n")
            text = b"true"
        else:
            text += b"X-Long: " + b"y" * 4000 + b"\r\n\r\ntrue"
        for sign in text:
            if self.release.wait(0.15):
                return
            one.sendall(bytes([sign]))


class _Quiet(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 512

    def handle_error(self, *_: object) -> None:
        """Say nothing: a connection that HAProxy keeps is reset at its end."""


class RecordingTriton:
    """Answers 200 to everything, and keeps what it was asked; a stream comes word by word."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str, list[tuple[str, str]]]] = []
        self._server = _Quiet(("127.0.0.1", 0), self._handler())
        self.port = self._server.server_port
        self._thread = threading.Thread(target=self._server.serve_forever)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(10)

    @property
    def paths(self) -> list[str]:
        """Return the paths that were asked for, with their queries."""
        return [path for _, path, _ in self.seen]

    def last(self, header: str) -> list[str]:
        """Return the values of *header* in the newest request."""
        return [value for name, value in self.seen[-1][2] if name.lower() == header.lower()]

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        seen = self.seen

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: object) -> None:
                """Say nothing."""

            def do_GET(self) -> None:
                if not self.headers.get("X-Check") and self.path != "/v2/health/ready":
                    seen.append((self.command, self.path, list(self.headers.items())))
                self.rfile.read(int(self.headers.get("Content-Length", 0)))
                if self.path.endswith("generate_stream"):
                    return self._stream()
                self.send_response(200)
                self.send_header("Content-Length", "2")
                self.end_headers()
                return self.wfile.write(b"ok") and None

            do_POST = do_HEAD = do_PUT = do_GET  # noqa: N815 (the names of the base class)

            def _stream(self) -> None:
                self.send_response(200)
                self.send_header("Content-Type", "text/event-stream")
                self.send_header("Connection", "close")
                self.end_headers()
                for number in range(4):
                    self.wfile.write(f"data: {number}\n\n".encode())
                    self.wfile.flush()
                    threading.Event().wait(0.15)
                self.close_connection = True

        return Handler


@attrs.frozen
class Answer:
    """What a client got."""

    status: int
    body: bytes
    after_s: float = 0.0


class GuardedHaproxy(HaproxyServer):
    """A HAProxy with the rendered files, as `tarn lb haproxy config --authz` writes them.

    Args:
        root: For its files and its log.
        master: Where it asks; None: the agent says it.
        triton: Which HTTP port its requests go to; 0: there is no server.
        more: Of `Authz`.
        settings: Of `HaproxyCfgSettings`.
    """

    def __init__(
        self,
        root: Path,
        master: AuthorizingMaster | None,
        triton: int,
        more: dict[str, Any] | None = None,
        **settings: Any,
    ) -> None:
        environ = {**os.environ, "TARN_PROXY_TOKEN": TOKEN, "TARN_KNOX_GATE": GATE}  # noqa: TID251
        super().__init__(root, environ)
        self.environ = environ
        self.triton = triton
        self.http_port, self.ask_port, self.certificate_port, peers = free_ports(4)
        (root / LUA).write_text(lua_text())
        (root / DOOR_LUA).write_text(door_text())
        keyed = KeyedRouting(door_lua=str(root / DOOR_LUA), hold_s=1, peers_port=peers)
        asked = {
            "lua": str(root / LUA),
            "knox": ("127.0.0.1",),
            "ask_port": self.ask_port,
            "certificate_port": self.certificate_port,
            "master": "" if master is None else f"127.0.0.1:{master.port}",
        }
        plain = {
            "address": "*",
            "http_port": self.http_port,
            "grpc_port": 0,
            "stats_port": 0,
            "socket": str(self.socket),
            "user": "",
            "group": "",
        }
        self.settings = HaproxyCfgSettings(
            **{"answers": False, "keyed": keyed, **plain, **settings},
            authz=Authz(**{**asked, **(more or {})}),
        )

    def __enter__(self) -> Self:
        self.file.write_text(render(self.settings))
        super().__enter__()
        if self.triton:
            self.add("triton_backend/t", self.triton)
            self.add("triton_backend_keyed/t", self.triton)
            # without an agent nobody else says which models keep sequences
            tell_rules(self, *HaproxyRules.read(RULES).commands)
            self.command("experimental-mode on;set var proc.tarn_filled int(1)")
        return self

    def raw(self, request: bytes, source: str = "127.0.0.1", within_s: float = 10) -> Answer:
        """Send bytes, read to the end."""
        began_s = time.monotonic()
        where = ("127.0.0.1", self.http_port)
        with socket.create_connection(where, within_s, (source, 0)) as one:
            one.sendall(request)
            got = b"".join(iter(lambda: one.recv(65536), b""))
        status = int(got.split(None, 2)[1]) if got.startswith(b"HTTP/1.") else 0
        return Answer(status, got.partition(b"\r\n\r\n")[2], time.monotonic() - began_s)

    def ask(
        self, target: str, method: str = "GET", source: str = "127.0.0.2", **headers: str
    ) -> Answer:
        """Ask as anybody does."""
        lines = [f"{method} {target} HTTP/1.1", "Host: lb", "Connection: close"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        if method == "POST":
            lines.append("Content-Length: 0")
        return self.raw("\r\n".join([*lines, "", ""]).encode("latin-1"), source)

    def knox(self, target: str, method: str = "GET", user: str = "alice", **more: str) -> Answer:
        """Ask as Knox does for *user*: from its address, with the gate, the name last."""
        between = "&" if "?" in target else "?"
        gated = {"X_Tarn_Gate": GATE, **more}
        return self.ask(f"{target}{between}user.name={user}", method, "127.0.0.1", **gated)


@contextlib.contextmanager
def guarded(
    root: Path, **more: Any
) -> Iterator[tuple[AuthorizingMaster, RecordingTriton, GuardedHaproxy]]:
    """Yield the three of them."""
    with (
        AuthorizingMaster() as master,
        RecordingTriton() as triton,
        GuardedHaproxy(root, master, triton.port, more) as door,
    ):
        yield master, triton, door
