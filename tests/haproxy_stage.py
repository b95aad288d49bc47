"""A real HAProxy for tests: in a directory of its own, on free ports, stopped by its pid."""

import contextlib
import http.client
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from short_folder import short_folder

from tarn.testing.wait import until
from tarn_plugins.discovery.haproxy.runtime_api import RuntimeApi
from tarn_plugins.discovery.haproxy.stats_parser import BackendServer, servers_in

HAPROXY = shutil.which("haproxy", path="/usr/sbin:/usr/local/sbin:/usr/bin:/usr/local/bin")
BACKEND, GRPC_BACKEND, SLOTS_BACKEND = "triton_backend", "triton_grpc", "slots_backend"

_CONFIGURATION = """\
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


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class HAProxyStage:
    """One HAProxy, which may be killed, started again and reloaded.

    Args:
        root: For its configuration and its log.
        static: Lines of servers that the operator wrote into the HTTP backend.
        placeholders: How many placeholder servers ``triton-<n>`` the slots' backend has.
    """

    def __init__(self, root: Path, static: str = "", placeholders: int = 4) -> None:
        self.root = root
        self.socket = short_folder(self) / "ha.sock"
        self.operator_socket = self.socket.with_name("ha.sock.operator")
        self.http_port, self.grpc_port, self.slots_port = (free_port() for _ in range(3))
        servers = "\n".join(
            f"  server triton-{n} 0.0.0.0:8000 check inter 500ms fastinter 100ms downinter 50ms "
            "rise 1 fall 3 disabled"
            for n in range(1, placeholders + 1)
        )
        self.configuration = root / "haproxy.cfg"
        self.configuration.write_text(
            _CONFIGURATION.format(
                socket=self.socket,
                http=self.http_port,
                grpc=self.grpc_port,
                slots=self.slots_port,
                static=static,
                placeholders=servers,
            )
        )
        self._process: subprocess.Popen[bytes] | None = None
        self.api = RuntimeApi(self.socket, 5.0, "stage")

    def start(self) -> None:
        """Start it in the foreground; back when its socket answers."""
        with (self.root / "haproxy.log").open("ab") as log:
            self._process = subprocess.Popen(
                [str(HAPROXY), "-db", "-f", str(self.configuration)], stdout=log, stderr=log
            )
        until(self._answers, 10, "HAProxy's socket")

    def kill(self) -> None:
        """Kill -9; its socket's file stays."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(10)
            self._process = None

    def restart(self) -> None:
        """Kill it, start it again: what was told to it is lost."""
        self.kill()
        self.start()

    def reload(self) -> None:
        """Start a new process that takes over from the old one, as a reload does."""
        old = self._process
        assert old is not None
        with (self.root / "haproxy.log").open("ab") as log:
            self._process = subprocess.Popen(
                [str(HAPROXY), "-db", "-f", str(self.configuration), "-sf", str(old.pid)],
                stdout=log,
                stderr=log,
            )
        old.wait(10)
        until(self._answers, 10, "the new HAProxy's socket")

    def ask(self, *commands: str) -> list[str]:
        """Ask the Runtime API as an operator would."""
        return self.api.ask(commands)

    def servers(self, backend: str = BACKEND) -> dict[str, BackendServer]:
        return {s.name: s for s in servers_in(self.ask(f"show servers state {backend}")[0])}

    def serving(self, backend: str = BACKEND) -> dict[str, tuple[str, int]]:
        """Return the servers that may get traffic: name to address and port."""
        return {n: (s.address, s.port) for n, s in self.servers(backend).items() if s.serves}

    def column(self, name: str, column: str, backend: str = BACKEND) -> str:
        """Return one column of ``show stat`` for one server, or for BACKEND."""
        lines = self.ask(f"show stat {backend} 6 -1")[0].splitlines()
        names = lines[0].lstrip("# ").split(",")
        rows = [dict(zip(names, line.split(","), strict=False)) for line in lines[1:]]
        return next(row[column] for row in rows if row["svname"] == name)

    def get(self, path: str = "/v2", port: int = 0, timeout_s: float = 10) -> tuple[int, bytes]:
        """Send one request on a connection of its own."""
        connection = http.client.HTTPConnection(
            "127.0.0.1", port or self.http_port, timeout=timeout_s
        )
        with contextlib.closing(connection):
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read()

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, (self.root / "haproxy.log").read_text()
        with contextlib.closing(socket.socket(socket.AF_UNIX)) as one:
            one.settimeout(1)
            try:
                one.connect(str(self.socket))
            except OSError:
                return False
        return True


@pytest.fixture
def haproxy(tmp_path: Path) -> Iterator[HAProxyStage]:
    """A HAProxy of the test's own (it starts in some 30 ms), with four placeholder servers."""
    if HAPROXY is None:
        pytest.skip("haproxy is not installed")
    stage = HAProxyStage(tmp_path)
    stage.start()
    yield stage
    stage.kill()
