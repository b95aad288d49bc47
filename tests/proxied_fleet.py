"""A cluster behind a real HAProxy, and the agent next to it."""

import contextlib
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Self, TypeVar

import attrs
from asking import ask
from house import House, clear, kill, until
from servers.haproxy import RenderedHaproxy, SocketTap
from servers.lb_agent import AgentProcess, fake_tritons

from tarn.follow import MasterApi

__all__ = [
    "AGENT",
    "SERVED_S",
    "Fleet",
    "FleetAgent",
    "ProxiedFleet",
    "executed",
    "followed",
    "ledger_model",
    "proxied_fleet",
    "soon",
]

T = TypeVar("T")

AGENT = "lb1"
"""The name under which the agent speaks to the master."""
WITHIN_S = 60.0
SERVED_S = 5.5
"""Who is killed sooner after it was ready counts as a bad start, and five of them end a cluster."""

_LEDGER = '''"""Answers what it was sent, and writes down that it did: nothing may run twice."""

import os
import time

import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        self._takes_s = float(os.environ["TAKES_S"])
        path = os.path.join(os.environ["LEDGER"], str(os.getpid()))
        self._ledger = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def execute(self, requests):
        return [self._answer(request) for request in requests]

    def _answer(self, request):
        values = pb_utils.get_input_tensor_by_name(request, "IN").as_numpy()
        os.write(self._ledger, f"{int(values[0])}\\n".encode())
        time.sleep(self._takes_s)
        return pb_utils.InferenceResponse([pb_utils.Tensor("OUT", values)])
'''
_CONFIG = """name: "echo"
backend: "python"
max_batch_size: 0
input [{name: "IN" data_type: TYPE_INT32 dims: [-1]}]
output [{name: "OUT" data_type: TYPE_INT32 dims: [-1]}]
instance_group [{kind: KIND_CPU count: 1}]
"""


class FleetAgent(AgentProcess):
    """The agent of a cluster next to a `RenderedHaproxy`; a context that ends it.

    Args:
        house: The cluster's.
        door: Whose servers it sets.
        cluster: Which it follows.
        options: More of the verb.
        by: A socket that leads to HAProxy's; None: HAProxy's own.
    """

    def __init__(
        self,
        house: House,
        door: RenderedHaproxy,
        cluster: str,
        *options: str,
        by: Path | None = None,
    ) -> None:
        words = ["-c", cluster, "--socket", str(by or door.socket), "--name", AGENT]
        words += ["--backend", door.settings.backend]
        if door.settings.grpc_port:
            words += ["--grpc-backend", door.settings.grpc_backend]
        super().__init__(house, *words, *options)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        try:
            self.end()
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(10)
            raise

    @property
    def pid(self) -> int:
        """The process."""
        return self.process.pid


class Fleet:
    """A cluster in a house, by its master's API."""

    def __init__(self, house: House, name: str) -> None:
        self.house, self.name = house, name
        token = (house.directory(name) / "api_token").read_text().strip()
        self.api = MasterApi(str(house.ref(name)["url"]), token)

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

    def settled(self, door: RenderedHaproxy, size: int) -> None:
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
    """Return the part of a spec that waits for our agent."""
    each = {"use": "haproxy", "options": {"followers": [AGENT], **options}, "required": True}
    return {"discovery": [each]}


@attrs.frozen
class ProxiedFleet:
    """A cluster of fake Tritons behind HAProxy, and what is said to HAProxy."""

    house: House
    door: RenderedHaproxy
    tap: SocketTap
    fleet: Fleet
    agent: FleetAgent

    def others(self, known: set[str]) -> str:
        """Return the id of an instance in the view that is not *known*; empty without one."""
        rows = self.fleet.ready().values()
        return next((str(row["id"]) for row in rows if row["id"] not in known), "")

    def first_request(self) -> float:
        """Add a third instance under load; return the seconds from ready to its first request."""
        before = {str(row["id"]) for row in self.fleet.all()}
        self.fleet.api.scale(3)
        new = until(lambda: self.others(before), WITHIN_S, "a third instance")
        sent = soon(lambda: self.door.first_sent(new), WITHIN_S, "a first request")
        took_s = sent - self.fleet.moment("TARN-1102", new)
        self.two_left()
        return took_s

    def two_left(self) -> None:
        """Go back to two instances; one that still drains would come back, and not be a new one."""
        self.fleet.api.scale(2)
        self.fleet.settled(self.door, 2)
        until(lambda: len(self.fleet.all()) == 2, WITHIN_S, "the end of one")

    def out_after_kill(self) -> float:
        """Kill the oldest instance; return the seconds until HAProxy chooses it no more."""
        rows = self.fleet.ready()
        http = max(rows, key=lambda one: rows[one]["state_for_s"])
        began_s = time.monotonic()
        kill(int(rows[http]["container_id"]))
        soon(lambda: http not in self.door.taking(), WITHIN_S, "out of rotation")
        took_s = time.monotonic() - began_s
        # HAProxy may see its end before the master does.
        until(lambda: http not in self.fleet.ready(), WITHIN_S, "out of the view")
        return took_s

    def served(self) -> None:
        """Wait until all served so long that the end of one does not count as a bad start."""

        def proven() -> bool:
            return all(row["state_for_s"] > SERVED_S for row in self.fleet.ready().values())

        until(proven, WITHIN_S, "all served for a while")


@contextlib.contextmanager
def proxied_fleet(
    root: Path, name: str, tritons: Mapping[str, Any] | None = None
) -> Iterator[ProxiedFleet]:
    """Bring a cluster of two fakes, or other *tritons*, up behind HAProxy, and all down again."""
    house = House(root)
    path = house.spec(
        name,
        replicas={"min": 1, "max": 4, "initial": 2},
        drain={"timeout": "30s", "quiesce": "100ms"},
        **followed(),
        **(fake_tritons(root) if tritons is None else tritons),
    )
    try:
        done = house.tarn("up", "-f", path, "--timeout", "60s")
        assert done.returncode == 0, done.stderr
        with (
            RenderedHaproxy(root, name) as door,
            SocketTap(door.socket) as tap,
            FleetAgent(house, door, name, by=tap.socket) as agent,
            Fleet(house, name) as fleet,
        ):
            try:
                # until then it writes: later only where something changes
                agent.heard("for the whole fleet", WITHIN_S)
                yield ProxiedFleet(house, door, tap, fleet, agent)
            finally:
                clear(house)  # while the agent is there, which the end waits for
    finally:
        clear(house)


def ledger_model(root: Path, takes_s: float = 0.0) -> dict[str, str]:
    """Write an echo model that keeps a ledger of what it answered; return its environment.

    It answers one request after another, each after *takes_s*.
    """
    (root / "models" / "echo" / "1").mkdir(parents=True)
    (root / "models" / "echo" / "config.pbtxt").write_text(_CONFIG)
    (root / "models" / "echo" / "1" / "model.py").write_text(_LEDGER)
    (root / "ledger").mkdir()
    return {"LEDGER": str(root / "ledger"), "TAKES_S": str(takes_s)}


def executed(root: Path) -> Counter[int]:
    """Return how often each number was executed, as the models themselves wrote it down."""
    counts: Counter[int] = Counter()
    for path in (root / "ledger").iterdir():
        counts.update(int(word) for word in path.read_text().split())
    return counts


def soon(look: Callable[[], T], within_s: float, what: str) -> T:
    """Return the first true answer of *look*, asked each millisecond."""
    pause, end_s = threading.Event(), time.monotonic() + within_s
    while not (found := look()):
        assert time.monotonic() < end_s, f"{what}: not within {within_s:g} s"
        pause.wait(0.001)
    return found
