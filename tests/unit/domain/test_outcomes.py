"""What the history of outcomes tells: growth, spans, what stands still, how long it may take."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarn.domain import Known, Reading
from tarn.domain.counters import CounterSet
from tarn.domain.outcomes import OutcomeHistory, RequestCounts


def counts(
    completed: float = 0.0, failed: float = 0.0, pending: float | None = None, **more: float
) -> RequestCounts:
    return RequestCounts(CounterSet(completed, failed, **more), pending)


def read(now_s: float, **models: RequestCounts) -> dict[str, Reading]:
    """Return the reading of one instance, whose counters were read now."""
    metrics = {"requests_total": Known(0.0)}
    return {"w-0001": Reading("w-0001", now_s, metrics=metrics, outcomes=models)}


def looks(*rows: tuple[float, RequestCounts], window_s: float = 30.0) -> OutcomeHistory:
    history = OutcomeHistory()
    for now_s, outcome in rows:
        history = history.looked(read(now_s, echo=outcome), now_s, window_s)
    return history


def test_the_shortest_span_with_enough_requests_speaks() -> None:
    history = looks(*((float(s), counts(10.0 * s, 0.0)) for s in range(21)))
    place, one = history.enough("w-0001", "echo", 0.0, 20.0)
    assert one == CounterSet(20.0, 0.0)
    assert history.looks[place].at_s == 18.0
    assert history.enough("w-0001", "echo", 0.0, 1000.0) == (0, None)
    assert history.enough("w-0001", "echo", 20.0, 5.0) == (0, None), (
        "what was before counts no more"
    )


@given(st.lists(st.floats(0.5, 40.0), min_size=1, max_size=60), st.floats(1.0, 60.0))
def test_no_look_is_kept_for_long_and_one_covers_the_window(
    steps: list[float], window_s: float
) -> None:
    history, now_s = OutcomeHistory(), 1000.0
    for step in steps:
        now_s += step
        history = history.looked(read(now_s, echo=counts(now_s)), now_s, window_s)
    moments = [look.at_s for look in history.looks]
    assert moments == sorted(moments)
    assert moments[-1] == now_s
    assert len(moments) <= 12
    assert all(now_s - at_s < window_s for at_s in moments[1:-1])
    if now_s - (1000.0 + steps[0]) >= window_s:
        assert now_s - moments[0] >= window_s


def test_requests_that_wait_while_none_ends_are_a_stall_since_the_last_one_ended() -> None:
    stuck = counts(10.0, 1.0, pending=4.0)
    history = looks((1.0, counts(9.0, 1.0)), (2.0, stuck), (3.0, stuck), (9.0, stuck))
    (stall,) = history.stalls.values()
    assert (stall.since_s, stall.seen_s, stall.pending) == (2.0, 9.0, 4.0)
    over = history.looked(read(10.0, echo=counts(11.0, 1.0, pending=4.0)), 10.0, 30.0)
    assert not over.stalls
    assert over.longest == {"echo": 7.0}, "so long it may take"


@pytest.mark.parametrize(
    "last",
    [
        counts(11, 1, pending=4),
        counts(10, 1, pending=0),
        counts(3, 0, pending=0),
    ],
)
def test_an_answer_or_an_empty_queue_end_a_stall(last: RequestCounts) -> None:
    stuck = counts(10.0, 1.0, pending=4.0)
    assert not looks((1.0, stuck), (2.0, stuck), (3.0, last)).stalls


def test_a_dead_process_that_fails_one_request_a_second_is_stalled() -> None:
    """Where nothing has told that it is dead: twenty failures would take twenty seconds."""
    history = looks(*((float(s), counts(10.0, float(s), pending=4.0)) for s in range(1, 12)))
    assert [s.seen_s - s.since_s for s in history.stalls.values()] == [10.0]


def test_counters_that_are_not_read_any_more_make_no_stall() -> None:
    stuck = counts(10.0, 1.0, pending=4.0)
    history = looks((1.0, stuck), (2.0, stuck))
    same = read(2.0, echo=stuck)
    for now_s in (3.0, 30.0):
        history = history.looked(same, now_s, 30.0)
    assert [s.seen_s - s.since_s for s in history.stalls.values()] == [1.0]


def test_the_longest_request_is_learned_from_what_the_looks_show() -> None:
    history = looks(
        (1.0, counts(0.0)),
        (2.0, counts(1.0, compute_us=7e6)),
        (3.0, counts(3.0, compute_us=8e6)),
    )
    assert history.longest == {"echo": 7.0}


def test_what_an_instance_did_while_nobody_could_read_it_is_not_held_against_it() -> None:
    """Its metrics were away, and its statistics count what its queue rejected as failures, too."""
    history = looks((1.0, counts(50.0)), (2.0, counts(60.0)), (6.0, counts(90.0)))
    history = history.looked({}, 7.0, 30.0)
    for now_s, completed in ((11.0, 95.0), (12.0, 120.0)):
        outcome = counts(completed, 400.0)
        history = history.looked(read(now_s, echo=outcome), now_s, 30.0)
    assert history.enough("w-0001", "echo", 0.0, 20.0)[1] == CounterSet(25.0, 0.0)
    assert history.enough("w-0001", "echo", 0.0, 30.0)[1] is None


def test_nothing_that_happened_is_no_look() -> None:
    calm, busy = counts(5.0), counts(5.0, pending=1.0)
    readings = read(1.0, echo=calm)
    history = OutcomeHistory().looked(readings, 1.0, 30.0)
    assert history.rests(readings)
    assert not history.rests(read(2.0, echo=calm)), "another scrape, which may be equal"
    waiting = read(1.0, echo=busy)
    assert not OutcomeHistory().looked(waiting, 1.0, 30.0).rests(waiting)
