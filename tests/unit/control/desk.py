"""A control thread among fakes: the clock stands, the world obeys, and everything is recorded."""

import threading
from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Self

import attrs

from tarn.control.affinity import AffinityRunner, KnownTraits
from tarn.control.editions import Edition
from tarn.control.journal import Announcer
from tarn.control.look_queue import LookStatus
from tarn.control.loop import Control, ControlDependencies, ControlResult
from tarn.control.mailbox import Inbox
from tarn.control.policy import PolicyRunner, Scaling
from tarn.control.probe import ProbeTarget
from tarn.control.pulse import Pulse
from tarn.control.scrape import Families
from tarn.control.state import Saver
from tarn.domain import (
    ClusterSpec,
    Command,
    Done,
    EditionFiles,
    Epoch,
    FleetView,
    Known,
    ModelState,
    Reading,
    SavedState,
    Unknown,
    Wish,
)
from tarn.domain.counters import CounterSet
from tarn.domain.fleet import Rules
from tarn.domain.memory import begin
from tarn.domain.model_totals import ModelTotals
from tarn.domain.plugin_signals import PluginSignals
from tarn.domain.signals import SignalSelection
from tarn.domain.spec import DrainSpec, ReplicasSpec
from tarn.read.snapshot import Board, Snapshot, blank_snapshot
from tarn.testing.context import cluster_spec, launch_of
from tarn.testing.fakes import FakeAffinity, FakeClock, FakeDiscovery, FakeRuntime, FakeStateStore
from tarn.testing.wait import until
from tarn.triton.test_sources import KnownTests

MODELS = Known((ModelState("echo", "READY"),))


def spec(**parts: Any) -> ClusterSpec:
    """Return a spec for 0 to 8 replicas, two at first, that drains without quiesce."""
    defaults = {
        "replicas": ReplicasSpec(min=0, max=8, initial=2),
        "drain": DrainSpec(timeout_s=20.0, quiesce_s=0.0),
    }
    return attrs.evolve(cluster_spec("w"), **(defaults | parts))


class FakeScraper:
    """Every target answers well, but for those that a test makes silent."""

    def __init__(self, clock: FakeClock) -> None:
        self.clock, self.tests = clock, KnownTests()
        self.targets: Mapping[str, ProbeTarget] = {}
        self.watched = 0
        self.tests = KnownTests()
        self.silent: set[str] = set()
        self.known = KnownTraits()
        self.broken = ""
        self.behind_s = 0.0
        self.lack = ""
        self.metrics: dict[str, Mapping[str, float]] = {}
        """Instance id to what it says where that is not the usual: that nothing is to be done."""

    def model_totals(self) -> tuple[Mapping[str, ModelTotals], int]:
        return {"echo": ModelTotals(CounterSet(self.clock.now_s()))}, 0

    def looks(self) -> LookStatus:
        return LookStatus(1.0, self.behind_s)

    def traits(self) -> KnownTraits:
        return self.known

    def measure(self, families: Families) -> None:
        self.families = families

    def watch(self, targets: Mapping[str, ProbeTarget]) -> None:
        self.targets = dict(targets)
        self.watched += 1

    def readings(self) -> Mapping[str, Reading]:
        if self.broken:
            raise RuntimeError(self.broken)
        return {id_: self._reading(id_) for id_ in self.targets}

    def _reading(self, instance_id: str) -> Reading:
        now_s = self.clock.now_s()
        if instance_id in self.silent:
            late = Unknown("no answer for 2 s")
            return Reading(instance_id, now_s, late, models=late)
        said = {"pending": 0.0, "executing": 0.0} | dict(self.metrics.get(instance_id, {}))
        metrics = {name: Known(value) for name, value in said.items()}
        return Reading(
            instance_id,
            now_s,
            Known(value=True),
            models=MODELS,
            metrics=metrics,
            blind=self.lack,
        )


class Policy:
    """Answers what a test says: a wish, nonsense, an exception, or nothing while it hangs."""

    def __init__(self) -> None:
        self.answer: Any = Wish(None, "no opinion")
        self.going = threading.Event()
        self.going.set()
        self.asked = 0

    def wanted(self, fleet: FleetView) -> Wish:
        self.asked += 1
        self.going.wait(10.0)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


class FakeEditions:
    """Editions that a test makes."""

    def __init__(self, first: Edition) -> None:
        self.present = first
        self._each = {first.files.digest: first}

    def add(self, edition: Edition) -> Edition:
        self._each[edition.files.digest] = edition
        return edition

    def of(self, files: EditionFiles) -> Edition:
        return self._each[files.digest]

    def keep_to(self, files: EditionFiles) -> Edition:
        self.present = self.of(files)
        return self.present

    def forget_others(self, files: Iterable[EditionFiles]) -> None:
        kept = {one.digest for one in files}
        self._each = {digest: one for digest, one in self._each.items() if digest in kept}


def edition(rules: Rules, policy: Any, digest: str = "first") -> Edition:
    """Return the edition of the spec in *rules*."""
    return Edition(
        EditionFiles(digest, rules.spec_hash, {}),
        rules,
        launch_of(rules.spec, rules.spec_hash),
        (),
        KnownTests(),
        Scaling(policy, PluginSignals(), SignalSelection(), Families()),
        {},
    )


class Discovery(FakeDiscovery):
    """Keeps how it was closed: whether it was to withdraw."""

    def __init__(self, clock: FakeClock, name: str = "fake") -> None:
        super().__init__(clock=clock, name=name)
        self.closed: list[bool] = []

    def close(self, *, withdraw: bool) -> None:
        self.closed.append(withdraw)
        super().close(withdraw=withdraw)


class Listener:
    """Stands for the plugins; keeps what they are told, in order."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, Any]] = []

    def event(self, event: Any) -> None:
        self.heard.append(("event", event.code))

    def decision(self, decision: Any) -> None:
        self.heard.append(("decision", decision.desired))

    def instance_changed(self, before: Any, after: Any) -> None:
        was = None if before is None else str(before.state)
        self.heard.append(("instance", (after.id, was, str(after.state))))


class Desk:
    """One control thread; a context manager that ends it."""

    def __init__(
        self,
        some: ClusterSpec | None = None,
        *,
        runtime: FakeRuntime | None = None,
        store: Any = None,
        state: SavedState | None = None,
        required: frozenset[str] = frozenset(),
        discoveries: Mapping[str, Any] | None = None,
        policy: Any = None,
    ) -> None:
        self.clock = runtime.clock if runtime else FakeClock()
        self.runtime = runtime or FakeRuntime(clock=self.clock)
        self.store = store or FakeStateStore()
        self.discovery = Discovery(self.clock)
        self.scraper = FakeScraper(self.clock)
        self.policy = Policy()
        self.listener = Listener()
        self.wake = threading.Event()
        self.over = threading.Event()
        self.inbox = Inbox(self.wake.set)
        some = some or spec()
        names = frozenset(["fake"] if discoveries is None else discoveries)
        self.rules = Rules(some, "aaaaaaaaaaaa", required, followers=names)
        epoch: Epoch = self.runtime.epoch
        self.board = Board(blank_snapshot(epoch, self.rules, self.clock.at()))
        self.published = 0
        self.board.subscribe(self._count)
        recovered = self.runtime.start("http://127.0.0.1:1")
        now_s, at = self.clock.now_s(), self.clock.at()
        fleet = begin(epoch, state, recovered, self.rules, now_s=now_s, at=at)
        self.saver = Saver(self.store, epoch, self.clock, self.wake.set, fleet.next_number)
        self.announcer = Announcer(self.listener)
        self.desk = PolicyRunner(policy or self.policy, self.clock, self.wake.set)
        self.affinity = AffinityRunner(FakeAffinity(), self.clock, self.wake.set)
        self.pulse = Pulse(self.clock, some.scaling.interval_s)
        near = ControlDependencies(
            clock=self.clock,
            runtime=self.runtime,
            discoveries={"fake": self.discovery} if discoveries is None else discoveries,
            scraper=self.scraper,
            policy=self.desk,
            affinity=self.affinity,
            saver=self.saver,
            announcer=self.announcer,
            inbox=self.inbox,
            board=self.board,
            wake=self.wake,
            over=self.over.set,
            pulse=self.pulse,
        )
        first = edition(self.rules, policy or self.policy)
        self.editions = FakeEditions(first)
        fleet = attrs.evolve(fleet, editions=fleet.editions or (first.files,))
        self.control = Control(fleet, self.editions, near)

    def _count(self, _snapshot: Snapshot) -> None:
        self.published += 1

    def __enter__(self) -> Self:
        self.control.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.policy.going.set()
        self.leave()
        self.desk.close()
        self.affinity.close()
        self.announcer.close()

    def leave(self) -> ControlResult:
        """Ask the thread to leave, and wait for its end."""
        self.control.leave()
        assert self.control.wait(10.0)
        return self.control.outcome

    @property
    def now(self) -> Snapshot:
        return self.board.current

    def tick(self, by_s: float = 0.0) -> Snapshot:
        """Let *by_s* seconds pass; return a snapshot of a tick that began afterwards."""
        self.clock.advance(by_s)
        after = self.published + 2
        until(lambda: self._woken() or self.published >= after, what="a tick")
        return self.now

    def _woken(self) -> None:
        self.wake.set()

    def reach(self, ready: int) -> Snapshot:
        """Wait for exactly so many ready instances."""
        until(lambda: self._woken() or self.now.ready == ready, what=f"{ready} ready")
        return self.now

    def ask(self, command: Command, if_match: int | None = None) -> Done:
        """Ask, and wait for the answer."""
        return self.send(command, if_match).result(10.0)

    def send(self, command: Command, if_match: int | None = None) -> "Future[Done]":
        return self.inbox.ask(command, if_match)

    def codes(self) -> list[str]:
        return [event.code for event in self.now.events]
