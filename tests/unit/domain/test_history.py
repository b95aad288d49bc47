"""The history: fixed memory, rates that add up, and nothing said where nobody looked."""

import itertools
import math

from hypothesis import given
from hypothesis import strategies as st

from tarn.domain.counters import CounterSet
from tarn.domain.history import COLUMNS, GRAINS, FleetHistory, Grain, HistorySample, Mean

AT = 1_764_201_600.0
SMALL = (Grain(10, 6), Grain(60, 4))


def seen(at: float, requests: float | None = None, **changes: object) -> HistorySample:
    """A look at one ready instance that counted so many requests, 2 ms each."""
    counters = None if requests is None else CounterSet(requests, 0.0, requests * 2000)
    plain: dict[str, object] = {"desired": 1, "ready": 1, "running": 1}
    return HistorySample(at, **{**plain, "counted": {"a-0001": counters}, **changes})  # type: ignore[arg-type]


def rows(history: FleetHistory, since: float = 0.0) -> list[dict[str, float | None]]:
    """The rows of the finest grain, by name."""
    return [dict(zip(COLUMNS, row, strict=True)) for row in history.grains[0].since(since)]


def test_a_step_has_the_last_sizes_the_mean_load_and_the_rate_of_its_requests() -> None:
    """Ten looks of ten more requests each are ten a second, 2 ms long."""
    history = FleetHistory()
    for second in range(10):
        history = history.looked(
            seen(AT + second, 10.0 * second, desired=1 + second, load=second / 10, queue=4.0)
        )
    (row,) = rows(history)
    assert row == {
        "at": AT,
        "desired": 10,
        "ready": 1,
        "running": 1,
        "load": 0.45,
        "queue": 4.0,
        "requests_per_s": 10.0,
        "failures_per_s": 0.0,
        "latency_ms": 2.0,
    }


def test_what_is_not_known_is_none_and_never_zero() -> None:
    """A first look tells no rate, and a ready instance that counts nothing tells none at all."""
    first = rows(FleetHistory().looked(seen(AT, 5.0)))[0]
    assert [first[name] for name in ("load", "queue", "requests_per_s", "latency_ms")] == [None] * 4
    silent = FleetHistory().looked(seen(AT, None)).looked(seen(AT + 1, None))
    assert rows(silent)[0]["requests_per_s"] is None
    nobody = {"ready": 0, "running": 0, "counted": {}}
    asleep = FleetHistory().looked(seen(AT, **nobody)).looked(seen(AT + 1, **nobody))  # type: ignore[arg-type]
    assert rows(asleep)[0]["requests_per_s"] == 0.0


def test_counters_that_begin_anew_lose_nothing_and_never_count_backwards() -> None:
    """A Triton that was started again in its place counts from zero."""
    history = FleetHistory().looked(seen(AT, 100.0)).looked(seen(AT + 1, 7.0))
    assert rows(history)[0]["requests_per_s"] == 7.0


def test_an_instance_that_was_silent_for_a_while_is_counted_when_it_answers_again() -> None:
    """What it did meanwhile is not lost, and one that is gone is forgotten."""
    history = FleetHistory().looked(seen(AT, 10.0)).looked(seen(AT + 1, None))
    history = history.looked(seen(AT + 2, 14.0))
    assert rows(history)[0]["requests_per_s"] == 4.0  # the second without a number does not count
    assert FleetHistory().looked(seen(AT, 1.0)).looked(seen(AT + 1, counted={})).counted == {}


def test_steps_without_a_look_are_there_without_numbers_and_nothing_is_counted_over_them() -> None:
    """A master was away for half a minute, and another one for an hour."""
    history = FleetHistory().looked(seen(AT, 0.0)).looked(seen(AT + 35, 35.0))
    assert [row["at"] for row in rows(history)] == [AT, AT + 10, AT + 20, AT + 30]
    assert set(list(rows(history)[1].values())[1:]) == {None}
    history = history.looked(seen(AT + 3635, 90.0))
    assert rows(history)[-1]["requests_per_s"] is None


def test_a_clock_that_was_set_back_takes_the_rows_of_its_future_with_it() -> None:
    """What comes is in order, and is seen at once."""
    history = FleetHistory(SMALL)
    for second in range(40):
        history = history.looked(seen(AT + second, 1.0))
    history = history.looked(seen(AT + 12, 1.0, desired=9))
    assert [row["at"] for row in rows(history)] == [AT, AT + 10]
    assert rows(history)[-1]["desired"] == 9


def test_the_finest_grain_that_reaches_so_far_is_taken() -> None:
    """Three hours, a day, two weeks; who asks for more gets what there is."""
    steps = [FleetHistory().grain(hours * 3600).step_s for hours in (0.1, 3, 4, 24, 25, 336, 9999)]
    assert steps == [10, 10, 60, 60, 600, 600, 600]
    assert [(g.step_s * g.keep) // 3600 for g in GRAINS] == [3, 24, 336]


@given(
    st.lists(
        st.tuples(
            st.floats(-200, 200),
            st.none() | st.floats(0, 1e9),
            st.none() | st.floats(allow_nan=True, allow_infinity=True),
        ),
        max_size=60,
    )
)
def test_whatever_the_clock_and_the_counters_do_rows_are_few_even_and_finite(
    looks: list[tuple[float, float | None, float | None]],
) -> None:
    """Memory is bounded, steps are in order and evenly spaced, no rate is negative or infinite."""
    history, at = FleetHistory(SMALL), AT
    for step_s, requests, load in looks:
        at += step_s
        history = history.looked(seen(at, requests, load=load))
    for grain in history.grains:
        assert len(grain.rows) <= grain.keep
        shown = list(grain.since(0.0))
        times = [row[0] for row in shown]
        assert all(
            later is not None and earlier is not None and later - earlier == grain.step_s
            for earlier, later in itertools.pairwise(times)
        )
        numbers = [value for row in shown for value in row[1:] if value is not None]
        assert all(math.isfinite(value) for value in numbers)
        assert all(row[6] is None or row[6] >= 0 for row in shown)


@given(st.lists(st.floats(0, 1000), min_size=2, max_size=50))
def test_the_requests_of_all_steps_together_are_what_was_counted(growths: list[float]) -> None:
    """Rates times their seconds give the counter back."""
    history, total = FleetHistory((Grain(10, 1000),)), 0.0
    history = history.looked(seen(AT, 0.0))
    for number, growth in enumerate(growths, 1):
        total += growth
        history = history.looked(seen(AT + number, total))
    step = history.grains[0]
    counted = sum(
        (row[6] or 0.0) * (9 if row[0] == AT else 10)
        for row in step.rows  # whole steps; the first look has nothing before it
    )
    last = step.open.growth.counted.completed if step.open and step.open.growth else 0.0
    assert math.isclose(counted + last, total, rel_tol=1e-4, abs_tol=1e-2)


def test_a_number_whose_sum_is_beyond_every_float_changes_no_mean() -> None:
    some = Mean().plus(1.7e308)
    assert some.plus(1.7e308) == some.plus(float("nan")) == some.plus(None) == some
