"""What each model did, summed over instances that come, fall silent and go."""

from collections.abc import Mapping

from hypothesis import given, settings
from hypothesis import strategies as st

from tarn.control.totals import Totals
from tarn.domain.counters import CounterSet
from tarn.domain.model_totals import OTHER, ModelTotals
from tarn.triton.model_counters import NAMELESS, Rows

ECHO = "echo"
Said = tuple[CounterSet, float | None]
"""What a model counted, and what waits for it."""


def said(  # as a Triton says it of a model with one version
    completed: float = 0.0,
    failed: float = 0.0,
    request_us: float = 0.0,
    queue_us: float = 0.0,
    pending: float | None = None,
) -> Said:
    return CounterSet(completed, failed, request_us, queue_us), pending


def rows(models: Mapping[str, Said], source: str = "metrics") -> Rows:
    pending = {name: waits for name, (_, waits) in models.items() if waits is not None}
    return Rows({(name, "1"): one for name, (one, _) in models.items()}, pending, source, ())


def add(totals: Totals, instance_id: str, models: Mapping[str, Said], *, fresh: bool) -> CounterSet:
    return totals.add(instance_id, rows(models), fresh=fresh).total


def of(totals: Totals, name: str = ECHO) -> ModelTotals:
    return totals.picture()[0][name]


def test_what_a_fresh_instance_counts_is_new_and_what_an_older_one_counted_is_not() -> None:
    """A new master does not take the past of those it took over for requests of now."""
    totals = Totals()
    add(totals, "a-0001", {ECHO: said(10.0, 1.0, 500.0, 50.0, 2.0)}, fresh=True)
    add(totals, "a-0002", {ECHO: said(90.0, 9.0, 900.0, 90.0, 3.0)}, fresh=False)
    assert of(totals) == ModelTotals(CounterSet(10.0, 1.0, 500.0, 50.0), 5.0, 2)
    add(totals, "a-0002", {ECHO: said(91.0, 9.0, 950.0, 90.0, 0.0)}, fresh=False)
    assert of(totals) == ModelTotals(CounterSet(11.0, 1.0, 550.0, 50.0), 2.0, 2)


def test_totals_do_not_fall_when_a_model_is_loaded_again_or_an_instance_ends() -> None:
    """Triton's own counters begin anew; what waits there is gone."""
    totals = Totals()
    add(totals, "a-0001", {ECHO: said(10.0, pending=4.0)}, fresh=True)
    add(totals, "a-0001", {ECHO: said(3.0, pending=1.0)}, fresh=True)
    assert of(totals) == ModelTotals(CounterSet(13.0), pending=1.0, queues=1)
    add(totals, "a-0001", {}, fresh=True)
    add(
        totals, "a-0001", {ECHO: said(2.0, pending=1.0)}, fresh=False
    )  # loaded while it was watched
    assert of(totals) == ModelTotals(CounterSet(15.0), pending=1.0, queues=1)
    totals.forget("a-0001")
    assert of(totals) == ModelTotals(CounterSet(15.0))


def test_a_version_that_is_unloaded_makes_nothing_new_of_the_others() -> None:
    """The sum over the versions falls, and none of them began again."""
    totals = Totals()
    both = {(ECHO, "1"): CounterSet(100.0), (ECHO, "2"): CounterSet(900.0)}
    totals.add("a-0001", Rows(both, {}, "metrics", ()), fresh=True)
    left = {(ECHO, "1"): CounterSet(101.0)}
    counted = totals.add("a-0001", Rows(left, {}, "metrics", ()), fresh=True)
    assert of(totals) == ModelTotals(CounterSet(1001.0))
    assert (counted.total, counted.models) == (CounterSet(1001.0), {ECHO: CounterSet(1001.0)})


def test_statistics_in_place_of_the_metrics_count_nothing_twice() -> None:
    """They have other numbers for the same requests, and begin where the metrics ended."""
    totals = Totals()
    for source, completed, total in (
        ("metrics", 100.0, 100.0),
        ("statistics", 90.0, 100.0),
        ("statistics", 95.0, 105.0),
        ("metrics", 120.0, 105.0),
        ("metrics", 121.0, 106.0),
    ):
        counted = totals.add("a-0001", rows({ECHO: said(completed)}, source), fresh=True)
        assert (of(totals).counted.completed, counted.total.completed) == (total, total)


def test_an_instance_that_was_taken_over_counts_from_its_first_look_that_can_be_read() -> None:
    """What it counted for an earlier master is no request of now; its own total has it."""
    totals = Totals()
    add(totals, "a-0001", {ECHO: said(float("nan"))}, fresh=False)
    assert add(totals, "a-0001", {ECHO: said(50.0)}, fresh=False) == CounterSet(50.0)
    assert of(totals) == ModelTotals()
    assert add(totals, "a-0001", {ECHO: said(51.0)}, fresh=False) == CounterSet(51.0)
    assert of(totals) == ModelTotals(CounterSet(1.0))


def test_a_silent_instance_says_nothing_of_its_queue() -> None:
    """Unknown is not what it said last; its requests stay counted, and go on from there."""
    totals = Totals()
    totals.silent("a-0001")
    add(totals, "a-0001", {ECHO: said(10.0, pending=4.0)}, fresh=True)
    totals.silent("a-0001")
    totals.silent("a-0001")
    assert of(totals) == ModelTotals(CounterSet(10.0))
    add(totals, "a-0001", {ECHO: said(12.0, pending=4.0)}, fresh=True)
    assert of(totals) == ModelTotals(CounterSet(12.0), pending=4.0, queues=1)


def test_models_beyond_the_bound_are_one_until_a_place_is_free() -> None:
    """Those that nobody has any more make place, the longest gone first."""
    totals = Totals(most=2)
    add(
        totals,
        "a-0001",
        {
            "a": said(1.0),
            "b": said(2.0),
            "c": said(4.0),
            "d": said(8.0),
        },
        fresh=True,
    )
    assert totals.picture() == (
        {
            "a": ModelTotals(CounterSet(1.0)),
            "b": ModelTotals(CounterSet(2.0)),
            OTHER: ModelTotals(CounterSet(12.0)),
        },
        2,
    )
    add(totals, "a-0001", {"b": said(2.0), "d": said(9.0)}, fresh=True)
    add(
        totals,
        "a-0001",
        {"b": said(2.0), "d": said(9.0), "e": said(16.0)},
        fresh=True,
    )
    by_model, others = totals.picture()
    assert others == 1
    assert by_model == {
        "b": ModelTotals(CounterSet(2.0)),
        "e": ModelTotals(CounterSet(16.0)),
        OTHER: ModelTotals(CounterSet(13.0)),
    }


def test_a_model_that_is_back_keeps_its_totals_whatever_comes_with_it() -> None:
    """A new model takes the place of one that is not there, though that one was longer idle."""
    totals = Totals(2)
    add(totals, "a-0001", {"a": said(1.0), "b": said(2.0)}, fresh=True)
    totals.forget("a-0001")
    add(totals, "a-0002", {"new": said(4.0), "a": said(8.0)}, fresh=True)
    assert totals.picture()[0] == {
        "a": ModelTotals(CounterSet(9.0)),
        "new": ModelTotals(CounterSet(4.0)),
    }


def test_a_model_called_as_the_others_are_is_one_of_them() -> None:
    """And so is one without a name: neither has a series of its own."""
    totals = Totals()
    add(totals, "a-0001", {OTHER: said(1.0), NAMELESS: said(2.0)}, fresh=True)
    assert totals.picture() == ({OTHER: ModelTotals(CounterSet(3.0))}, 2)


ROWS = st.dictionaries(
    st.sampled_from(["a", "b", "c", "d", OTHER]),
    st.builds(
        said,
        st.integers(0, 50).map(float),
        pending=st.none() | st.integers(0, 9).map(float),
    ),
)
STEPS = st.lists(
    st.tuples(st.sampled_from(["x", "y", "z"]), st.one_of(st.none(), st.just("silent"), ROWS)),
    max_size=25,
)


@settings(max_examples=80, deadline=None)
@given(steps=STEPS, most=st.integers(0, 3))
def test_whatever_comes_the_queues_are_those_of_now_and_no_total_falls(
    steps: list[tuple[str, dict[str, Said] | str | None]], most: int
) -> None:
    """Over any order of looks, silences and ends, within any bound."""
    totals, now = Totals(most), dict[str, dict[str, Said]]()
    for instance, step in steps:
        before = totals.picture()[0]
        match step:
            case None:
                totals.forget(instance)
                now.pop(instance, None)
            case "silent":
                totals.silent(instance)
                now.pop(instance, None)
            case dict():
                add(totals, instance, step, fresh=True)
                now[instance] = step
        after, others = totals.picture()
        assert len(after.keys() - {OTHER}) <= most
        for name in before.keys() & after.keys():
            assert after[name].counted.completed >= before[name].counted.completed
        waits = [waits for rows in now.values() for _, waits in rows.values()]
        assert sum(t.pending for t in after.values()) == sum(p for p in waits if p is not None)
        assert sum(t.queues for t in after.values()) == sum(p is not None for p in waits)
        assert others >= 0
