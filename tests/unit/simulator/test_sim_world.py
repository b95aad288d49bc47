"""The law of waiting, and the world in which requests are fluids."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarn.domain import Ended, Epoch, Known, Pending, Running, RuntimeWish
from tarn_plugins.cli.simulate.model import Queueing, WorldModel, waiting
from tarn_plugins.cli.simulate.world import World, running

LAW = Queueing(slots=16, service_s=0.1, step_s=1.0)
EPOCH = Epoch(1, 1)


def wish(*want: str, stop: frozenset[str] = frozenset()) -> RuntimeWish:
    return RuntimeWish(EPOCH, 1, frozenset((id_, "h") for id_ in want), stop)


@pytest.mark.parametrize("rate", [1.0, 40.0, 100.0, 140.0, 155.0])
def test_a_steady_load_settles_at_the_stationary_queue(rate: float) -> None:
    """Little's law over Sakasegawa's approximation, to the table's width."""
    held = utilization = 0.0
    for _ in range(3000):
        held, utilization = LAW.step(held, rate)
    rho = rate / 160
    assert utilization == pytest.approx(rho, rel=1e-3)
    assert held == pytest.approx(16 * rho + waiting(16, rho), rel=0.01)
    assert LAW.wait_s(held, utilization) == pytest.approx(waiting(16, rho) / rate, rel=0.02)


def test_sakasegawa_is_near_the_exact_erlang_formula() -> None:
    """M/M/16 at 75 %: the exact mean queue is 0.64 requests."""
    offered, slots = 12.0, 16
    terms = [offered**k / math.factorial(k) for k in range(slots)]
    last = offered**slots / math.factorial(slots) * slots / (slots - offered)
    exact = last / (sum(terms) + last) * offered / (slots - offered)
    assert waiting(slots, offered / slots) == pytest.approx(exact, rel=0.25)


def test_beyond_saturation_the_backlog_grows_by_what_is_too_much() -> None:
    """160 a second are finished, no more; afterwards it is cleared at that speed."""
    held = 0.0
    for _ in range(60):
        held, _ = LAW.step(held, 260.0)
    assert held == pytest.approx(60 * 100, rel=0.01)
    assert LAW.wait_s(held, 1.0) == pytest.approx(held / 160, rel=0.01)


@given(st.floats(0, 1e6), st.floats(0, 1e5))
def test_a_step_keeps_every_request(held: float, arrived: float) -> None:
    """What comes is finished or still there; more load never means a shorter queue."""
    after, utilization = LAW.step(held, arrived)
    assert 0 <= after <= held + arrived
    assert 0 <= utilization <= 1
    assert held + arrived - after <= 160 * (1 + 1e-9)
    more, busier = LAW.step(held, arrived + 1)
    assert more >= after - 1e-6
    assert busier >= utilization


@given(st.lists(st.floats(0, 2000), min_size=1, max_size=60), st.integers(0, 3))
def test_no_request_vanishes(rates: list[float], first: int) -> None:
    """Arrived = finished + still there + lost, with instances that come, fail and stop."""
    facts = [running(f"w-{n:04d}", "h") for n in range(1, first + 1)]
    world = World(WorldModel(start_s=5, fail_at_s=(20.0,)), facts)
    ids = [f"w-{n:04d}" for n in range(1, first + 2)]
    finished: dict[str, float] = {}
    lost = held = 0.0
    for now, rate in enumerate(rates):
        world.begin_step(float(now))
        world.apply_wish(wish(*ids))
        serving = [
            id_ for id_, reading in world.readings(float(now), fresh=True).items()
            if isinstance(reading.live, Known)
        ]  # fmt: skip
        passed = world.pass_step(serving, rate, float(now))
        lost += passed.lost
        readings = world.readings(now + 1.0, fresh=True)
        for id_, reading in readings.items():
            if "requests_total" in reading.metrics:
                total = reading.metrics["requests_total"]
                assert isinstance(total, Known)
                finished[id_] = total.value
        busy = [reading.busy for reading in readings.values()]
        held = sum(sample.value for sample in busy if isinstance(sample, Known))
    outside = sum(requests for _, requests in world._outside)
    there = sum(finished.values()) + held + outside + lost + world._lost
    assert there == pytest.approx(sum(rates), rel=1e-6, abs=0.2)


def test_a_start_takes_its_time_and_its_place() -> None:
    """Asked, granted one a second, and serving after the start; beyond the room one waits."""
    world = World(WorldModel(start_s=3, grants_per_second=1, room=2))
    world.apply_wish(wish("w-0001", "w-0002", "w-0003"))
    world.begin_step(0.0)
    kinds = [type(fact) for fact in world.facts()]
    assert kinds == [Running, Pending, Pending]
    world.begin_step(1.0)
    world.begin_step(2.0)
    third = world.facts()[2]
    assert isinstance(third, Pending)
    assert third.waits_for == "no node has room (2 of 2 places are used)"
    assert not isinstance(world.readings(2.0, fresh=True)["w-0001"].live, Known)
    assert isinstance(world.readings(3.0, fresh=True)["w-0001"].live, Known)


def test_the_emptiest_instance_is_filled_first() -> None:
    """As a load balancer does that counts connections: a fresh one takes what is too much."""
    world = World(WorldModel(), [running(f"w-{n:04d}", "h") for n in (1, 2)])
    world.pass_step(["w-0001"], 400, 0.0)
    world.pass_step(["w-0001", "w-0002"], 100, 1.0)
    metrics = [r.metrics for r in world.readings(2.0, fresh=True).values()]
    first, second = (m["requests_total"] for m in metrics)
    assert isinstance(first, Known)
    assert isinstance(second, Known)
    assert second.value == pytest.approx(100, abs=12)
    assert first.value == pytest.approx(320, abs=4)


def test_who_finds_no_instance_waits_outside_until_patience_ends() -> None:
    """Requests wait for the first instance, and count with all of their wait; or are lost."""
    world = World(WorldModel(patience_s=3))
    passed = [world.pass_step([], 10, float(now)) for now in range(5)]
    assert [step.lost for step in passed] == [0, 0, 10, 10, 10]
    assert world.waiting == 20
    assert passed[2].waits == ((3, 10),)
    assert passed[4].pending == 20


def test_a_stop_ends_it_and_what_it_held_is_lost() -> None:
    """The drain is the master's business: who stops too early is told."""
    world = World(WorldModel(), [running("w-0001", "h")])
    world.pass_step(["w-0001"], 500, 0.0)
    world.apply_wish(wish(stop=frozenset({"w-0001"})))
    (ended,) = world.facts()
    assert isinstance(ended, Ended)
    assert ended.exit.expected
    assert world.pass_step([], 0, 1.0).lost == pytest.approx(340, abs=2)
    world.apply_wish(wish())
    assert world.facts() == ()


def test_starts_and_lives_are_drawn_from_the_seed() -> None:
    """Each instance its own, and the same ones for every policy."""
    model = WorldModel(start_s=20, start_spread=0.5, failures_per_hour=2, seed=3)
    starts = [model.starting_s(n) for n in range(50)]
    assert all(20 <= start <= 30 for start in starts)
    assert len(set(starts)) == 50
    assert starts == [model.starting_s(n) for n in range(50)]
    lives = [model.living_s(n) for n in range(2000)]
    assert sum(lives) / len(lives) == pytest.approx(1800, rel=0.1)
    assert WorldModel().living_s(1) == math.inf


def test_clients_send_the_next_request_when_the_last_one_was_answered() -> None:
    """In each step every client has one request: it waits, executes, or was answered."""
    world = World(WorldModel(slots=4, service_s=0.1, clients=10, step_s=0.1), [running("w-1", "h")])
    for step in range(3):
        world.pass_step([], 0.0, step / 10)
        assert world.waiting == 10, "there is no instance"
    before = 0.0
    for step in range(3, 40):
        passed = world.pass_step(["w-1"], 0.0, step / 10)
        read = world.readings(step / 10, fresh=True)["w-1"].metrics
        pending, executing, total = (
            known.value
            for name in ("pending", "executing", "requests_total")
            if isinstance(known := read[name], Known)
        )
        assert pending + executing + total - before == pytest.approx(10)
        assert (passed.lost, total > before) == (0, True)
        before = total
