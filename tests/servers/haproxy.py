"""A real HAProxy for tests: with a configuration of ours, or with one that TARN renders."""

import contextlib
import http.client
import os
import re
import shutil
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Self

import attrs
import pytest
from short_folder import short_folder

from servers.newer_haproxy import SERIES, haproxy_program
from servers.process import END_S, ServerProcess, free_port, free_ports
from tarn_plugins.discovery.haproxy.configuration import HaproxyCfgSettings, render
from tarn_plugins.discovery.haproxy.runtime_api import RuntimeApi
from tarn_plugins.discovery.haproxy.runtime_messages import BackendServer, servers_in

# Who runs the tests may name a program, or the series of a newer HAProxy.
_CHOSEN = os.environ.get("TARN_TEST_HAPROXY", "")  # noqa: TID251
if _CHOSEN in SERIES:
    _CHOSEN = str(haproxy_program(SERIES[_CHOSEN]))
HAPROXY = _CHOSEN or shutil.which(
    "haproxy", path="/usr/sbin:/usr/local/sbin:/usr/bin:/usr/local/bin"
)
BACKEND, GRPC_BACKEND, SLOTS_BACKEND = "triton_backend", "triton_grpc", "slots_backend"

_THREE_BACKENDS = """\
global
  stats socket {socket} mode 600 level admin
  stats socket {socket}.operator mode 600 level operator
  maxconn 2000
  nbthread 2
defaults
  mode http
  timeout connect 2s
  timeout client 60s
  timeout server 60s
  timeout queue 5s
  timeout check 2s
  option redispatch
  retries 3
frontend http_in
  bind 127.0.0.1:{http}
  default_backend triton_backend
frontend grpc_in
  bind 127.0.0.1:{grpc} proto h2
  default_backend triton_grpc
frontend slots_in
  bind 127.0.0.1:{slots}
  default_backend slots_backend
backend triton_backend
  balance leastconn
  option httpchk GET /v2/health/ready
{static}
backend triton_grpc
  balance leastconn
  option httpchk GET /v2/health/ready
backend slots_backend
  balance leastconn
  option httpchk GET /v2/health/ready
{placeholders}
"""
_ONE_BACKEND = """global
  stats socket {socket} level admin
defaults
  mode http
  timeout connect 2s
  timeout client 30s
  timeout server 30s
  timeout queue 2s
frontend door
  bind 127.0.0.1:{port}
  default_backend {backend}
backend {backend}
  balance leastconn
  option httpchk GET /v2/health/ready
"""
_LINE = re.compile(
    r"\S+ \[(?P<when>[^\]]+)\] \S+ (?P<backend>[^/\s]+)/(?P<server>\S+) "
    r"(?P<TR>-?\d+)/(?P<Tw>-?\d+)/(?P<Tc>-?\d+)/(?P<Tr>-?\d+)/\+?(?P<Ta>-?\d+) "
    r"(?P<status>-?\d+) \+?\d+ \S+ \S+ (?P<ending>\S{4}) "
    r"\d+/\d+/\d+/\d+/\+?(?P<retries>\d+) \d+/\d+ (?:\{[^}]*\} )*\"(?P<request>.*)\"$"
)


class HaproxyServer(ServerProcess):
    """One HAProxy in the foreground, which may be killed, started again and reloaded.

    Args:
        root: For its file and its log.
        environ: None: the test's.
    """

    def __init__(self, root: Path, environ: Mapping[str, str] | None = None) -> None:
        self.root = root
        self.socket = short_folder(self) / "ha.sock"
        self.file = root / "haproxy.cfg"
        argv = [HAPROXY or "haproxy", "-db", "-f", str(self.file)]
        super().__init__(argv, root / "haproxy.log", environ)

    def answers(self) -> bool:
        with contextlib.suppress(OSError):
            return "Pid:" in self.command("show info")
        return False

    def reload(self) -> None:
        """Start a new process that takes over from the old one, as a reload does."""
        old = self._process
        assert old is not None
        self._process = self._spawned(*self.argv, "-sf", str(old.pid))
        old.wait(END_S)
        self.wait()

    def command(self, text: str) -> str:
        """Say *text* to its socket, as an operator does; return the answer."""
        with socket.socket(socket.AF_UNIX) as one:
            one.settimeout(END_S)
            one.connect(str(self.socket))
            one.sendall(f"{text}\n".encode())
            return b"".join(iter(lambda: one.recv(65536), b"")).decode().strip()

    def statistics(self, backend: str = BACKEND) -> dict[str, Mapping[str, str]]:
        """Return the row of ``show stat`` of each server of a backend, and of ``BACKEND``."""
        head, *rows = self.command("show stat").removeprefix("# ").splitlines()
        names = head.split(",")
        every = (dict(zip(names, row.split(","), strict=True)) for row in rows)
        return {row["svname"]: row for row in every if row["pxname"] == backend}

    def add(self, server: str, port: int) -> None:
        """Add ``backend/name``, ready for requests."""
        self.command(f"add server {server} 127.0.0.1:{port}")
        self.command(f"set server {server} state ready")


class ThreeBackendHaproxy(HaproxyServer):
    """One with backends for HTTP and gRPC, and one with placeholder servers.

    Args:
        root: For its file and its log.
        static: Lines of servers that the operator wrote into the HTTP backend.
        placeholders: How many placeholder servers ``triton-<n>`` the slots' backend has.
    """

    def __init__(self, root: Path, static: str = "", placeholders: int = 4) -> None:
        super().__init__(root)
        self.operator_socket = self.socket.with_name("ha.sock.operator")
        self.http_port, self.grpc_port, self.slots_port = free_ports(3)
        servers = "\n".join(
            f"  server triton-{n} 0.0.0.0:8000 check inter 500ms fastinter 100ms downinter 50ms "
            "rise 1 fall 3 disabled"
            for n in range(1, placeholders + 1)
        )
        self.file.write_text(
            _THREE_BACKENDS.format(
                socket=self.socket,
                http=self.http_port,
                grpc=self.grpc_port,
                slots=self.slots_port,
                static=static,
                placeholders=servers,
            )
        )
        self.api = RuntimeApi(self.socket, 5.0, "stage")

    def ask(self, *commands: str) -> list[str]:
        """Ask the Runtime API as TARN does."""
        return self.api.ask(commands)

    def servers(self, backend: str = BACKEND) -> dict[str, BackendServer]:
        return {s.name: s for s in servers_in(self.ask(f"show servers state {backend}")[0])}

    def serving(self, backend: str = BACKEND) -> dict[str, tuple[str, int]]:
        """Return the servers that may get traffic: name to address and port."""
        return {n: (s.address, s.port) for n, s in self.servers(backend).items() if s.serves}

    def column(self, name: str, column: str, backend: str = BACKEND) -> str:
        """Return one column of ``show stat`` for one server, or for BACKEND."""
        return self.statistics(backend)[name][column]

    def get(self, path: str = "/v2", port: int = 0, timeout_s: float = 10) -> tuple[int, bytes]:
        """Send one request on a connection of its own."""
        connection = http.client.HTTPConnection(
            "127.0.0.1", port or self.http_port, timeout=timeout_s
        )
        with contextlib.closing(connection):
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read()


class OneBackendHaproxy(HaproxyServer):
    """One without a server, or with placeholders ``triton-1``, ``triton-2`` and so on."""

    def __init__(self, root: Path, slots: int = 0) -> None:
        super().__init__(root)
        self.port = free_port()
        text = _ONE_BACKEND.format(socket=self.socket, port=self.port, backend=BACKEND)
        if slots:
            text += f"  server-template triton- 1-{slots} 127.0.0.1:1 check inter 1s disabled\n"
        self.file.write_text(text)

    def servers(self) -> dict[str, str]:
        """Return the servers that may get traffic: name to address."""
        _, head, *rows = self.command(f"show servers state {BACKEND}").splitlines()
        names = head.lstrip("# ").split()
        shown = [dict(zip(names, row.split(), strict=False)) for row in rows if row]
        return {
            row["srv_name"]: f"{row['srv_addr']}:{row['srv_port']}"
            for row in shown
            if row["srv_admin_state"] in {"0", "4"}  # 4: it began in maintenance, and is not now
        }


@attrs.frozen
class LoggedRequest:
    """What HAProxy says of one request, in Unix seconds, exact to a millisecond."""

    began: float
    """The first byte of the request came."""
    sent: float
    """A server was chosen, and a connection to it began."""
    ended: float
    server: str
    status: int
    ending: str
    """The four letters of its end; ``----`` is a good one."""
    request: str

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Read a line of ``option httplog``; None where it is something else."""
        found = _LINE.match(text)
        if found is None:
            return None
        began = datetime.strptime(found["when"], "%d/%b/%Y:%H:%M:%S.%f").astimezone().timestamp()
        before_ms = max(0, int(found["TR"])) + max(0, int(found["Tw"]))
        return cls(
            began,
            began + before_ms / 1000,
            began + int(found["Ta"]) / 1000,
            found["server"],
            int(found["status"]),
            found["ending"],
            found["request"],
        )

    @property
    def number(self) -> int | None:
        """What the client's query says as ``n``."""
        found = re.search(r"[?&]n=(\d+)", self.request)
        return None if found is None else int(found[1])


class RenderedHaproxy(HaproxyServer):
    """One with the file that ``tarn lb haproxy config`` renders.

    Its own texts are the witness: its statistics, and a line of its log for each request.

    Args:
        root: Where its files are.
        cluster: Named in the file.
        grpc: Whether it takes gRPC, too.
    """

    within_s = 60.0

    def __init__(self, root: Path, cluster: str = "", *, grpc: bool = True) -> None:
        super().__init__(root)
        self.http_port, self.grpc_port = free_ports(2)
        self.settings = HaproxyCfgSettings(
            cluster=cluster,
            address="127.0.0.1",
            http_port=self.http_port,
            grpc_port=self.grpc_port if grpc else 0,
            stats_port=0,
            socket=str(self.socket),
            user="",
            group="",
        )
        self.file.write_text(render(self.settings))

    @property
    def address(self) -> str:
        """Where HTTP is spoken."""
        return f"127.0.0.1:{self.http_port}"

    @property
    def grpc_address(self) -> str:
        """Where gRPC is spoken."""
        return f"127.0.0.1:{self.grpc_port}"

    def info(self, name: str) -> int:
        """Return one number of ``show info``."""
        lines = self.command("show info").splitlines()
        return int(next(line for line in lines if line.startswith(f"{name}:")).partition(":")[2])

    def servers(self, backend: str = "") -> dict[str, Mapping[str, str]]:
        """Return the statistics of each server of a backend."""
        groups = ("FRONTEND", "BACKEND")
        rows = self.statistics(backend or self.settings.backend)
        return {name: row for name, row in rows.items() if name not in groups}

    def taking(self, backend: str = "") -> dict[str, str]:
        """Return the servers that new requests may go to: address to name."""
        return {
            row["addr"]: name
            for name, row in self.servers(backend).items()
            if row["status"].startswith(("UP", "no check")) and row["weight"] != "0"
        }

    def lines(self) -> list[LoggedRequest]:
        """Return what was logged so far, in the order in which requests ended."""
        read = map(LoggedRequest.parse, self.said().splitlines())
        return [line for line in read if line is not None]

    def first_sent(self, server: str) -> float:
        """Return when *server* got its first request, in Unix seconds; 0 before."""
        return min((line.sent for line in self.lines() if line.server == server), default=0.0)


class SocketTap:
    """A Unix socket that leads to HAProxy's, and keeps what is said to it.

    A connection is one round trip of the agent: many commands, then all their answers.

    Args:
        to: HAProxy's socket.
        name: Of this one, in the same folder.
    """

    READS = ("show ", "get ", "prompt", "quit", "help", "experimental-mode ")
    """Of what is said, that which changes nothing."""

    def __init__(self, to: Path, name: str = "tap.sock") -> None:
        self.socket, self._to = to.with_name(name), to
        self._said: list[list[bytes]] = []
        self._listener = socket.socket(socket.AF_UNIX)
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> Self:
        self._listener.bind(str(self.socket))
        self._listener.listen(64)
        self._start(self._accept)
        return self

    def __exit__(self, *_exc: object) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join(10)

    @property
    def heard(self) -> list[list[str]]:
        """The commands of each connection."""
        texts = (b"".join(said).decode().replace(";", "\n") for said in tuple(self._said))
        return [[word.strip() for word in text.split("\n") if word.strip()] for text in texts]

    @property
    def writes(self) -> list[str]:
        """The commands that were meant to change something."""
        every = (command for one in self.heard for command in one)
        return [command for command in every if not command.startswith(self.READS)]

    def forget(self) -> None:
        """Begin to listen again."""
        self._said.clear()

    def _start(self, work: Callable[..., None], *given: object) -> None:
        self._threads.append(threading.Thread(target=work, args=given, name="tap", daemon=True))
        self._threads[-1].start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self._start(self._relay, client)

    def _relay(self, client: socket.socket) -> None:
        """Hand on both ways until HAProxy has said all."""
        with client, socket.socket(socket.AF_UNIX) as server:
            try:
                server.connect(str(self._to))
            except OSError:
                return  # as HAProxy's own socket: a connection, and no answer
            said: list[bytes] = []
            self._said.append(said)
            back = threading.Thread(target=poured, args=(client, server, said.append), daemon=True)
            back.start()
            poured(server, client)
            back.join(10)


def poured(
    of: socket.socket, into: socket.socket, keep: Callable[[bytes], None] = lambda _block: None
) -> None:
    """Hand on what *of* says until it ends, then end *into*."""
    with contextlib.suppress(OSError):
        while block := of.recv(65536):
            keep(block)
            into.sendall(block)
    for one in (of, into):
        with contextlib.suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def haproxy(tmp_path: Path) -> Iterator[ThreeBackendHaproxy]:
    """A HAProxy of the test's own (it starts in some 30 ms), with four placeholder servers."""
    if HAPROXY is None:
        pytest.skip("haproxy is not installed")
    with ThreeBackendHaproxy(tmp_path) as one:
        yield one
