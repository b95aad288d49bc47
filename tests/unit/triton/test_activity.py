"""The estimate of what executes."""

import pytest

from tarn.domain import Known, Unknown
from tarn.triton.activity import FACTOR, LEAST, SHORTEST_S, Activity, observe
from tarn.triton.metrics import Metrics, parse


def scrape(*, pending: float | None = 0, ended: int = 0, each_s: float = 1.0) -> Metrics:
    """A Triton where *ended* requests ended, each after *each_s*, and *pending* wait."""
    text = (
        f'nv_inference_request_success{{model="m"}} {ended}\n'
        f'nv_inference_request_duration_us{{model="m"}} {ended * each_s * 1e6}\n'
        'nv_inference_queue_duration_us{model="m"} 0\n'
    )
    if pending is not None:
        text += f'nv_inference_pending_request_count{{model="m"}} {pending}\n'
    return parse(text.encode())


def test_a_single_scrape_tells_nothing() -> None:
    """Idle and busy look the same."""
    assert isinstance(observe(None, scrape(), 10.0).executing, Unknown)


def test_still_counters_mean_idle_after_the_shortest_time() -> None:
    """A Triton that never answered a request is idle soon, and not before."""
    first = observe(None, scrape(), 10.0)
    early = observe(first, scrape(), 10.0 + SHORTEST_S / 2)
    assert isinstance(early.executing, Unknown)
    assert observe(early, scrape(), 10.0 + SHORTEST_S).executing == Known(0.0)


def test_what_waits_proves_that_something_executes() -> None:
    """Pending counts only those behind it."""
    assert observe(None, scrape(pending=2), 10.0).executing == Known(1.0)


def test_moving_counters_are_busy_by_littles_law() -> None:
    """Four requests of 1 s each ended within 2 s: two at a time."""
    first = observe(None, scrape(ended=10), 10.0)
    assert observe(first, scrape(ended=14), 12.0).executing == Known(2.0)


def test_a_request_just_ended_is_not_yet_idle() -> None:
    """Another one of its length may be under way: three times the mean must pass."""
    first = observe(None, scrape(ended=1, each_s=4.0), 10.0)
    moved = observe(first, scrape(ended=2, each_s=4.0), 11.0)
    late = 11.0 + FACTOR * 4.0
    for now_s in (12.0, late - 0.1):
        still = observe(moved, scrape(ended=2, each_s=4.0), now_s)
        assert isinstance(still.executing, Known)
        assert still.executing.value > 0
    assert observe(moved, scrape(ended=2, each_s=4.0), late).executing == Known(0.0)


def test_the_wait_begins_anew_when_the_queue_empties() -> None:
    """The last one out of the queue executes now."""
    waiting = observe(None, scrape(pending=1, ended=3), 10.0)
    empty = observe(waiting, scrape(ended=3), 11.0)
    assert empty.executing == Known(1.0)
    assert observe(empty, scrape(ended=3), 13.0).executing == Known(0.0)


def test_a_counter_that_falls_is_a_movement() -> None:
    """A model was loaded again; nothing negative comes of it."""
    first = observe(None, scrape(ended=9), 10.0)
    assert observe(first, scrape(ended=1), 11.0).executing == Known(LEAST)


def test_without_the_gauge_it_stays_unknown() -> None:
    """Before 23.09 a queue cannot be seen, so idleness cannot be claimed."""
    activity: Activity | None = None
    for now_s in (1.0, 2.0, 100.0):
        activity = observe(activity, scrape(pending=None, ended=1), now_s)
        assert isinstance(activity.executing, Unknown)


@pytest.mark.parametrize("now_s", [10.0, 9.0])
def test_a_clock_that_stands_still_divides_by_nothing(now_s: float) -> None:
    """Two scrapes in one moment."""
    first = observe(None, scrape(ended=1), 10.0)
    assert observe(first, scrape(ended=2), now_s).executing == Known(LEAST)
