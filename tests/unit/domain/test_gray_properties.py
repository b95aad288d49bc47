"""Laws of what follows from outcomes, in worlds with gray faults and in healthy ones.

``TARN_GRAY_WORLDS`` and ``TARN_GRAY_HOURS`` set how many worlds and simulated hours there are.
"""

import heapq
import random
from collections import deque
from collections.abc import Mapping

import attrs
import pytest
from given import fleet, ready, rules
from gray_world import Fault, GrayWorld, Load
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tarn.config import environ
from tarn.domain import Known, Reading
from tarn.domain.counters import CounterSet
from tarn.domain.outcomes import RequestCounts
from tarn.domain.spec import UnwellSpec
from tarn.domain.verdicts import judge_outcomes

WORLDS = int(environ().get("TARN_GRAY_WORLDS", "20"))
HOURS = float(environ().get("TARN_GRAY_HOURS", "1"))
MANY = settings(max_examples=WORLDS, deadline=None, suppress_health_check=list(HealthCheck))
FEW = settings(MANY, max_examples=max(4, WORLDS // 5))
"""For worlds that live for long."""
SEEDS, SIZES = st.integers(0, 2**32), st.integers(2, 6)
KINDS = ("failing", "stalled", "dead", "slow")
ONCE = Load(0.003, 20.0, 0.3)
"""One that is hardly known: with a heavy tail, its first very long request on a single copy would
rightly look like a hang (docs/explanation/sick-models.md)."""
LOADS = (
    lambda size: {"echo": Load(40.0 * size)},
    lambda size: {"echo": Load(8.0 * size, 0.01), "long": Load(0.3 * size, 4.0, 0.8)},
    lambda size: {"echo": Load(15.0 * size), "rare": Load(0.02, 0.5), "once": ONCE},
    lambda size: {"echo": Load(9.0 * size, batch=8), "all": Load(9.0 * size, 0.2, calls="echo")},
)


def drawn_world(seed: int, size: int) -> GrayWorld:
    """Return a world of one to three models in which nothing is wrong yet."""
    chance = random.Random(seed)
    unwell = UnwellSpec(replace=chance.random() < 0.75)
    world = GrayWorld(seed, size, unwell, chance.choice(LOADS)(size))
    world.usual, world.tests = chance.choice((0.0, 0.01, 0.03)), chance.random() < 0.6
    world.run(40)
    return world


def disturb(world: GrayWorld) -> bool:
    """Let a scrape be missed, a model be loaded again or a process die; nothing of it is gray.

    Return whether an instance cannot be compared with others for a while.
    """
    chance, now_s = world.chance, world.now_s
    some = [t for t in world.tritons.values() if t.was_in_view]
    if not some or chance.random() >= 0.03:
        return False
    triton = chance.choice(some)
    match chance.choice(("old", "no metrics", "silent", "reload", "crash", "crash")):
        case "reload":
            triton.counted.clear()
        case "crash":
            if len(some) > 1:
                world.crash(triton.id)
        case how:
            triton.unread = now_s + chance.choice((1.0, 2.0, 8.0)), how
    return True


def settle(world: GrayWorld, within: int = 400) -> bool:
    """Let the world run on; say whether all that should be there serves and is well."""
    for _ in range(within):
        world.step()
        world.check()
        some = world.fleet
        there = len(some.view.members) == some.desired == len(some.instances)
        if there and not some.alike and not any(i.unwell for i in some.instances):
            return True
    return False


@MANY
@given(SEEDS, SIZES)
def test_gray_faults_never_take_half_or_the_last_and_all_recovers(seed: int, size: int) -> None:
    """`GrayWorld.check` holds the bound after each second. Who was never sick is not replaced."""
    world = drawn_world(seed, size)
    chance, models = world.chance, [*world.loads, ""]
    kinds = chance.choice((KINDS, KINDS, ("stalled",), ("failing",)))
    for triton in chance.sample(list(world.tritons.values()), chance.randrange(0, size + 1)):
        begins_s = world.now_s + chance.randrange(0, 40)
        triton.fault = Fault(
            chance.choice(kinds),
            begins_s,
            begins_s + chance.choice((3.0, 20.0, 90.0)),
            chance.choice((0.1, 0.4, 1.0)),
            chance.choice(models),
            luck=chance.random() < 0.5,
        )
    if chance.random() < 0.4:
        begins_s = world.now_s + chance.randrange(0, 40)
        kind, share = chance.choice(KINDS), chance.choice((0.4, 0.8, 1.0))
        lasts_s, model = chance.choice((3.0, 40.0)), chance.choice(models)
        world.everywhere = Fault(kind, begins_s, begins_s + lasts_s, share, model)
    sick = {t.id for t in world.tritons.values() if t.fault and t.fault.kind != "slow"}
    hidden = 0
    for _ in range(140):
        hidden += disturb(world)
        world.step()
        world.check()
    assert settle(world), world.log[-8:]
    # what all have alike replaces nobody, but for one that no other can be compared with: it serves
    # alone while all the others are ejected, or cannot be read; its own past speaks then
    innocent = world.stopped.keys() - sick
    alone = 1 + hidden if world.everywhere is not None else 0
    assert len(innocent) <= alone, (innocent, world.log)


@MANY
@given(SEEDS, SIZES, st.sampled_from(("failing", "stalled", "dead")))
def test_sick_ones_are_told_in_time_and_replaced_and_nobody_else(
    seed: int, size: int, kind: str
) -> None:
    """Within 6 s of a failure and 13 s of a hang, as long as one works; a single one is out.

    Twenty requests must have ended, and at times only ten come each second.
    """
    world = GrayWorld(seed, size)
    world.run(30)
    sick = world.chance.sample(list(world.tritons), world.chance.choice((1, 1, size - 1)))
    for id_ in sick:
        world.tritons[id_].fault = Fault(kind, world.now_s)
    limit = {"failing": 6, "stalled": 13, "dead": 13}[kind]
    world.run(limit)
    assert {subject for _, code, subject, _ in world.log if code == "TARN-1122"} == set(sick)
    if len(sick) == 1:
        assert sick[0] not in {m.instance_id for m in world.fleet.view.members}
    world.run(50 * len(sick))
    assert world.stopped.keys() == set(sick)
    assert settle(world)


@FEW
@given(SEEDS, SIZES, st.sampled_from(("failing", "stalled", "dead")), st.sampled_from((0, 1)))
def test_successors_that_are_sick_too_are_no_loop(
    seed: int, size: int, kind: str, tests: int
) -> None:
    """As on a bad node, for half an hour.

    The waits of 1, 2, 4, 8 and 16 minutes leave room for five replacements of successors.
    """
    world = GrayWorld(seed, size)
    world.tests = bool(tests)
    world.run(30)
    first = set(world.tritons)
    world.heirs = Fault(kind, world.now_s)
    victim = world.chance.choice(list(world.tritons.values()))
    victim.fault = Fault(kind, world.now_s)
    world.run(1800)
    again = world.stopped.keys() - first
    assert len(again) <= 5, world.stopped
    assert world.stopped.keys() & first <= {victim.id}
    world.heirs = None
    for triton in world.tritons.values():
        triton.fault = None
    assert settle(world, 600)


@FEW
@given(SEEDS, SIZES, st.sampled_from(("failing", "stalled", "dead")), st.sampled_from((0.4, 1.0)))
def test_what_all_have_alike_replaces_nobody_and_is_told(
    seed: int, size: int, kind: str, share: float
) -> None:
    """A bad version, a lost database, or callers that are all wrong: for five minutes."""
    world = GrayWorld(seed, size)
    world.run(40)
    world.everywhere = Fault(kind, world.now_s, world.now_s + 300.0, share)
    told = None
    for second in range(300):
        world.step()
        world.check()
        if told is None and world.fleet.alike:
            told = second
        assert len(world.fleet.view.members) == size, world.log
    assert told is not None
    assert told <= (10 if kind == "failing" else 15)
    assert settle(world)
    assert not world.stopped


@MANY
@given(SEEDS, SIZES)
def test_a_healthy_world_with_missed_scrapes_and_restarts_doubts_nobody(
    seed: int, size: int
) -> None:
    """And the next property would not see what only a whole tick does."""
    world = drawn_world(seed, size)
    for _ in range(200):
        disturb(world)
        world.step()
        world.check()
    told = [row for row in world.log if row[1] in ("TARN-1122", "TARN-1142", "TARN-1162")]
    assert not told
    assert not world.stopped
    assert not world.fleet.alike


@attrs.frozen
class Healthy:
    """One model that is well, and who asks for it."""

    mean_s: float
    slots: int
    """Of each instance."""
    sigma: float = 1.0
    """Of the lognormal time that a request takes."""
    tail: float = 0.0
    """The share of requests that take a thousand times as long, 10 s at most."""
    rate: float | None = None
    """Requests per second to the fleet; None: as many as keep a third of it busy."""

    @property
    def usual_rate(self) -> float:
        return 0.35 * 4 * self.slots / self.mean_s if self.rate is None else self.rate


@attrs.define
class Queue:
    """One model in one instance."""

    free: list[float]
    ends: list[tuple[float, float, bool]] = attrs.field(factory=list)
    starts: deque[float] = attrs.field(factory=deque)
    outcome: RequestCounts = attrs.field(factory=RequestCounts)

    def at(self, now_s: float) -> RequestCounts:
        """Return what is counted by then."""
        ends, starts, old = self.ends, self.starts, self.outcome
        count = bad = 0
        compute_s = 0.0
        while ends and ends[0][0] <= now_s:
            _, service_s, failed = heapq.heappop(ends)
            count, bad = count + 1, bad + failed
            compute_s += 0.0 if failed else service_s
        while starts and starts[0] <= now_s:
            starts.popleft()
        if count or len(starts) != old.pending:
            well = old.completed + count - bad
            counted = CounterSet(
                well,
                old.failed + bad,
                compute_us=old.compute_us + compute_s * 1e6,
                inferences=well,
                executions=well,
            )
            self.outcome = RequestCounts(counted, len(starts))
        return self.outcome


class Queues:
    """Four healthy instances, each with a queue for each model: bursts, and heavy tails of service.

    A second is a look. The shortest queue gets the next request, as our load balancer does it; at
    times an instance is not scraped for some seconds, and a model is loaded again.
    """

    def __init__(self, seed: int, models: Mapping[str, Healthy]) -> None:
        self.chance, self.models = random.Random(seed), models
        self.queues = {name: [self._queue(m) for _ in range(4)] for name, m in models.items()}
        self.burst_s = self.bad_s = 0.0
        self.unread_s = [0.0] * 4
        self.read: dict[str, Reading] = {}

    def _queue(self, model: Healthy) -> Queue:
        return Queue([0.0] * model.slots)

    def arrive(self, now_s: float) -> None:
        """Let the requests of one second come: in a burst three times as many."""
        chance = self.chance
        if chance.random() < 0.01:
            self.burst_s = now_s + chance.expovariate(1 / 20.0)
        if chance.random() < 0.001:
            self.bad_s = now_s + 3.0
        if chance.random() < 0.005:
            self.unread_s[chance.randrange(4)] = now_s + chance.choice((2.0, 5.0))
        if chance.random() < 0.0005:
            queue = chance.choice(self.queues[chance.choice(list(self.queues))])
            queue.outcome = RequestCounts(pending=queue.outcome.pending)
        for name, model in self.models.items():
            self._arrive(name, model, now_s)

    def _arrive(self, name: str, model: Healthy, now_s: float) -> None:
        chance, queues = self.chance, self.queues[name]
        rate = model.usual_rate * (3.0 if now_s < self.burst_s else 1.0)
        bad = 0.15 if now_s < self.bad_s else 0.03
        count = round(max(0.0, chance.gauss(rate, rate**0.5)))
        if rate < 1.0:
            count = int(chance.random() < rate)
        for _ in range(count):
            mu = -(model.sigma**2) / 2
            service_s = min(60.0, model.mean_s * chance.lognormvariate(mu, model.sigma))
            if model.tail and chance.random() < model.tail:
                service_s = min(10.0, 1000.0 * model.mean_s)
            one = min(queues, key=lambda q: len(q.starts) + len(q.ends))
            starts_s = max(now_s, one.free[0])
            heapq.heapreplace(one.free, starts_s + service_s)
            one.starts.append(starts_s)
            heapq.heappush(one.ends, (starts_s + service_s, service_s, chance.random() < bad))

    def readings(self, now_s: float) -> Mapping[str, Reading]:
        metrics = {"requests_total": Known(0.0)}
        for place in range(4):
            id_ = f"w-{place + 1:04d}"
            if now_s >= self.unread_s[place] or id_ not in self.read:
                outcomes = {name: some[place].at(now_s) for name, some in self.queues.items()}
                self.read[id_] = Reading(id_, now_s, metrics=metrics, outcomes=outcomes)
        return self.read


HEALTHY: Mapping[str, Mapping[str, Healthy]] = {
    "short": {"a": Healthy(0.2, 2)},
    "middle": {"a": Healthy(1.0, 4, 1.2)},
    "long": {"a": Healthy(4.0, 8, 0.8)},
    "tails of a thousand": {"a": Healthy(0.01, 2, 0.5, tail=0.0005), "b": Healthy(0.1, 4, 2.0)},
    "rare beside busy": {
        "a": Healthy(0.1, 1),
        "b": Healthy(0.5, 1, rate=0.02),
        "c": Healthy(20.0, 1, 0.5, rate=0.01),
    },
}


@pytest.mark.parametrize("load", HEALTHY)
def test_healthy_load_with_bursts_and_heavy_tails_ejects_nobody(load: str) -> None:
    """A fifth of the hours each; the queue is full at times, and callers send bad requests."""
    queues, some, by = Queues(1, HEALTHY[load]), fleet(*map(ready, range(1, 5))), rules()
    waited = 0
    for second in range(round(HOURS * 720)):
        now_s = 1000.0 + second
        queues.arrive(now_s)
        some = judge_outcomes(some, queues.readings(now_s + 0.99), by, now_s + 1.0, now_s)
        waited += any(one.starts for ones in queues.queues.values() for one in ones)
        severe = [i.unwell for i in some.instances if i.unwell is not None and i.unwell.severe]
        assert not severe, (second, severe)
        assert not some.alike, (second, some.alike)
        some = attrs.evolve(some, events=())
    assert waited > 10 * HOURS, "or there would be nothing to see"
