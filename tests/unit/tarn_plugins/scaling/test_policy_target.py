"""The policy `target`: the right size in one step, and no step more."""

import math
from collections.abc import Sequence
from typing import Any

import attrs
import pytest
from hypothesis import strategies as st
from unit.tarn_plugins.scaling.views import NOW_S, history, view

from tarn.domain import FleetView, InstanceState, Known, Limits, Unknown, Wish
from tarn.domain.scaling import NOTHING, load_of_callers
from tarn.plain import structure
from tarn.testing.strategies import for_any
from tarn_plugins.scaling.target import TargetPolicy, TargetSettings

OFFERED = TargetPolicy(TargetSettings(target=12))
QUEUE_TIME = TargetPolicy(TargetSettings("queue_time", "20ms"))
loads = st.floats(0, 600)
sizes = st.integers(0, 40)


def size(policy: TargetPolicy, fleet: FleetView) -> int:
    """Return the size after the wish: no opinion keeps the present one."""
    replicas = policy.wanted(fleet).replicas
    return fleet.desired if replicas is None else replicas


# -- sums


def test_goes_straight_to_the_size_that_fits() -> None:
    """From two to fourteen in one decision, which says why."""
    wish = OFFERED.wanted(view(2, offered_load=160))
    assert wish.replicas == 14
    assert wish.reason == "offered_load is 160 (target 12 a replica): 14 replicas"


def test_a_load_within_the_tolerance_changes_nothing() -> None:
    """22 on two replicas is 11 each, 8% below 12; a sum beyond its target grows at once."""
    kept = OFFERED.wanted(view(2, offered_load=22))
    reason = "offered_load is 22 (target 12 a replica): 2 replicas, within 10% of it"
    assert kept == Wish(2, reason)
    assert OFFERED.wanted(view(10, offered_load=108)).replicas == 10
    assert OFFERED.wanted(view(10, offered_load=107)).replicas == 9
    assert OFFERED.wanted(view(2, offered_load=24)).replicas == 2
    assert OFFERED.wanted(view(2, offered_load=24.1)).replicas == 3


def test_a_mean_is_tolerated_on_both_sides() -> None:
    """It swings, and how it follows the size is a guess."""
    assert QUEUE_TIME.wanted(view(10, queue_time=0.022)).replicas == 10
    assert QUEUE_TIME.wanted(view(10, queue_time=0.0221)).replicas == 12


def test_goes_down_to_the_size_that_fits() -> None:
    """How soon, and whether in one step, is a matter of `scaling.down.window`."""
    wish = OFFERED.wanted(view(9, offered_load=30))
    assert wish == Wish(3, "offered_load is 30 (target 12 a replica): 3 replicas")


def test_a_growth_is_urgent_when_replicas_are_beyond_their_share() -> None:
    """A tenth beyond the target is the limit; requested and starting ones count as there."""
    assert not OFFERED.wanted(view(2, offered_load=26.4)).urgent
    assert OFFERED.wanted(view(2, offered_load=26.5)).urgent
    assert not OFFERED.wanted(view(4, ready=2, offered_load=52)).urgent


def test_what_a_jump_buries_is_made_up_for() -> None:
    """Five of twelve ready ones do what came before the others started; small parts are borne."""
    wish = OFFERED.wanted(view(5, offered_load=144))
    told = "offered_load is 144 (target 12 a replica), and 3.0 more while the ready ones are full"
    assert wish == Wish(15, f"{told} of waiting requests: 15 replicas", urgent=True)
    assert OFFERED.wanted(view(5, offered_load=90)).replicas == 8
    assert OFFERED.wanted(view(1, offered_load=108)).replicas == 9
    assert (
        TargetPolicy(TargetSettings("in_flight", 12)).wanted(view(5, in_flight=144)).replicas == 12
    )


@for_any(load=loads, ready=st.integers(1, 9), started=st.integers(0, 40))
def test_what_started_meanwhile_buries_no_more(load: float, ready: int, started: int) -> None:
    """The first ones to start change nothing: those that were there before are the same."""
    first = size(OFFERED, view(ready, offered_load=load))
    now = view(first, min(first, ready + started), offered_load=load)
    late = tuple(
        attrs.evolve(i, requested_s=NOW_S - 25, ready_s=NOW_S - 1)
        if place >= ready and i.state is InstanceState.READY
        else attrs.evolve(i, requested_s=min(i.requested_s, NOW_S - 25))
        for place, i in enumerate(now.instances)
    )
    if first > ready:
        assert size(OFFERED, attrs.evolve(now, instances=late)) <= first


def test_a_falling_load_is_never_urgent() -> None:
    """Only what hurts now may jump the queue."""
    assert not OFFERED.wanted(view(20, offered_load=0.5)).urgent


def test_an_unknown_load_keeps_the_size_and_says_why() -> None:
    """Unknown is not zero."""
    silent = Unknown("1 of 3 instances did not say (w-0002: timed out)")
    wish = OFFERED.wanted(view(3, offered_load=silent))
    assert wish == Wish(None, f"offered_load is unknown: {silent.reason}")
    assert OFFERED.wanted(view(3)).replicas is None


def test_what_is_no_number_is_not_reckoned_with() -> None:
    """A metric of Triton may be NaN."""
    wish = OFFERED.wanted(view(3, offered_load=float("nan")))
    assert wish == Wish(None, "offered_load is unknown: it is nan")


def test_a_window_takes_the_mean_and_panic_takes_the_newest() -> None:
    """A short peak is smoothed away, a load beyond all measure is not."""
    smooth = TargetPolicy(TargetSettings(target=12, window_s=4.0))
    peak = history(view(3), offered_load=(12.0, 12.0, 12.0, 12.0, 48.0))
    wish = smooth.wanted(peak)
    assert wish.replicas == 2
    assert wish.reason == (
        "offered_load is 19.2 over the last 4 s (target 12 a replica): 2 replicas"
    )
    storm = history(view(3), offered_load=(12.0, 12.0, 12.0, 12.0, 240.0))
    assert smooth.wanted(storm) == Wish(
        20, "offered_load is 240 (target 12 a replica): 20 replicas", urgent=True
    )


@pytest.mark.parametrize(
    ("loads", "wanted"),
    [
        ((12.0, 180.0), 2),  # a part of the last second was before the jump
        ((12.0, 180.0, 360.0), 30),  # now all of it is seen
        ((12.0, 26.0), 3),  # no jump: within the tolerance of what there is
        ((24.0, 26.0, 28.0), 3),  # nor this: it climbs
        ((180.0,), 15),  # nothing to compare it with
    ],
)
def test_a_jump_is_answered_when_all_of_it_is_seen(loads: tuple[float, ...], wanted: int) -> None:
    """Else a first decision for a part of it would be followed by a second one."""
    assert OFFERED.wanted(history(view(2), offered_load=loads)).replicas == wanted


def test_where_looks_are_far_apart_none_is_waited_for() -> None:
    """Fifteen seconds are too long for a fleet that is full."""
    rows = ((NOW_S - 15, Known(12.0)), (NOW_S, Known(180.0)))
    fleet = attrs.evolve(view(2), signals={"offered_load": rows})
    assert OFFERED.wanted(fleet).replicas == 15


def test_a_metric_of_triton_is_a_sum_unless_it_is_said_to_be_a_mean() -> None:
    """Any family's name will do; what it is cannot be read from it."""
    waiting = TargetPolicy(TargetSettings("vllm:num_requests_waiting", 8))
    metrics = {"vllm:num_requests_waiting": 33.0}
    assert waiting.wanted(view(1, **metrics)).replicas == 5
    cache = TargetPolicy(TargetSettings("vllm:gpu_cache_usage_perc", "80%", total=False))
    full = {"vllm:gpu_cache_usage_perc": 1.0, "in_flight": 3.0}
    wish = cache.wanted(view(4, **full))
    assert wish.replicas == 5
    assert wish.reason == ("vllm:gpu_cache_usage_perc is 100% (target 80%, 4 ready): 5 replicas")


# -- looking ahead


def climbing(per_s: float, start_s: float | None = 20.0, **asked: object) -> Wish:
    """Return the wish for a load that has climbed to 24 on two replicas, at target 12."""
    loads = tuple(24 - per_s * age for age in reversed(range(120)))
    fleet = history(view(2), offered_load=loads, in_flight=loads)
    if start_s is None:
        instances = tuple(attrs.evolve(i, adopted=True) for i in fleet.instances)
        fleet = attrs.evolve(fleet, instances=instances)
    return TargetPolicy(TargetSettings(target=12, **asked)).wanted(fleet)  # type: ignore[arg-type]


def test_a_steady_growth_is_carried_forward_by_the_time_of_a_start() -> None:
    """0.1 per second is 3 more in the 20 s that starts took and 10 s: urgent, for it is no peak."""
    assert climbing(0.1) == Wish(
        3,
        "offered_load is 24 (target 12 a replica), and 27 in 30 s if it grows on: 3 replicas",
        urgent=True,
    )
    assert climbing(0.01) == Wish(
        3, "offered_load is 24 (target 12 a replica), and 24.3 in 30 s if it grows on: 3 replicas"
    )
    assert climbing(0.1, lookahead_s=0.0).replicas == 2
    assert climbing(0.1, lookahead_s=150.0).replicas == 4
    assert climbing(-0.1).replicas == 2


def test_without_a_start_that_was_seen_it_counts_as_30_s() -> None:
    """An adopted instance started long before: how fast is not known."""
    assert "28 in 40 s" in climbing(0.1, start_s=None).reason


def test_a_jump_is_no_growth_to_carry_forward() -> None:
    """From 6 to 24 a moment ago, or a minute ago: 24 is all there is."""
    for ago in (1, 10, 20, 30, 50, 60, 90):
        loads = (6.0,) * (120 - ago) + (24.0,) * ago
        wish = OFFERED.wanted(history(view(2), offered_load=loads))
        assert (wish.replicas, wish.urgent) == (2, False)


# -- from zero, and to zero


def test_from_zero_to_what_the_waiting_requests_need() -> None:
    """A queue of forty is not met with one replica."""
    silent = Unknown("no instance is ready")
    wish = OFFERED.wanted(view(0, waiting=40, offered_load=silent))
    assert wish == Wish(4, "40 requests wait (target 12 a replica): 4 replicas", urgent=True)
    one = OFFERED.wanted(view(0, waiting=1, offered_load=silent))
    assert one == Wish(1, "1 request waits (target 12 a replica): 1 replica", urgent=True)
    time = QUEUE_TIME.wanted(view(0, waiting=40))
    assert time == Wish(1, "40 requests wait: 1 replica", urgent=True)


def test_what_starts_from_zero_is_not_asked_for_again() -> None:
    """The same forty, a moment later."""
    wish = OFFERED.wanted(view(4, ready=0, waiting=40))
    assert wish == Wish(4, "40 requests wait (target 12 a replica): 4 replicas are enough")


def test_nobody_waits_and_nobody_serves() -> None:
    """There is nothing to judge by."""
    wish = OFFERED.wanted(view(0))
    assert wish == Wish(None, "no instance is ready, and no request waits for one")


def test_to_zero_only_where_it_is_allowed_and_nothing_is_offered() -> None:
    """A least size of one keeps one; so does a request that executes."""
    assert OFFERED.wanted(view(3, offered_load=0, in_flight=0)).replicas == 0
    assert OFFERED.wanted(view(3, offered_load=0)).replicas == 0
    assert OFFERED.wanted(view(3, offered_load=0, in_flight=1)).replicas == 1
    some = view(3, limits=Limits(1, 9), offered_load=0, in_flight=0)
    assert OFFERED.wanted(some).replicas == 1
    assert OFFERED.wanted(view(3, offered_load=0.01, in_flight=0)).replicas == 1


def test_the_last_replica_stays_while_anything_was_asked_for_lately() -> None:
    """To wake is dear: who asked a minute ago is likely to ask again."""
    patient = TargetPolicy(TargetSettings(target=12, sleep_after_s=60.0))
    served = history(view(1), in_flight=(3.0, *(0.0,) * 30), offered_load=(0.0,) * 31)
    assert patient.wanted(served).replicas == 1
    idle = history(view(1), in_flight=(3.0, *(0.0,) * 60), offered_load=(0.0,) * 61)
    assert patient.wanted(idle).replicas == 0


def test_next_to_nothing_is_nothing() -> None:
    """A rate that fades away never becomes zero."""
    fading = view(3, offered_load=1e-300, in_flight=1e-9)
    wish = OFFERED.wanted(fading)
    assert wish == Wish(0, "offered_load is 0 (target 12 a replica): 0 replicas")
    nothing = Unknown("no request ended since the last sample")
    idle = view(5, queue_time=nothing, in_flight=1e-9, requests_per_s=1e-300)
    assert QUEUE_TIME.wanted(idle).replicas == 0


def test_a_quiet_gpu_is_no_proof_that_nobody_asks() -> None:
    """Zero utilization lets the fleet sleep only where nothing is in flight, as is known."""
    gpu = TargetPolicy(TargetSettings("gpu_utilization", "60%"))
    assert gpu.wanted(view(2, gpu_utilization=0)).replicas == 1
    assert gpu.wanted(view(2, gpu_utilization=0, in_flight=0)).replicas == 0


def test_a_mean_over_no_requests_is_no_load() -> None:
    """Where nothing ended, waits or executes, there is no queue time, and none is needed."""
    nothing = Unknown("no request ended since the last sample")
    idle = view(5, limits=Limits(1, 9), queue_time=nothing, in_flight=0, requests_per_s=0)
    wish = QUEUE_TIME.wanted(idle)
    assert wish == Wish(1, "queue_time is 0 s (target 20 ms, 5 ready): 1 replica")
    assert QUEUE_TIME.wanted(view(5, queue_time=nothing, in_flight=2)).replicas is None


# -- means


def test_a_mean_is_held_against_the_ready_replicas() -> None:
    """Twice the time, twice the replicas."""
    wish = QUEUE_TIME.wanted(view(3, queue_time=0.04))
    assert wish.replicas == 6
    assert wish.reason == "queue_time is 40 ms (target 20 ms, 3 ready): 6 replicas"


def test_a_mean_says_nothing_of_replicas_that_start() -> None:
    """They were asked for because of it: neither more nor fewer until they are there."""
    wish = QUEUE_TIME.wanted(view(6, ready=3, queue_time=0.5))
    assert wish.replicas == 6
    assert wish.reason == (
        "queue_time is 500 ms (target 20 ms, 3 ready): 6 replicas, of which 3 still start"
    )


def test_what_the_ready_replicas_alone_do_not_need_is_given_up() -> None:
    """An ask that nobody grants does not keep the others alive."""
    assert QUEUE_TIME.wanted(view(6, ready=5, queue_time=0.004)).replicas == 1


def test_a_start_that_is_late_is_not_waited_for() -> None:
    """The ready ones took 20 s: who is on the way for more than 40 s may never come."""
    late = view(4, ready=3, asked_s=900.0, queue_time=0.04)
    assert QUEUE_TIME.wanted(late).replicas == 6
    assert QUEUE_TIME.wanted(attrs.evolve(late, now_s=930.0)).replicas == 4


def test_a_fleet_that_lost_instances_is_not_shrunk_by_a_mean() -> None:
    """One survivor of four with three times its share stands for a load of three."""
    lost = view(4, ready=1, asked_s=900.0, queue_time=0.06)
    wish = QUEUE_TIME.wanted(lost)
    assert wish.replicas == 4
    assert wish.reason.endswith("4 replicas, not all ready")


# -- laws


@for_any(load=loads, more=loads, desired=sizes, ready=sizes)
@pytest.mark.parametrize("policy", [OFFERED, QUEUE_TIME])
def test_more_load_never_wants_fewer(
    policy: TargetPolicy, load: float, more: float, desired: int, ready: int
) -> None:
    """Monotone, whatever is ready."""

    def at(value: float) -> FleetView:
        both = {"offered_load": value, "queue_time": value / 100}
        return view(desired, min(ready, desired), in_flight=1.0, **both)

    assert size(policy, at(load)) <= size(policy, at(load + more))


@for_any(load=loads, desired=sizes)
def test_its_own_answer_satisfies_it(load: float, desired: int) -> None:
    """Fed with the size that it wished, it wishes the same; and then each has its share."""
    first = size(OFFERED, view(desired, offered_load=load)) if desired else 1
    again = view(first, offered_load=load)
    if first:
        settled = size(OFFERED, again)
        assert size(OFFERED, view(settled, offered_load=load)) == settled
        assert load <= settled * 12 * (1.1 + 1e-6) + NOTHING


@for_any(load=loads, desired=st.integers(1, 40))
def test_a_mean_that_falls_as_replicas_come_satisfies_it(load: float, desired: int) -> None:
    """Where the mean is in proportion to the load of a replica, one step is enough."""
    first = size(QUEUE_TIME, view(desired, queue_time=load / 1000 / desired))
    if first:
        assert size(QUEUE_TIME, view(first, queue_time=load / 1000 / first)) == first


@for_any(load=loads, ready=st.integers(1, 9), queues=st.lists(loads, max_size=6))
@pytest.mark.parametrize("policy", [OFFERED, QUEUE_TIME])
def test_the_wish_does_not_creep_while_instances_start(
    policy: TargetPolicy, load: float, ready: int, queues: list[float]
) -> None:
    """A queue that grows until they are there asks for nothing more than the first look did."""
    first = size(policy, view(ready, offered_load=load, queue_time=load / 1000, in_flight=1.0))
    if first <= ready:
        return
    for queue in sorted(queues):
        time = (load + queue) / 1000
        fleet = view(first, ready, offered_load=load, queue_time=time, in_flight=load + queue)
        assert size(policy, fleet) == first


# -- settings


def problems(**options: Any) -> list[str]:
    """Return what is wrong with the options, as a user reads it."""
    return [p.found for p in structure(TargetSettings, options, "scaling.options")[1]]


def test_every_wrong_option_is_named_at_once() -> None:
    """Where, what was found, and what would be right."""
    amount = "must be a number, a duration (20ms) or a percentage (50%), more than 0"
    fraction = "must be a fraction (0.5 or 50%), at least 0% and less than 100%"
    assert problems(target="20 parsecs", tolerance=1.0, window=30, panic=1.0) == [
        f"scaling.options.target = '20 parsecs': {amount}",
        f"scaling.options.tolerance = 1.0: {fraction}",
        "scaling.options.window = 30: a duration needs its unit",
        "scaling.options.panic = 1.0: must be more than 1",
    ]


def test_a_target_in_the_wrong_unit_is_refused() -> None:
    """Twenty of what? Nobody can tell."""
    assert problems(signal="queue_time", target=20) == [
        "scaling.options: target = 20: queue_time is a duration; write its unit, as in 20ms"
    ]
    assert problems(signal="gpu_utilization", target=60) == [
        "scaling.options: target = 60: gpu_utilization is a fraction of 1; write 0.6 or 60%"
    ]
    assert problems(signal="pending", target="20ms") == [
        "scaling.options: target = 20ms: pending is counted; write a bare number, as in 10"
    ]
    assert problems(signal="latency_p95", target="200ms") == []


# -- a target that is too high for the model


def full(size: int, each: float, pending: float = 8.0, looks: int = 4) -> FleetView:
    """Return a full fleet whose clients wait for their answers, so that what is offered stays."""
    seen = {"offered_load": each * size, "executing": each * size, "pending": pending}
    seen["when_full"] = each
    return history(view(size), **{name: (float(value),) * looks for name, value in seen.items()})


def test_a_full_fleet_grows_though_by_its_target_it_is_idle() -> None:
    """Eight clients and a model that executes one request at once: no more than one is offered."""
    wish = OFFERED.wanted(full(1, 1.0))
    told = "offered_load is 1 (target 0.75 a replica, which executes 1 when full): 2 replicas"
    assert wish == Wish(2, told, urgent=True)


@pytest.mark.parametrize(("size", "wanted"), [(1, 2), (2, 3), (4, 6), (6, 8)])
def test_it_grows_until_nobody_waits(size: int, wanted: int) -> None:
    """The same eight clients, while each replica executes one of theirs."""
    assert OFFERED.wanted(full(size, 1.0)).replicas == wanted


# -- callers that wait for their answers


def queued(
    in_flight: Sequence[float], *, size: int = 1, executing: float = 1.0, per_s: float = 5.0
) -> FleetView:
    """Return a full fleet with so many requests in it at each look, the last one now."""
    looks = len(in_flight)
    steady = {"offered_load": executing, "executing": executing, "requests_per_s": per_s}
    signals = {name: (float(value),) * looks for name, value in steady.items()}
    waiting = tuple(max(0.0, each - executing) for each in in_flight)
    full = (executing / size,) * looks
    more = {"in_flight": tuple(in_flight), "pending": waiting, "when_full": full}
    return history(view(size), **signals, **more)


def test_callers_that_wait_are_the_load_themselves() -> None:
    """Twelve of them and a model that takes 0.2 s: one executes, but all of them would."""
    wish = OFFERED.wanted(queued((12.0, 11.8, 12.1)))
    told = (
        "offered_load is 1 (target 0.75 a replica, which executes 1 when full); "
        "12.1 requests are in flight, of callers that wait for their answers: 17 replicas"
    )
    assert wish == Wish(17, told, urgent=True)


def test_their_load_does_not_change_while_instances_start() -> None:
    """The size that was asked for stays; so it does with a part of them ready."""
    for ready in (1, 4, 8):
        fleet = queued((12.0,) * 9, size=ready, executing=float(ready), per_s=5.0 * ready)
        assert OFFERED.wanted(attrs.evolve(fleet, desired=16)).replicas == 16


@for_any(
    start=st.floats(2, 500),
    changes=st.lists(st.floats(1, 50), min_size=2, max_size=6),
    grows=st.booleans(),
    per_s=st.floats(2, 400),
)
def test_a_queue_that_grows_or_is_worked_off_is_of_others(
    start: float, changes: list[float], grows: bool, per_s: float
) -> None:
    """Their load is what arrives: what is in flight then plays no part."""
    rows = [start]
    for change in changes:  # more than by chance, in each second
        rows.append(rows[-1] + change * math.sqrt(per_s))
    fleet = queued(rows if grows else rows[::-1], per_s=per_s)
    assert load_of_callers(fleet) is None
    unseen = {name: rows for name, rows in fleet.signals.items() if name != "in_flight"}
    assert OFFERED.wanted(fleet) == OFFERED.wanted(attrs.evolve(fleet, signals=unseen))


@for_any(fewer=st.floats(2, 300), more=st.floats(0, 300), per_s=st.floats(3, 400), size=sizes)
def test_more_callers_never_get_less(fewer: float, more: float, per_s: float, size: int) -> None:
    """And no size goes beyond the limits once the guard has judged."""
    wishes = []
    for load in (fewer, fewer + more):
        fleet = attrs.evolve(queued((load,) * 4, per_s=per_s), desired=max(1, size))
        wishes.append(OFFERED.wanted(fleet).replicas or fleet.desired)
    assert wishes[0] <= wishes[1]
    assert Limits(1, 3).clamp(wishes[1]) <= 3


@pytest.mark.parametrize(
    "fleet",
    [
        queued((12.0, 12.0)),
        queued((12.0,) * 9, per_s=0.1),
        queued((12.0,) * 4, executing=11.0),
        queued((4.0, 9.0, 12.0)),
        attrs.evolve(queued((12.0,) * 4), signals={}),
    ],
)
def test_what_does_not_show_such_callers(fleet: FleetView) -> None:
    """Two looks, too few answers, a queue that is short or has just changed, and no samples."""
    assert load_of_callers(fleet) is None


def test_an_unknown_look_shows_nothing() -> None:
    """The queue may have changed there."""
    fleet = queued((12.0,) * 3)
    before, _, now = fleet.signals["pending"]
    holed = (before, (NOW_S - 1, Unknown("no answer")), now)
    assert load_of_callers(attrs.evolve(fleet, signals={**fleet.signals, "pending": holed})) is None


def test_a_short_burst_proves_nothing() -> None:
    """Two looks at a queue are not yet a replica that is full."""
    assert OFFERED.wanted(full(1, 1.0, looks=2)).replicas == 1


def test_a_lower_target_than_that_of_a_full_replica_stays() -> None:
    """Who wants more room than three quarters gets it."""
    roomy = TargetPolicy(TargetSettings(target=4))
    told = "offered_load is 16 (target 4 a replica): 4 replicas"
    assert roomy.wanted(full(1, 16.0)).reason == told


def test_what_a_replica_does_with_ease_counts_as_what_it_can() -> None:
    """One model was full with one request; now nine of another execute, and none waits."""
    calm = history(view(1), executing=(9.0,) * 12, offered_load=(9.0,) * 12)
    before = tuple((NOW_S - 30 + place, Known(1.0)) for place in range(4))
    both = {**calm.signals, "when_full": before}
    assert OFFERED.wanted(attrs.evolve(calm, signals=both)).replicas == 2
