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
from gray_world import Fault, GrayWorld
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tarn.config import environ
from tarn.domain import Known, Reading
from tarn.domain.outcomes import RequestCounts
from tarn.domain.verdicts import judge_outcomes

WORLDS = int(environ().get("TARN_GRAY_WORLDS", "40"))
HOURS = float(environ().get("TARN_GRAY_HOURS", "1"))
MANY = settings(max_examples=WORLDS, deadline=None, suppress_health_check=list(HealthCheck))
KINDS = ("failing", "stalled", "slow")


def settle(world: GrayWorld, within: int = 250) -> bool:
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
@given(st.integers(0, 2**32), st.integers(2, 6))
def test_gray_faults_never_take_half_or_the_last_and_all_recovers(seed: int, size: int) -> None:
    """`GrayWorld.check` holds the bound after each second."""
    world = GrayWorld(seed, size)
    chance = world.chance
    world.usual, world.tests = chance.choice((0.0, 0.01, 0.03)), chance.random() < 0.8
    world.run(40)
    faults = 0
    for triton in chance.sample(list(world.tritons.values()), chance.randrange(0, size + 1)):
        begins_s = world.now_s + chance.randrange(0, 40)
        ends_s = begins_s + chance.choice((3.0, 20.0, 90.0))
        triton.fault = Fault(chance.choice(KINDS), begins_s, ends_s, chance.choice((0.4, 1.0)))
        faults += 1
    if chance.random() < 0.4:
        begins_s = world.now_s + chance.randrange(0, 40)
        kind, share = chance.choice(KINDS), chance.choice((0.4, 0.8, 1.0))
        world.everywhere = Fault(kind, begins_s, begins_s + chance.choice((3.0, 40.0)), share)
    world.run(100)
    # one that serves alone, while all the others are ejected, is judged by its own past
    assert len(world.replaced) <= faults + (world.everywhere is not None)
    world.run(40)
    assert settle(world), world.log[-8:]


class Queues:
    """Four healthy instances of one model, each with a queue: bursts, and heavy tails of service.

    A second is a look. The shortest queue gets the next request, as our load balancer does it.
    """

    def __init__(self, seed: int, mean_s: float, sigma: float, slots: int) -> None:
        self.chance = random.Random(seed)
        self.mean_s, self.sigma, self.slots = mean_s, sigma, slots
        self.free = [[0.0] * slots for _ in range(4)]
        self.ends: list[list[tuple[float, float, bool]]] = [[] for _ in range(4)]
        self.starts: list[deque[float]] = [deque() for _ in range(4)]
        self.counted = [[0, 0, 0.0] for _ in range(4)]
        self.burst_s = self.bad_s = 0.0

    def arrive(self, now_s: float) -> None:
        """Let the requests of one second come: in a burst three times as many."""
        chance = self.chance
        if chance.random() < 0.01:
            self.burst_s = now_s + chance.expovariate(1 / 20.0)
        if chance.random() < 0.001:
            self.bad_s = now_s + 3.0
        rate = 0.35 * 4 * self.slots / self.mean_s * (3.0 if now_s < self.burst_s else 1.0)
        bad = 0.15 if now_s < self.bad_s else 0.01
        for _ in range(round(max(0.0, chance.gauss(rate, rate**0.5)))):
            mu = -(self.sigma**2) / 2
            service_s = min(60.0, self.mean_s * chance.lognormvariate(mu, self.sigma))
            place = min(range(4), key=lambda p: len(self.starts[p]) + len(self.ends[p]))
            starts_s = max(now_s, self.free[place][0])
            heapq.heapreplace(self.free[place], starts_s + service_s)
            self.starts[place].append(starts_s)
            row = (starts_s + service_s, service_s, chance.random() < bad)
            heapq.heappush(self.ends[place], row)

    def readings(self, now_s: float) -> Mapping[str, Reading]:
        return {f"w-{p + 1:04d}": self._reading(p, now_s) for p in range(4)}

    def _reading(self, place: int, now_s: float) -> Reading:
        ends, starts, counted = self.ends[place], self.starts[place], self.counted[place]
        while ends and ends[0][0] <= now_s:
            _, service_s, bad = heapq.heappop(ends)
            counted[bad] += 1
            counted[2] += 0.0 if bad else service_s * 1e6
        while starts and starts[0] <= now_s:
            starts.popleft()
        completed, failed, compute_us = counted
        outcome = RequestCounts(
            completed, failed, len(starts), None, compute_us, completed, completed
        )
        metrics = {"requests_total": Known(float(completed))}
        return Reading(f"w-{place + 1:04d}", now_s, metrics=metrics, outcomes={"echo": outcome})


@pytest.mark.parametrize(
    ("mean_s", "sigma", "slots"), [(0.2, 1.0, 2), (1.0, 1.2, 4), (4.0, 0.8, 8)], ids=str
)
def test_healthy_load_with_bursts_and_heavy_tails_ejects_nobody(
    mean_s: float, sigma: float, slots: int
) -> None:
    """A third of the hours each; the queue is full at times, and callers send bad requests."""
    queues, some, by = Queues(1, mean_s, sigma, slots), fleet(*map(ready, range(1, 5))), rules()
    waited = 0
    for second in range(round(HOURS * 1200)):
        now_s = 1000.0 + second
        queues.arrive(now_s)
        some = judge_outcomes(some, queues.readings(now_s + 0.99), by, now_s + 1.0, now_s)
        waited += any(queues.starts)
        severe = [i.unwell for i in some.instances if i.unwell is not None and i.unwell.severe]
        assert not severe, (second, severe)
        some = attrs.evolve(some, events=())
    assert waited > 10 * HOURS, "or there would be nothing to see"
