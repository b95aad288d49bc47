"""Laws of an update: never too many, never too few, and it ends on one spec, forward or back."""

import random
from collections.abc import Callable

import attrs
from given import READY_MODEL, rules
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tarn.domain import (
    Ended,
    Endpoint,
    Epoch,
    ExitStatus,
    Fact,
    InstanceState,
    Known,
    Launch,
    Reading,
    Recovered,
    Running,
    Unknown,
)
from tarn.domain.fleet import Fleet, Rules
from tarn.domain.memory import begin, saved
from tarn.domain.spec import ReplicasSpec, UpdateSpec
from tarn.domain.state import EditionFiles, SavedState
from tarn.domain.tick import Observation, runtime_wish, tick
from tarn.domain.update import begin_update

FEW = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
OLD, NEW = "old", "new"
EDITIONS = {name: EditionFiles(name, name, {}) for name in (OLD, NEW)}
FAULTS = ("none", "exits", "never serves", "dies later")


@attrs.define
class Process:
    """One instance as it really is."""

    spec_hash: str
    serves_s: float
    dies_s: float | None = None
    stops: bool = False
    attempt: int = 1


class UpdatedWorld:
    """Instances of two specs; those of the new one fail in one way."""

    def __init__(self, seed: int, size: int, update: UpdateSpec, fault: str) -> None:
        self.chance, self.fault = random.Random(seed), fault
        self.rules: Rules = attrs.evolve(
            rules(replicas=ReplicasSpec(min=size, max=size + 5, initial=size), update=update),
            spec_hash=OLD,
        )
        self.now_s = 1000.0
        self.processes: dict[str, Process] = {}
        self.ended: dict[str, Ended] = {}
        self.attempt = 1
        self.size = size
        self.fleet: Fleet = self._master(None)

    def run(self, seconds: float, check: Callable[[], None] = lambda: None) -> None:
        until_s = self.now_s + seconds
        while self.now_s < until_s:
            self.step()
            check()

    def step(self) -> None:
        self.now_s += 0.5
        for id_, one in list(self.processes.items()):
            if one.dies_s is not None and one.dies_s <= self.now_s:
                del self.processes[id_]
                status = ExitStatus("gone", 1, expected=one.stops)
                self.ended[id_] = Ended(id_, one.spec_hash, status)
        facts: list[Fact] = [self._running(id_) for id_ in self.processes]
        facts += self.ended.values()
        readings = {id_: self._reading(id_) for id_ in self.processes}
        seen = Observation(self.now_s, self.now_s, tuple(facts), readings)
        self.rules = attrs.evolve(self.rules, spec_hash=self.fleet.edition.spec_hash)
        self.fleet = tick(self.fleet, seen, self.rules)
        self._obey()

    def update(self) -> None:
        self.fleet = begin_update(self.fleet, EDITIONS[NEW], "a new spec", self.now_s)

    def kill_the_master(self) -> None:
        state = saved(self.fleet, 0.0)
        self.attempt += 1
        self.fleet = self._master(state)

    def serving(self) -> int:
        """Return how many instances users can rely on: a new one that will fail is none."""
        sound = (
            i
            for i in self.fleet.instances
            if i.in_view and (i.spec_hash == OLD or self.fault == "none")
        )
        return sum(1 for _ in sound)

    def hashes(self) -> set[str]:
        return {one.spec_hash for one in self.processes.values()}

    def codes(self) -> set[str]:
        return {event.code for event in self.fleet.events}

    def _master(self, state: SavedState | None) -> Fleet:
        found = Recovered(tuple(self._running(id_) for id_ in self.processes))
        epoch = Epoch(1, self.attempt)
        fleet = begin(epoch, state, found, self.rules, now_s=self.now_s, at=self.now_s)
        return attrs.evolve(fleet, editions=fleet.editions or (EDITIONS[OLD],))

    def _obey(self) -> None:
        spec = self.rules.spec
        launches = tuple(
            Launch(spec.models, spec.triton, spec.instance, "/models", one) for one in (OLD, NEW)
        )
        wish = runtime_wish(self.fleet, launches, self.fleet.next_number)
        for id_, spec_hash in wish.want:
            if id_ not in self.processes and id_ not in self.ended:
                self.processes[id_] = self._started(spec_hash)
        for id_ in wish.stop:
            if id_ in self.processes and self.processes[id_].dies_s is None:
                self.processes[id_].dies_s, self.processes[id_].stops = self.now_s + 0.5, True
        named = {id_ for id_, _ in wish.want} | wish.stop
        self.ended = {id_: one for id_, one in self.ended.items() if id_ in named}

    def _started(self, spec_hash: str) -> Process:
        one = Process(
            spec_hash, self.now_s + self.chance.choice((0.5, 1.0, 4.0)), attempt=self.attempt
        )
        if spec_hash == NEW and self.fault == "exits":
            one.dies_s = self.now_s + 1.0
        if spec_hash == NEW and self.fault == "never serves":
            one.serves_s = float("inf")
        if spec_hash == NEW and self.fault == "dies later":
            one.dies_s = one.serves_s + 3.0
        return one

    def _running(self, id_: str) -> Running:
        one, port = self.processes[id_], int(id_.rpartition("-")[2]) * 3
        endpoint = Endpoint("h", port, port + 1, port + 2)
        adopted = one.attempt < self.attempt
        return Running(id_, one.spec_hash, f"c{id_}", "h", endpoint, adopted=adopted)

    def _reading(self, id_: str) -> Reading:
        if self.processes[id_].serves_s > self.now_s:
            return Reading(id_, self.now_s, Unknown("no answer yet"))
        metrics = {"pending": Known(0.0), "executing": Known(0.0)}
        models = Known(READY_MODEL)
        return Reading(id_, self.now_s, Known(value=True), "", models, metrics=metrics)


@FEW
@given(
    st.integers(0, 2**32),
    st.integers(1, 5),
    st.tuples(st.integers(0, 2), st.integers(0, 2)),
    st.sampled_from(FAULTS),
    st.lists(st.integers(1, 200), max_size=4),
)
def test_an_update_ends_on_one_spec_and_takes_no_more_than_it_may(
    seed: int, size: int, spare: tuple[int, int], fault: str, kills: list[int]
) -> None:
    """Also where the master is killed at any step of it."""
    surge, unavailable = spare
    unavailable = max(unavailable, 1 - surge)  # one of both is needed to go on at all
    update = UpdateSpec(surge=surge, max_unavailable=unavailable, watch_s=5.0)
    world = UpdatedWorld(seed, size, update, fault)
    world.run(20)
    assert world.serving() == size
    world.update()
    blind_until_s = 0.0
    for number in range(4000):
        world.step()
        active = [i for i in world.fleet.instances if i.state is not InstanceState.DRAINING]
        assert len(active) <= size + surge
        if number in kills:
            world.kill_the_master()
            blind_until_s = world.now_s + 2.0  # it looks, and then admits what serves
        if world.now_s > blind_until_s:
            assert world.serving() >= size - unavailable, world.fleet.events[-5:]
        if world.fleet.update is None:
            break
    assert world.fleet.update is None, world.fleet.events[-5:]
    world.run(60)
    assert world.hashes() == {NEW if fault == "none" else OLD}
    assert len(world.processes) == size
    assert world.codes() >= ({"TARN-1182"} if fault == "none" else {"TARN-1183", "TARN-1184"})
