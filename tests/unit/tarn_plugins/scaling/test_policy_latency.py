"""The policy `latency`: a time tells that a fleet is too small, and not by how much."""

from typing import Any

import attrs
import pytest
from hypothesis import strategies as st
from unit.tarn_plugins.scaling.views import history, view

from tarn.domain import Decision, FleetView, Limits, Unknown, Wish
from tarn.plain import structure
from tarn.testing.strategies import for_any
from tarn_plugins.scaling.latency import LatencyPolicy, LatencySettings

POLICY = LatencyPolicy(LatencySettings())
NOTHING = Unknown("no request ended since the last sample")


def size(fleet: FleetView) -> int:
    """Return the size after the wish: no opinion keeps the present one."""
    wanted = POLICY.wanted(fleet).replicas
    return fleet.desired if wanted is None else wanted


def grew(fleet: FleetView, *steps: tuple[float, int], by: str = "policy latency") -> FleetView:
    """Return *fleet* with decisions: (seconds ago, size) each, the oldest first."""
    made = tuple(Decision(10_000.0 - ago, to, to, by, "x") for ago, to in steps)
    return attrs.evolve(fleet, at=10_000.0, decisions=made)


def test_grows_in_proportion_while_requests_take_too_long() -> None:
    """Half as much again beyond the objective, half as many again."""
    wish = POLICY.wanted(view(4, queue_time=0.075, in_flight=3))
    assert wish == Wish(6, "queue_time is 75 ms (objective 50 ms): 6 replicas")


def test_one_step_at_most_doubles_the_fleet() -> None:
    """A queue has no bound: five seconds are no reason for a hundred times as many."""
    wish = POLICY.wanted(view(3, queue_time=5.0, in_flight=3))
    assert wish == Wish(6, "queue_time is 5 s (objective 50 ms): 6 replicas", urgent=True)
    assert not POLICY.wanted(view(3, queue_time=0.1, in_flight=3)).urgent


def test_full_replicas_tell_how_many_are_needed() -> None:
    """Each executes sixteen while others wait: for 150 at once a dozen and one are needed."""
    full = {"pending": (60.0,) * 4, "executing": (48.0,) * 4, "when_full": (16.0,) * 4}
    fleet = history(view(3, queue_time=0.4, offered_load=150, in_flight=108), **full)
    wish = POLICY.wanted(fleet)
    assert wish.replicas == 13
    assert wish.urgent
    assert wish.reason == (
        "queue_time is 400 ms (objective 50 ms); offered_load is 150, "
        "and a full replica executes 16: 13 replicas"
    )
    small = history(view(3, queue_time=0.4, offered_load=20, in_flight=108), **full)
    assert POLICY.wanted(small).replicas == 4


def test_callers_that_wait_are_counted_themselves() -> None:
    """Twelve of them at one replica that executes one request at once."""
    looks = {"pending": 11.0, "executing": 1.0, "in_flight": 12.0, "requests_per_s": 5.0}
    full = {name: (value,) * 4 for name, value in {**looks, "when_full": 1.0}.items()}
    wish = POLICY.wanted(history(view(1, queue_time=2.2, offered_load=1), **full))
    assert wish.replicas == 16
    assert "; 12 requests are in flight, of callers that wait for their answers, " in wish.reason


def test_the_next_step_waits_for_what_was_asked_for() -> None:
    """However the queue grows meanwhile; one that is late is not waited for."""
    starting = view(6, 3, queue_time=9.0, in_flight=3)
    wish = POLICY.wanted(starting)
    assert wish == Wish(
        6, "queue_time is 9 s (objective 50 ms): 6 replicas, of which 3 still start"
    )
    assert POLICY.wanted(view(6, 3, asked_s=900.0, queue_time=9.0, in_flight=3)).replicas == 12


def test_within_the_tolerance_and_above_the_low_mark_it_keeps_what_there_is() -> None:
    """54 ms for 50 is near enough."""
    for time in (0.054, 0.05, 0.025):
        wish = POLICY.wanted(view(4, queue_time=time, in_flight=3))
        assert wish.replicas == 4
    assert wish.reason == "queue_time is 25 ms (objective 50 ms): 4 replicas"


def test_far_below_the_objective_one_replica_fewer_is_tried() -> None:
    """A time near zero does not tell how many are not needed."""
    wish = POLICY.wanted(view(4, queue_time=0.001, in_flight=3))
    assert wish == Wish(3, "queue_time is 1 ms (objective 50 ms), below 50% of it: 3 replicas")
    assert POLICY.wanted(view(1, queue_time=0, in_flight=3)).replicas == 1


def test_a_size_that_proved_too_small_is_not_tried_again_soon() -> None:
    """Or a fleet between two sizes would flap for ever; a person's word proves nothing."""
    calm = view(4, queue_time=0.001, in_flight=3)
    wish = POLICY.wanted(grew(calm, (900, 3), (600, 4)))
    assert wish == Wish(
        4,
        "queue_time is 1 ms (objective 50 ms): 4 replicas, "
        "since 3 replicas proved too few in the last 30 min",
    )
    assert POLICY.wanted(grew(calm, (2500, 3), (1801, 4))).replicas == 3
    assert POLICY.wanted(grew(calm, (900, 2), (600, 4))).replicas == 3
    assert POLICY.wanted(grew(calm, (900, 3), (600, 4), by="scale")).replicas == 3


def test_nobody_asks_is_no_time_at_all() -> None:
    """Where nothing ended there is no mean; that nothing waits or executes is known."""
    idle = view(5, queue_time=NOTHING, in_flight=0, requests_per_s=0)
    assert POLICY.wanted(idle) == Wish(0, "no request waits, executes or ended: 0 replicas")
    awake = attrs.evolve(idle, limits=Limits(2, 9))
    assert POLICY.wanted(awake) == Wish(1, "no request waits, executes or ended: 1 replica")
    stuck = POLICY.wanted(view(5, queue_time=NOTHING, in_flight=2, requests_per_s=0))
    assert stuck == Wish(None, f"queue_time is unknown: {NOTHING.reason}")


def test_a_window_smooths_single_seconds() -> None:
    """One slow second of four is no trend."""
    fleet = history(view(4, in_flight=3), queue_time=(0.03, 0.03, 0.03, 0.1))
    assert POLICY.wanted(fleet).replicas == 4


def test_from_zero_one_replica_for_who_waits() -> None:
    """A count of requests is no time."""
    wish = POLICY.wanted(view(0, waiting=3))
    assert wish == Wish(1, "3 requests wait for an instance: 1 replica", urgent=True)
    assert POLICY.wanted(view(2, 0, waiting=3)).replicas == 2
    assert POLICY.wanted(view(2, 0)).replicas is None


def test_what_is_no_number_is_unknown() -> None:
    """Triton's quantiles may be NaN."""
    wish = POLICY.wanted(view(3, queue_time=float("nan"), in_flight=1))
    assert wish == Wish(None, "queue_time is unknown: it is nan")


# -- laws

times = st.floats(0, 3)


@for_any(time=times, more=times, desired=st.integers(0, 40), ready=st.integers(0, 40))
def test_more_time_never_wants_fewer(time: float, more: float, desired: int, ready: int) -> None:
    """Monotone, whatever is ready."""
    ready = min(ready, desired)
    low = view(desired, ready, queue_time=time, in_flight=1)
    assert size(low) <= size(view(desired, ready, queue_time=time + more, in_flight=1))


@for_any(time=st.floats(0, 0.1), desired=st.integers(1, 40))
def test_its_own_answer_satisfies_it(time: float, desired: int) -> None:
    """Where a time is in proportion to the load of a replica, it is near the objective then."""
    first = size(view(desired, queue_time=time, in_flight=1))
    after = time * desired / first
    assert after <= 0.055 + 1e-9
    if time >= 0.025:
        assert size(view(first, queue_time=after, in_flight=1)) == first


@for_any(time=times, ready=st.integers(1, 9), later=st.lists(times, max_size=5))
def test_the_wish_does_not_creep_while_instances_start(
    time: float, ready: int, later: list[float]
) -> None:
    """A queue that grows until they are there asks for nothing more."""
    first = size(view(ready, queue_time=time, in_flight=1))
    if first <= ready:
        return
    for each in sorted(later):
        assert size(view(first, ready, queue_time=time + each, in_flight=1)) == first


# -- settings


def problems(**options: Any) -> list[str]:
    """Return what is wrong with the options, as a user reads it."""
    return [p.found for p in structure(LatencySettings, options, "scaling.options")[1]]


def test_every_wrong_option_is_named_at_once() -> None:
    """Where, what was found, and what would be right."""
    fraction = "must be a fraction (0.5 or 50%), at least 0% and less than 100%"
    assert problems(objective=50, low="fifty", tolerance="-1%") == [
        "scaling.options.objective = 50: a duration needs its unit",
        f"scaling.options.tolerance = '-1%': {fraction}",
        f"scaling.options.low = 'fifty': {fraction}",
    ]


@pytest.mark.parametrize("signal", ["pending", "gpu_utilization"])
def test_a_signal_that_is_no_duration_is_refused(signal: str) -> None:
    """With the policy that takes it."""
    (found,) = problems(signal=signal)
    assert found == (
        f"scaling.options: signal = '{signal}' is not a duration; use queue_time, request_time, "
        "first_response_time or latency_p95; for other signals there is 'use: target'"
    )
