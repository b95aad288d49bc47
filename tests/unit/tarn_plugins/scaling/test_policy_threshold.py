"""The policy `threshold`: the marks of the Java TARN, and what it got wrong."""

from typing import Any

import pytest
from hypothesis import strategies as st
from unit.tarn_plugins.scaling.views import view

from tarn.domain import FleetView, Limits, Unknown, Wish
from tarn.plain import structure
from tarn.testing.strategies import for_any
from tarn_plugins.scaling.threshold import ThresholdPolicy, ThresholdSettings, tarn_scaling_policies

BOTH = ThresholdPolicy(ThresholdSettings())
GPU = ThresholdPolicy(ThresholdSettings("gpu_util"))
QUEUE = ThresholdPolicy(ThresholdSettings("queue_depth"))
SILENT = Unknown("no nv_gpu_utilization: a CPU build?")


def size(policy: ThresholdPolicy, fleet: FleetView) -> int:
    """Return the size after the wish: no opinion keeps the present one."""
    wanted = policy.wanted(fleet).replicas
    return fleet.desired if wanted is None else wanted


# -- the marks


def test_above_the_upper_mark_it_goes_to_what_the_queue_fits() -> None:
    """160 queued at 16 a replica are ten, at once."""
    wish = QUEUE.wanted(view(1, pending=160))
    assert wish == Wish(10, "load is 100% (160 queued where 16 are full), above 70%: 10 replicas")


def test_above_the_upper_mark_it_wants_at_least_one_more() -> None:
    """A GPU that is busy says nothing of how many are missing."""
    wish = GPU.wanted(view(3, gpu_utilization=0.95))
    assert wish == Wish(4, "load is 95% (GPUs 95% busy), above 70%: 4 replicas")
    assert QUEUE.wanted(view(3, pending=40)).replicas == 4


def test_between_the_marks_it_keeps_what_there_is() -> None:
    """The marks themselves are between: above and below are strict, as they were."""
    kept = "from 20% to 70%: 2 replicas"
    assert GPU.wanted(view(2, gpu_utilization=0.7)).reason.endswith(kept)
    assert GPU.wanted(view(2, gpu_utilization=0.2)).replicas == 2
    assert GPU.wanted(view(2, gpu_utilization=0.71)).replicas == 3
    assert GPU.wanted(view(2, gpu_utilization=0.19)).replicas == 1


def test_below_the_lower_mark_it_gives_up_one() -> None:
    """However little there is to do."""
    wish = QUEUE.wanted(view(5, pending=0))
    assert wish == Wish(4, "load is 0% (0 queued where 80 are full), below 20%: 4 replicas")


def test_composite_goes_by_the_fuller_of_the_two() -> None:
    """A long queue counts beside idle GPUs, and busy GPUs beside an empty queue."""
    queue = BOTH.wanted(view(2, gpu_utilization=0.1, pending=30))
    assert queue.replicas == 3
    assert queue.reason == (
        "load is 93.8% (GPUs 10% busy, 30 queued where 32 are full), above 70%: 3 replicas"
    )
    assert BOTH.wanted(view(2, gpu_utilization=0.9, pending=0)).replicas == 3
    assert BOTH.wanted(view(2, gpu_utilization=0.1, pending=1)).replicas == 1


# -- what is missing


def test_a_metric_that_the_mode_needs_and_nobody_has_keeps_the_size() -> None:
    """The Java TARN took it for zero, and went down."""
    wish = GPU.wanted(view(3, gpu_utilization=SILENT, pending=0))
    assert wish == Wish(None, f"GPU utilization is unknown: {SILENT.reason}")
    assert QUEUE.wanted(view(3, gpu_utilization=0)) == Wish(
        None, "the queue is unknown: no sample of pending yet"
    )
    both = BOTH.wanted(view(3, gpu_utilization=SILENT))
    assert both.replicas is None
    assert both.reason == (
        f"GPU utilization is unknown: {SILENT.reason}; "
        "the queue is unknown: no sample of pending yet"
    )


def test_composite_goes_by_what_is_known_and_says_what_is_not() -> None:
    """A fleet without GPUs has a queue; it grows by it, and shrinks by it."""
    wish = BOTH.wanted(view(2, gpu_utilization=SILENT, pending=48))
    assert wish.replicas == 3
    assert wish.reason == (
        "load is 100% (48 queued where 32 are full, GPU utilization is unknown: "
        f"{SILENT.reason}), above 70%: 3 replicas"
    )
    assert BOTH.wanted(view(2, gpu_utilization=SILENT, pending=0)).replicas == 1


def test_what_is_no_number_is_unknown() -> None:
    """A metric of Triton may be NaN."""
    wish = GPU.wanted(view(3, gpu_utilization=float("nan")))
    assert wish == Wish(None, "GPU utilization is unknown: it is nan")


# -- from zero, and to zero


def test_one_request_at_zero_wants_one() -> None:
    """The Java TARN could not leave zero."""
    wish = BOTH.wanted(view(0, waiting=1))
    assert wish == Wish(1, "1 request waits (16 fill a replica): 1 replica")
    assert BOTH.wanted(view(0, waiting=160)).replicas == 10
    assert BOTH.wanted(view(0)).replicas is None


def test_the_last_replica_goes_only_where_the_fleet_may_sleep_and_nobody_asks() -> None:
    """An empty queue is no proof that nothing executes."""
    assert BOTH.wanted(view(1, pending=0, in_flight=0)).replicas == 0
    working = BOTH.wanted(view(1, pending=0, in_flight=2))
    assert working.replicas == 1
    assert working.reason.endswith("the last replica stays, since requests may be in flight")
    assert BOTH.wanted(view(1, pending=0)).replicas == 1
    awake = BOTH.wanted(view(1, limits=Limits(1, 4), pending=0, in_flight=0))
    assert awake.reason.endswith("below 20%: the last replica stays")


# -- laws


@for_any(load=st.floats(0, 1), more=st.floats(0, 1), desired=st.integers(0, 40))
@pytest.mark.parametrize("policy", [BOTH, GPU, QUEUE])
def test_more_load_never_wants_fewer(
    policy: ThresholdPolicy, load: float, more: float, desired: int
) -> None:
    """Monotone, also while some start."""
    for ready in {desired, desired // 2}:
        low = view(desired, ready, gpu_utilization=load, pending=load * 900)
        high = view(desired, ready, gpu_utilization=load + more, pending=(load + more) * 900)
        assert size(policy, low) <= size(policy, high)


@for_any(queued=st.floats(0, 900), ready=st.integers(1, 9))
def test_the_wish_does_not_creep_while_instances_start(queued: float, ready: int) -> None:
    """One more at each look is what the cooldown had to prevent."""
    full = view(ready, gpu_utilization=0.99, pending=queued)
    first = size(BOTH, full)
    assert first > ready
    again = view(first, ready, gpu_utilization=1.0, pending=queued)
    assert size(BOTH, again) == first


@for_any(queued=st.floats(0, 900), desired=st.integers(1, 60))
def test_the_same_queue_leads_to_a_size_that_stays(queued: float, desired: int) -> None:
    """Fed with its own answers it comes to rest, with no more than the upper mark asks for."""
    sizes = [desired]
    for _ in range(100):
        sizes.append(size(QUEUE, view(sizes[-1], pending=queued, in_flight=1)))
    assert sizes[-1] == sizes[-2]
    rest = queued / (sizes[-1] * 16)
    assert rest <= 0.7
    assert rest >= 0.2 or sizes[-1] == 1


@for_any(waiting=st.integers(0, 500), desired=st.integers(0, 9))
def test_where_nothing_is_ready_a_queue_is_asked_for_once(waiting: int, desired: int) -> None:
    """What starts from zero for a queue is enough for that queue."""
    first = size(BOTH, view(desired, 0, waiting=waiting))
    assert size(BOTH, view(first, 0, waiting=waiting)) == first
    assert first >= waiting / 16


# -- settings


def problems(**options: Any) -> list[str]:
    """Return what is wrong with the options, as a user reads it."""
    return [p.found for p in structure(ThresholdSettings, options, "scaling.options")[1]]


def test_every_wrong_option_is_named_at_once() -> None:
    """Where, what was found, and what would be right."""
    found = problems(mode="gpu", queue_capacity=0, scale_up="110%", scale_down=-0.1)
    up = "must be a fraction (0.5 or 50%), more than 0% and at most 100%"
    down = "must be a fraction (0.5 or 50%), at least 0% and less than 100%"
    assert found == [
        "scaling.options.mode = 'gpu': 'composite' or 'gpu_util' or 'queue_depth' is needed",
        "scaling.options.queue_capacity = 0: must be at least 1",
        f"scaling.options.scale_up = '110%': {up}",
        f"scaling.options.scale_down = -0.1: {down}",
    ]


def test_the_lower_mark_lies_below_the_upper_one() -> None:
    """Both are shown as they are compared."""
    (found,) = problems(scale_up=0.5, scale_down="50%")
    marks = "scale_down = 0.5 is not below scale_up = 0.5"
    assert found == f"scaling.options: {marks}; lower the one or raise the other"
    assert problems(scale_up="80%", scale_down=0.2) == []


def test_it_reads_what_its_mode_needs() -> None:
    """The master refuses a policy that reads what there is not."""
    reads = tarn_scaling_policies()["threshold"].reads
    assert set(reads(BOTH.settings)) == {"gpu_utilization", "pending"}
    assert set(reads(GPU.settings)) == {"gpu_utilization"}
    assert set(reads(QUEUE.settings)) == {"pending"}
