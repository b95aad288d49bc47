"""A real HAProxy of a test's own, and who listens to what is said to it.

HAProxy's own words are the witness: its statistics, and a line of its log for each request.
"""

import contextlib
import re
import shutil
import socket
import subprocess
import tempfile
import threading
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Self

import attrs
from asking import free_ports
from house import until

from tarn_plugins.discovery.haproxy.configuration import HaproxyCfgSettings, render

__all__ = ["Door", "Line", "Tap", "poured"]

WITHIN_S = 60.0

_LINE = re.compile(
    r"\S+ \[(?P<when>[^\]]+)\] \S+ (?P<backend>[^/\s]+)/(?P<server>\S+) "
    r"(?P<TR>-?\d+)/(?P<Tw>-?\d+)/(?P<Tc>-?\d+)/(?P<Tr>-?\d+)/\+?(?P<Ta>-?\d+) "
    r"(?P<status>-?\d+) \+?\d+ \S+ \S+ (?P<ending>\S{4}) "
    r"\d+/\d+/\d+/\d+/\+?(?P<retries>\d+) \d+/\d+ (?:\{[^}]*\} )*\"(?P<request>.*)\"$"
)


@attrs.frozen
class Line:
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


class Door:
    """One HAProxy of our own, with the file that ``tarn lb haproxy config`` renders.

    Args:
        root: Where its files are.
        cluster: Named in the file.
        grpc: Whether it has a door for gRPC.
    """

    def __init__(self, root: Path, cluster: str = "", *, grpc: bool = True) -> None:
        self.http_port, self.grpc_port, _ = free_ports()
        self._short = tempfile.TemporaryDirectory(prefix="tarn")  # a socket's path must be
        self.settings = HaproxyCfgSettings(
            cluster=cluster,
            address="127.0.0.1",
            http_port=self.http_port,
            grpc_port=self.grpc_port if grpc else 0,
            stats_port=0,
            socket=f"{self._short.name}/ha.sock",
            user="",
            group="",
        )
        self.socket = Path(self.settings.socket)
        self.file, self._log = root / "haproxy.cfg", root / "haproxy.log"
        self.file.write_text(render(self.settings))
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self.stop()
        self._short.cleanup()

    @property
    def address(self) -> str:
        """Where HTTP is spoken."""
        return f"127.0.0.1:{self.http_port}"

    @property
    def grpc_address(self) -> str:
        """Where gRPC is spoken."""
        return f"127.0.0.1:{self.grpc_port}"

    @property
    def pid(self) -> int:
        """The process."""
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Start it; its socket answers when this returns."""
        program = shutil.which("haproxy", path="/usr/sbin:/usr/local/sbin:/usr/bin:/usr/local/bin")
        assert program is not None, "no haproxy on this machine"
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [program, "-db", "-f", str(self.file)], stdout=log, stderr=log
            )
        until(self._answers, WITHIN_S, "HAProxy's socket")

    def stop(self) -> None:
        """End it at once, as a crash does."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(WITHIN_S)
            self._process = None

    def command(self, text: str) -> str:
        """Say *text* to the socket, and return the answer."""
        with socket.socket(socket.AF_UNIX) as sock:
            sock.settimeout(WITHIN_S)
            sock.connect(str(self.socket))
            sock.sendall(text.encode() + b"\n")
            return b"".join(iter(lambda: sock.recv(65536), b"")).decode()

    def info(self, name: str) -> int:
        """Return one number of ``show info``."""
        lines = self.command("show info").splitlines()
        return int(next(line for line in lines if line.startswith(f"{name}:")).partition(":")[2])

    def servers(self, backend: str = "") -> dict[str, Mapping[str, str]]:
        """Return the statistics of each server of a backend."""
        head, *rows = self.command("show stat").removeprefix("# ").strip().splitlines()
        names = head.split(",")
        every = (dict(zip(names, row.split(","), strict=True)) for row in rows)
        wanted = backend or self.settings.backend
        groups = ("FRONTEND", "BACKEND")
        return {
            row["svname"]: row
            for row in every
            if row["pxname"] == wanted and row["svname"] not in groups
        }

    def taking(self, backend: str = "") -> dict[str, str]:
        """Return the servers that new requests may go to: address to name."""
        return {
            row["addr"]: name
            for name, row in self.servers(backend).items()
            if row["status"].startswith(("UP", "no check")) and row["weight"] != "0"
        }

    def lines(self) -> list[Line]:
        """Return what was logged so far, in the order in which requests ended."""
        texts = self._log.read_text("utf-8", "replace").splitlines()
        return [line for text in texts if (line := Line.parse(text)) is not None]

    def first_sent(self, server: str) -> float:
        """Return when *server* got its first request, in Unix seconds; 0 before."""
        return min((line.sent for line in self.lines() if line.server == server), default=0.0)

    def said(self) -> str:
        """Return the log as it is."""
        return self._log.read_text("utf-8", "replace")

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, self.said()
        with contextlib.suppress(OSError):
            return "Pid:" in self.command("show info")
        return False


class Tap:
    """Stands before a HAProxy's socket, and writes down what is said to it.

    A connection is one round trip of the agent: many commands, then all their answers.
    """

    READS = ("show ", "get ", "prompt", "quit", "help")

    def __init__(self, to: Path) -> None:
        self.socket, self._to = to.with_name("tap.sock"), to
        self.heard: list[list[str]] = []
        """The commands of each connection."""
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
    def writes(self) -> list[str]:
        """The commands that were meant to change something."""
        every = (command for one in tuple(self.heard) for command in one)
        return [command for command in every if not command.startswith(self.READS)]

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
            back = threading.Thread(target=poured, args=(client, server, said.append), daemon=True)
            back.start()
            poured(server, client)
            back.join(10)
            self.heard.append(b"".join(said).decode().replace(";", "\n").split("\n"))
            self.heard[-1] = [word.strip() for word in self.heard[-1] if word.strip()]


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
