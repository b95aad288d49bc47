"""A stage for what happens through a real HAProxy: the proxy, its agent, and a cluster behind it.

HAProxy's own words are the witness: its statistics, and a line of its log for each request.
"""

import contextlib
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Self, TypeVar

import attrs
from asking import ask, free_ports
from house import House, until

from tarn.follow import Api
from tarn_plugins.discovery.haproxy.configuration import Settings, render

__all__ = [
    "AGENT",
    "Agent",
    "Door",
    "Fleet",
    "Line",
    "Tap",
    "executed",
    "fake_tritons",
    "followed",
    "ledger_model",
    "poured",
    "soon",
]

T = TypeVar("T")

AGENT = "lb1"
"""The name under which the agent speaks to the master."""
WITHIN_S = 60.0

_LEDGER = '''"""Answers what it was sent, and writes down that it did: nothing may run twice."""

import os

import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        path = os.path.join(os.environ["LEDGER"], str(os.getpid()))
        self._ledger = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def execute(self, requests):
        return [self._answer(request) for request in requests]

    def _answer(self, request):
        values = pb_utils.get_input_tensor_by_name(request, "IN").as_numpy()
        os.write(self._ledger, f"{int(values[0])}\\n".encode())
        return pb_utils.InferenceResponse([pb_utils.Tensor("OUT", values)])
'''
_CONFIG = """name: "echo"
backend: "python"
max_batch_size: 0
input [{name: "IN" data_type: TYPE_INT32 dims: [-1]}]
output [{name: "OUT" data_type: TYPE_INT32 dims: [-1]}]
instance_group [{kind: KIND_CPU count: 1}]
"""

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
    """One HAProxy of our own, with the file that ``tarn lb haproxy config`` renders."""

    def __init__(self, root: Path, **settings: Any) -> None:
        self.http_port, self.grpc_port, _ = free_ports()
        self.settings = Settings(
            address="127.0.0.1",
            http_port=self.http_port,
            grpc_port=self.grpc_port,
            stats_port=0,
            socket=str(root / "ha.sock"),
            user="",
            group="",
            **settings,
        )
        self.socket = Path(self.settings.socket)
        self._file, self._log = root / "haproxy.cfg", root / "haproxy.log"
        self._file.write_text(render(self.settings))
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self.stop()

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
                [program, "-db", "-f", str(self._file)], stdout=log, stderr=log
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

    def __init__(self, root: Path, to: Path) -> None:
        self.socket, self._to = root / "tap.sock", to
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


class Agent:
    """``tarn lb haproxy`` beside a `Door`, as a user starts it."""

    program = ("-m", "tarn", "lb", "haproxy")

    def __init__(
        self, house: House, door: Door, cluster: str, *options: str, by: Path | None = None
    ) -> None:
        self._log = house.root / "agent.log"
        words = ["-c", cluster, "--socket", str(by or door.socket), "--name", AGENT]
        words += ["--backend", door.settings.backend, "--grpc-backend", door.settings.grpc_backend]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [house.python, *self.program, *words, *options],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=house.root,
                env=house.environ,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    @property
    def pid(self) -> int:
        """The process."""
        return self._process.pid

    def close(self) -> None:
        """End it as systemd does."""
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(10)
            raise

    def said(self) -> str:
        """Return what it said so far."""
        return self._log.read_text("utf-8", "replace")


class Fleet:
    """A cluster in a house, by its master's API."""

    def __init__(self, house: House, name: str) -> None:
        self.house, self.name = house, name
        token = (house.directory(name) / "api_token").read_text().strip()
        self.api = Api(str(house.ref(name)["url"]), token)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.api.close()

    @property
    def health(self) -> tuple[int, str]:
        """What ``/health`` answers, with its details."""
        port = int(self.api.url.rpartition(":")[2])
        status, _, body = ask(port, "GET", "/health")
        return status, body.decode()

    def all(self) -> list[Mapping[str, Any]]:
        """Return every instance that has not ended."""
        rows: list[Mapping[str, Any]] = self.api.instances()["instances"]
        return rows

    def ready(self) -> dict[str, Mapping[str, Any]]:
        """Return the instances in the view: HTTP address to what the master says of each."""
        return {str(row["http"]): row for row in self.all() if row["in_view"]}

    def settled(self, door: Door, size: int) -> None:
        """Wait until *size* instances are in the view, and HAProxy sends to just those."""

        def same() -> bool:
            ready = set(self.ready())
            return len(ready) == size and ready == set(door.taking())

        until(same, WITHIN_S, f"{size} instances in the view and in HAProxy")

    def moment(self, code: str, subject: str) -> float:
        """Return when the master noted *code* about *subject*, in Unix seconds."""
        events = self.api.events()
        return next(e["first"] for e in events if (e["code"], e["subject"]) == (code, subject))


def followed(**options: object) -> dict[str, Any]:
    """Return the part of a spec that waits for the word of our agent."""
    each = {"use": "haproxy", "options": {"followers": [AGENT], **options}, "required": True}
    return {"discovery": [each]}


def ledger_model(root: Path) -> dict[str, str]:
    """Write an echo model that keeps a ledger of what it answered; return its environment."""
    (root / "models" / "echo" / "1").mkdir(parents=True)
    (root / "models" / "echo" / "config.pbtxt").write_text(_CONFIG)
    (root / "models" / "echo" / "1" / "model.py").write_text(_LEDGER)
    (root / "ledger").mkdir()
    return {"LEDGER": str(root / "ledger")}


def executed(root: Path) -> Counter[int]:
    """Return how often each number was executed, as the models themselves wrote it down."""
    counts: Counter[int] = Counter()
    for path in (root / "ledger").iterdir():
        counts.update(int(word) for word in path.read_text().split())
    return counts


def fake_tritons(root: Path) -> dict[str, Any]:
    """Return the part of a spec that runs fake Tritons, where many or quick ones are needed."""
    program = root / "tritonserver"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m tarn.testing.fake_triton "$@"\n')
    program.chmod(0o700)
    (root / "models" / "echo" / "1").mkdir(parents=True)
    return {
        "models": {"repository": str(root / "models")},
        "triton": {"binary": str(program), "exit_timeout": "5s"},
    }


def soon(look: Callable[[], T], within_s: float, what: str) -> T:
    """Return the first true answer of *look*, asked each millisecond."""
    pause, end_s = threading.Event(), time.monotonic() + within_s
    while not (found := look()):
        assert time.monotonic() < end_s, f"{what}: not within {within_s:g} s"
        pause.wait(0.001)
    return found
