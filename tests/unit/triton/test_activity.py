"""The estimate of what executes."""

from collections.abc import Collection

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarn.domain import Known, Unknown
from tarn.triton import activity as estimate
from tarn.triton.activity import FACTOR, LEAST, SHORTEST_S, Activity
from tarn.triton.metrics import TritonMetrics, parse
from tarn.triton.model_counters import rows


def observe(
    before: Activity | None, seen: TritonMetrics, now_s: float, ensembles: Collection[str] = ()
) -> Activity:
    return estimate.observe(before, seen, rows(seen), now_s, ensembles)


def scrape(
    *, pending: float | None = 0, ended: int = 0, each_s: float = 1.0, waited_s: float = 0.0
) -> TritonMetrics:
    """A Triton where *ended* requests ended, each after *each_s*, and *pending* wait.

    *waited_s* is how long those that ended waited, in all.
    """
    text = (
        f'nv_inference_request_success{{model="m"}} {ended}\n'
        f'nv_inference_request_duration_us{{model="m"}} {ended * each_s * 1e6}\n'
        f'nv_inference_queue_duration_us{{model="m"}} {waited_s * 1e6}\n'
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
    """A model was loaded again, and what it counts now is new: one request of a second."""
    first = observe(None, scrape(ended=9), 10.0)
    assert observe(first, scrape(ended=1), 11.0).executing == Known(1.0)
    assert observe(first, scrape(ended=0), 11.0).executing == Known(LEAST)


def test_of_counters_that_cannot_be_read_nothing_is_estimated() -> None:
    """And nothing is lost: the next scrape that can be read goes on from the one before."""
    first = observe(None, scrape(ended=10), 10.0)
    broken = parse(b"nv_inference_request_success NaN\nnv_inference_pending_request_count 0\n")
    dark = observe(first, broken, 11.0)
    assert (isinstance(dark.executing, Unknown), dark.pending) == (True, Known(0.0))
    assert observe(dark, scrape(ended=14), 12.0).executing == Known(2.0)
    assert isinstance(observe(None, broken, 1.0).executing, Unknown)
    after = observe(observe(None, broken, 1.0), scrape(ended=4), 2.0)
    assert isinstance(after.executing, Unknown)


def test_without_the_gauge_the_queue_is_estimated() -> None:
    """Before 23.09: four ended within 2 s, and waited 6 s in all, so three waited at a time."""
    first = observe(None, scrape(pending=None, ended=10), 10.0)
    assert isinstance(first.pending, Unknown)
    assert "Triton before 23.09 (2.38)" in first.pending.reason
    second = observe(first, scrape(pending=None, ended=14, each_s=2.5, waited_s=6.0), 12.0)
    assert second.pending == Known(3.0)
    still = observe(second, scrape(pending=None, ended=14, each_s=2.5, waited_s=6.0), 13.0)
    assert still.pending == Known(3.0)


def test_without_the_gauge_it_becomes_quiet() -> None:
    """What waits would execute: a drained instance of an old Triton may be stopped."""
    first = observe(None, scrape(pending=None, ended=1), 10.0)
    early = observe(first, scrape(pending=None, ended=1), 12.9)
    assert isinstance(early.executing, Unknown)
    late = observe(early, scrape(pending=None, ended=1), 10.0 + FACTOR * 1.0)
    assert (late.pending, late.executing) == (Known(0.0), Known(0.0))


def test_a_gauge_that_cannot_be_read_is_no_old_triton() -> None:
    """It has one: what it says is unknown, and nothing is made up."""
    text = b"nv_inference_pending_request_count much\nnv_inference_queue_duration_us 0\n"
    first = observe(None, parse(text), 1.0)
    for activity in (first, observe(first, parse(text), 99.0)):
        assert isinstance(activity.pending, Unknown)
        assert "cannot read the line" in activity.pending.reason
        assert activity.executing == activity.pending


def test_without_any_model_nothing_is_known() -> None:
    """No counter is there to be still."""
    first = observe(None, parse(b""), 1.0)
    second = observe(first, parse(b""), 99.0)
    assert isinstance(second.pending, Unknown)
    assert isinstance(second.executing, Unknown)


scrapes = st.lists(
    st.tuples(
        st.floats(0.1, 5.0),  # seconds since the last one
        st.integers(0, 5),  # requests that ended meanwhile
        st.floats(0.0, 10.0),  # seconds that they waited, in all
        st.one_of(st.none(), st.integers(0, 3)),
    ),
    max_size=12,
)


@given(scrapes)
def test_an_estimate_is_never_below_nothing_and_nothing_only_when_still(
    drawn: list[tuple[float, int, float, int | None]],
) -> None:
    """With and without the gauge: what moved or waits is at work, and zero needs quiet."""
    activity, now_s, ended, waited_s = None, 0.0, 0, 0.0
    for step_s, more, waited_more_s, pending in drawn:
        now_s, ended, waited_s = now_s + step_s, ended + more, waited_s + waited_more_s * more
        before = activity
        activity = observe(
            before, scrape(pending=pending, ended=ended, each_s=20.0, waited_s=waited_s), now_s
        )
        for sample in (activity.executing, activity.pending):
            assert isinstance(sample, Unknown) or sample.value >= 0
        if pending is not None:
            assert activity.pending == Known(float(pending))
        if activity.executing == Known(0.0):
            assert more == 0
            assert not pending
            assert now_s >= activity.quiet_at_s


@pytest.mark.parametrize("now_s", [10.0, 9.0])
def test_a_clock_that_stands_still_divides_by_nothing(now_s: float) -> None:
    """Two scrapes in one moment."""
    first = observe(None, scrape(ended=1), 10.0)
    assert observe(first, scrape(ended=2), now_s).executing == Known(LEAST)


def test_the_time_that_requests_waited_delays_no_idleness() -> None:
    """After an overload they ended 10 s after they came, and executed for 1 s of these."""
    first = observe(None, scrape(ended=10, each_s=10.0, waited_s=90.0), 10.0)
    moved = observe(first, scrape(ended=11, each_s=10.0, waited_s=99.0), 11.0)
    still = scrape(ended=11, each_s=10.0, waited_s=99.0)
    assert observe(moved, still, 11.0 + FACTOR * 1.0).executing == Known(0.0)


def ensemble(*, ended: int, parts: int, each_s: float, waits: int = 0) -> TritonMetrics:
    """An ensemble `e` of *parts* models, each of which took *each_s* a request; others wait."""
    text = (
        f'nv_inference_request_success{{model="e",version="1"}} {ended}\n'
        f'nv_inference_request_duration_us{{model="e",version="1"}} '
        f"{ended * (parts * each_s + 3.0) * 1e6}\n"
        'nv_inference_queue_duration_us{model="e",version="1"} 0\n'
        'nv_inference_pending_request_count{model="e",version="1"} 0\n'
    )
    for part in range(parts):
        text += (
            f'nv_inference_request_success{{model="p{part}",version="1"}} {ended}\n'
            f'nv_inference_request_duration_us{{model="p{part}",version="1"}} '
            f"{ended * each_s * 1e6}\n"
            f'nv_inference_queue_duration_us{{model="p{part}",version="1"}} 0\n'
            f'nv_inference_pending_request_count{{model="p{part}",version="1"}} {waits}\n'
        )
    return parse(text.encode())


@given(
    parts=st.integers(1, 5),
    each_s=st.floats(0.01, 2.0),
    batches=st.lists(st.integers(0, 5), min_size=1, max_size=20),
)
def test_an_ensemble_never_counts_beside_its_parts(
    parts: int, each_s: float, batches: list[int]
) -> None:
    """In flight is never more than the parts' own work, and 0 soon after the last one ended."""
    ended, now_s = 0, 10.0
    activity = observe(None, ensemble(ended=0, parts=parts, each_s=each_s), now_s, {"e"})
    moved_s = now_s
    for batch in batches:
        now_s += 1.0
        ended += batch
        seen = ensemble(ended=ended, parts=parts, each_s=each_s)
        activity = observe(activity, seen, now_s, {"e"})
        if batch:
            assert isinstance(activity.executing, Known)
            most = max(LEAST, batch * parts * each_s / (now_s - moved_s))
            assert activity.executing.value <= most * 1.0001
            moved_s = now_s
    idle_s = now_s + max(SHORTEST_S, FACTOR * each_s) * 1.0001
    seen = ensemble(ended=ended, parts=parts, each_s=each_s)
    assert observe(activity, seen, idle_s, {"e"}).executing == Known(0.0)
    assert observe(activity, seen, idle_s, {"e"}).seen is seen


def test_a_model_that_turns_out_to_be_an_ensemble_is_left_out_from_then_on() -> None:
    """What it is is asked after the first scrapes."""
    first = observe(None, ensemble(ended=0, parts=1, each_s=1.0), 10.0)
    later = observe(first, ensemble(ended=1, parts=1, each_s=1.0, waits=2), 11.0, {"e"})
    assert (later.pending, later.executing) == (Known(2.0), Known(1.0))
