"""One round of each thing that is measured of HAProxy and its agent."""

import contextlib
import resource
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar

import attrs
import psutil
from fake_master import TOKEN, FakeMaster, instance, snapshot
from house import House, until
from proxied_fleet import FleetAgent
from proxied_load import HttpLoad
from servers.haproxy import RenderedHaproxy, SocketTap

from tarn.domain import Limits
from tarn.testing.fake_fleet import FakeFleet

__all__ = ["Crowd", "Filled", "cpu_percent", "crowd", "latencies_s"]

WITHIN_S = 120.0


@attrs.frozen
class Filled:
    """How a HAProxy without servers got them all; seconds from the start of its process."""

    added_s: float
    whole_s: float
    """All had their first check, and take requests."""
    round_trips: int


@attrs.frozen
class Crowd:
    """Many instances in the view of a master that is none, and an agent that follows it."""

    COUNT: ClassVar[int] = 1000

    door: RenderedHaproxy
    tap: SocketTap
    agent: FleetAgent

    def fill(self) -> Filled:
        """Start HAProxy again, and wait until it has all."""
        self.door.stop()
        before = len(self.tap.heard)
        began_s = time.monotonic()
        self.door.start()
        until(lambda: self._servers() == self.COUNT, WITHIN_S, "every server")
        added_s = time.monotonic() - began_s
        until(lambda: len(self.door.taking()) == self.COUNT, WITHIN_S, "every first check")
        whole_s = time.monotonic() - began_s
        return Filled(added_s, whole_s, len(self.tap.heard) - before)

    def _servers(self) -> int:
        return len(self.door.servers())


@contextlib.contextmanager
def crowd(root: Path) -> Iterator[Crowd]:
    """Start a thousand fakes, a master that shows them, HAProxy for HTTP, and the agent."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))  # HAProxy inherits it
    house = House(root)
    token = root / "token"
    token.write_bytes(TOKEN)
    with FakeFleet(Crowd.COUNT) as fakes:
        fleet = tuple(instance(n, endpoint=e) for n, e in enumerate(fakes.endpoints, start=1))
        picture = snapshot(*fleet, limits=Limits(1, Crowd.COUNT))
        with FakeMaster(picture) as master, RenderedHaproxy(root, grpc=False) as door:
            where = ("--url", master.url, "--token-file", str(token))
            with SocketTap(door.socket) as tap:
                with FleetAgent(house, door, "llama", *where, by=tap.socket) as agent:
                    until(lambda: len(door.servers()) == Crowd.COUNT, WITHIN_S, "every server")
                    yield Crowd(door, tap, agent)


def cpu_percent(pid: int, seconds: float) -> float:
    """Return how much of a core a process uses while nothing happens."""
    process = psutil.Process(pid)
    before, began_s = process.cpu_times(), time.monotonic()
    threading.Event().wait(seconds)
    after, ended_s = process.cpu_times(), time.monotonic()
    used_s = after.user + after.system - before.user - before.system
    return 100 * used_s / (ended_s - began_s)


def latencies_s(address: str, rate: float, count: int) -> Sequence[float]:
    """Send *count* requests, open loop; return how long each took. None may fail."""
    with HttpLoad(address, rate) as load:
        load.pass_(count)
    assert load.missed == []
    return load.report.took_s[:count]
