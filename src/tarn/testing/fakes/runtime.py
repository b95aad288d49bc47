"""A fake runtime with instances in memory, the world that they live in, and a clock."""

import math
import threading
from collections.abc import Callable

import attrs

from tarn.domain import (
    Ended,
    Endpoint,
    Epoch,
    ExitStatus,
    Fact,
    Issue,
    Pending,
    Recovered,
    Running,
    RuntimeWish,
    StubEnded,
)
from tarn.errors import NotFoundError, ProviderError, Superseded
from tarn.interfaces import Clock, LogTail

__all__ = ["FakeClock", "FakeRuntime", "FakeWorld"]


class FakeClock:
    """Time that passes only by `advance`; usable from any thread.

    Args:
        now_s: Monotonic seconds at the start.
        at: Wall time at the start, Unix seconds.
    """

    def __init__(self, now_s: float = 1000.0, at: float = 1_700_000_000.0) -> None:
        self._lock = threading.Lock()
        self._now_s = now_s
        self._at = at

    def now_s(self) -> float:
        """Return monotonic seconds."""
        with self._lock:
            return self._now_s

    def at(self) -> float:
        """Return wall time, Unix seconds."""
        with self._lock:
            return self._at

    def advance(self, by_s: float) -> None:
        """Let *by_s* seconds pass on both clocks; a negative number is a ``ValueError``."""
        if by_s < 0:
            raise ValueError(f"time does not go back: {by_s!r} s")
        with self._lock:
            self._now_s += by_s
            self._at += by_s

    def jump(self, at: float) -> None:
        """Set the wall time, as an administrator might; the monotonic time is unchanged."""
        with self._lock:
            self._at = at


def _endpoint(number: int) -> Endpoint:
    first = 20_000 + 3 * number
    return Endpoint("127.0.0.1", first, first + 1, first + 2)


@attrs.frozen
class _FakeContainer:
    fact: Pending | Running | Ended
    asked_s: float
    by: Epoch


class FakeWorld:
    """Instances without processes; usable from any thread.

    A test programs failures with `late_s`, `fail`, `reject`, `lose`, `vanish`, `double`, `crash`,
    `leave`, `end_stub` and `fall_silent`. The records `launched`, `stopped` and `given_back` have
    what runtimes really did, independent of the facts.

    Args:
        endpoint_of: Returns the endpoint of the n-th container, from 1; default: invented ports.
    """

    def __init__(self, endpoint_of: Callable[[int], Endpoint] = _endpoint) -> None:
        self._lock = threading.RLock()
        self._endpoint_of = endpoint_of
        self._held: dict[str, _FakeContainer] = {}
        self._failing: dict[str, ExitStatus] = {}
        self._rejected: dict[str, str] = {}
        self._lost: set[str] = set()
        self._leaving: dict[str, str] = {}
        self._stubs: dict[str, StubEnded] = {}
        self._containers = 0
        self._logs: dict[str, list[str]] = {}
        self.epoch = Epoch(0, 0)
        """The highest epoch of any master that used this world."""
        self.late_s = 0.0
        """Seconds between a request and its grant; ``math.inf``: no grant until `grant`."""
        self.silent_since_s: float | None = None
        self.launched: list[str] = []
        self.stopped: list[str] = []
        self.given_back: list[str] = []
        """Ids of containers that were granted in excess."""
        self.finished = 0

    # For tests.

    def hold_grants(self) -> None:
        """Grant nothing until `grant`."""
        self.late_s = math.inf

    def grant(self, instance_id: str) -> None:
        """Grant one request now."""
        with self._lock:
            held = self._held[instance_id]
            if isinstance(held.fact, Pending):
                self._start(held)

    def fail(self, what: str, status: ExitStatus | None = None) -> None:
        """Make each start of *what*, an instance id or a spec hash, end at once until `repair`."""
        with self._lock:
            self._failing[what] = status or ExitStatus("exited with code 1 at start", 1)

    def repair(self, what: str) -> None:
        """Undo `fail`."""
        with self._lock:
            self._failing.pop(what, None)

    def reject(self, instance_id: str, waits_for: str) -> None:
        """Do not grant this id until `accept`; its fact says what it waits for."""
        with self._lock:
            self._rejected[instance_id] = waits_for

    def accept(self, instance_id: str) -> None:
        """Undo `reject`."""
        with self._lock:
            self._rejected.pop(instance_id, None)

    def lose(self, instance_id: str) -> None:
        """Report no fact about this id, which continues, until `find`.

        A runtime that starts meanwhile does not recover it, and finds it late.
        """
        with self._lock:
            self._lost.add(instance_id)

    def find(self, instance_id: str) -> None:
        """Report this id again; for a later master it is adopted."""
        with self._lock:
            self._lost.discard(instance_id)

    def vanish(self, instance_id: str) -> None:
        """End it without ever reporting the end."""
        with self._lock:
            self._held.pop(instance_id, None)

    def double(self, instance_id: str) -> None:
        """Grant a second container for a running id; the first one is given back."""
        with self._lock:
            held = self._held[instance_id]
            if isinstance(held.fact, Running):
                self.given_back.append(held.fact.container_id)
                self._start(held)

    def crash(self, instance_id: str, reason: str = "killed by signal 9", code: int = -9) -> None:
        """End it unexpectedly."""
        with self._lock:
            self._end(self._held[instance_id], ExitStatus(reason, code))

    def leave(self, instance_id: str, why: str) -> None:
        """Announce that its place will be taken, and *why*; an empty *why* withdraws that."""
        with self._lock:
            self._leaving[instance_id] = why

    def end_stub(self, instance_id: str, said: str, at: float = 0.0) -> None:
        """End a process of one of its Python models; with an empty *said* it runs again."""
        with self._lock:
            self._stubs.pop(instance_id, None)
            if said:
                self._stubs[instance_id] = StubEnded(instance_id, said, at)

    def fall_silent(self, now_s: float) -> None:
        """Answer no runtime from *now_s* on, until `answer`."""
        self.silent_since_s = now_s

    def answer(self) -> None:
        """Answer again."""
        self.silent_since_s = None

    def write(self, instance_id: str, *lines: str) -> None:
        """Add *lines* to the log of an instance."""
        with self._lock:
            self._logs.setdefault(instance_id, []).extend(lines)

    # For runtimes.

    def claim(self, attempt: Epoch | None = None) -> Epoch:
        """Return the epoch of a new master: *attempt*, or the next one."""
        with self._lock:
            following = Epoch(max(1, self.epoch.incarnation), self.epoch.attempt + 1)
            self.epoch = max(self.epoch, attempt or following)
            return attempt or following

    def check_epoch(self, mine: Epoch) -> None:
        """Raise ``Superseded`` if a master with a higher epoch used this world."""
        with self._lock:
            if mine < self.epoch:
                raise Superseded(str(mine), str(self.epoch))
            self.epoch = mine

    def apply_wish(self, wish: RuntimeWish, now_s: float) -> None:
        """Carry out *wish*."""
        with self._lock:
            self.check_epoch(wish.epoch)
            if self.silent_since_s is not None:
                raise ProviderError("fake", "the world does not answer", retry_after_s=1.0)
            named = {instance_id for instance_id, _ in wish.want} | wish.stop
            for instance_id in [i for i, h in self._held.items() if _over(h) and i not in named]:
                del self._held[instance_id]
            for instance_id in sorted(wish.stop):
                self._stop(instance_id)
            for instance_id, spec_hash in sorted(wish.want):
                if instance_id not in self._held and instance_id not in wish.stop:
                    fact = Pending(instance_id, spec_hash)
                    self._held[instance_id] = _FakeContainer(fact, now_s, wish.epoch)
            self.settle(now_s)

    def settle(self, now_s: float) -> None:
        """Grant the requests that are due."""
        with self._lock:
            for instance_id, held in list(self._held.items()):
                due = isinstance(held.fact, Pending) and now_s - held.asked_s >= self.late_s
                if due and instance_id not in self._rejected:
                    self._start(held)

    def facts(self, reader: Epoch) -> tuple[Fact, ...]:
        """Return the facts for the runtime of the master *reader*, by instance id."""
        with self._lock:
            said = [h for i, h in sorted(self._held.items()) if i not in self._lost]
            running = {h.fact.instance_id for h in said if isinstance(h.fact, Running)}
            stubs = (stub for i, stub in sorted(self._stubs.items()) if i in running)
            return (*(self._said(held, reader) for held in said), *stubs)

    def log(self, instance_id: str) -> tuple[str, ...]:
        """Return an instance's log: two lines for each start, and those of `write`."""
        with self._lock:
            if instance_id not in self._logs:
                raise NotFoundError(f"there is no log of '{instance_id}'")
            return tuple(self._logs[instance_id])

    def clear(self) -> None:
        """Remove every instance, as at the end of the cluster."""
        with self._lock:
            self._held.clear()
            self.finished += 1

    def _said(self, held: _FakeContainer, reader: Epoch) -> Fact:
        fact = held.fact
        if isinstance(fact, Running):
            leaving = self._leaving.get(fact.instance_id, "")
            return attrs.evolve(fact, adopted=held.by < reader, leaving=leaving)
        if isinstance(fact, Pending):
            waits_for = self._rejected.get(fact.instance_id, "")
            return attrs.evolve(fact, waits_for=waits_for)
        return fact

    def _start(self, held: _FakeContainer) -> None:
        instance_id, spec_hash = held.fact.instance_id, held.fact.spec_hash
        self._containers += 1
        self.launched.append(instance_id)
        self.write(instance_id, f"{instance_id} is started", f"{instance_id} has its models")
        failure = self._failing.get(instance_id) or self._failing.get(spec_hash)
        if failure is not None:
            self._end(held, failure)
            return
        running = Running(
            instance_id,
            spec_hash,
            container_id=f"fake-{self._containers}",
            node="127.0.0.1",
            endpoint=self._endpoint_of(self._containers),
        )
        self._held[instance_id] = attrs.evolve(held, fact=running)

    def _stop(self, instance_id: str) -> None:
        held = self._held.get(instance_id)
        if held is not None and not _over(held):
            self.stopped.append(instance_id)
            self._end(held, ExitStatus("stopped as asked", 0, expected=True))

    def _end(self, held: _FakeContainer, status: ExitStatus) -> None:
        fact = held.fact
        ended = Ended(
            fact.instance_id,
            fact.spec_hash,
            status,
            container_id=getattr(fact, "container_id", None),
            node=getattr(fact, "node", None),
        )
        self._held[fact.instance_id] = attrs.evolve(held, fact=ended)


def _over(held: _FakeContainer) -> bool:
    return isinstance(held.fact, Ended)


class FakeRuntime:
    """A runtime over a world that outlives it; without a thread.

    Args:
        world: The instances; pass the same world to a second runtime to test recovery.
        clock: Determines when late grants are due.
        epoch: The epoch of the runtime's master.
    """

    def __init__(
        self,
        world: FakeWorld | None = None,
        clock: Clock | None = None,
        epoch: Epoch | None = None,
    ) -> None:
        self.world = world or FakeWorld()
        self.clock = clock or FakeClock()
        self.epoch = epoch or Epoch(1, 1)
        self.api_url = ""
        self.closed = False
        self.notes: tuple[Issue | str, ...] = ()
        """Returned by `warnings`."""

    def start(self, api_url: str) -> Recovered:
        """Adopt the running instances of the world."""
        self.world.check_epoch(self.epoch)
        self.api_url = api_url
        found = self.world.facts(self.epoch)
        return Recovered(tuple(fact for fact in found if isinstance(fact, Running)))

    def apply(self, wish: RuntimeWish) -> None:
        """Pass *wish* to the world."""
        self.world.apply_wish(wish, self.clock.now_s())

    def facts(self) -> tuple[Fact, ...]:
        """Return the world's present facts."""
        self.world.settle(self.clock.now_s())
        return self.world.facts(self.epoch)

    def heard_s(self) -> float:
        """Return now, or the second since which the world is silent."""
        self.world.check_epoch(self.epoch)
        since_s = self.world.silent_since_s
        return self.clock.now_s() if since_s is None else since_s

    def warnings(self) -> tuple[Issue | str, ...]:
        """Return `notes`."""
        return self.notes

    def log(self, instance_id: str, lines: int) -> LogTail:
        """Return the end of the instance's log."""
        written = self.world.log(instance_id)
        return LogTail(written[max(0, len(written) - lines) :], truncated=len(written) > lines)

    def finish(self) -> None:
        """Empty the world."""
        self.world.clear()

    def close(self) -> None:
        """Leave the world as it is."""
        self.closed = True
