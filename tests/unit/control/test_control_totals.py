"""What each model did, summed over instances that come, fall silent and go."""

from hypothesis import given, settings
from hypothesis import strategies as st

from tarn.control.totals import Totals
from tarn.domain.model_totals import OTHER, ModelTotals
from tarn.triton.model_counters import NAMELESS, ModelCounters

ECHO = "echo"


def of(totals: Totals, name: str = ECHO) -> ModelTotals:
    return totals.picture()[0][name]


def test_what_a_fresh_instance_counts_is_new_and_what_an_older_one_counted_is_not() -> None:
    """A new master does not take the past of those it took over for requests of now."""
    totals = Totals()
    totals.add("a-0001", {ECHO: ModelCounters(10.0, 1.0, 500.0, 50.0, 2.0)}, fresh=True)
    totals.add("a-0002", {ECHO: ModelCounters(90.0, 9.0, 900.0, 90.0, 3.0)}, fresh=False)
    assert of(totals) == ModelTotals(10.0, 1.0, 500.0, 50.0, 5.0, 2)
    totals.add("a-0002", {ECHO: ModelCounters(91.0, 9.0, 950.0, 90.0, 0.0)}, fresh=False)
    assert of(totals) == ModelTotals(11.0, 1.0, 550.0, 50.0, 2.0, 2)


def test_totals_do_not_fall_when_a_model_is_loaded_again_or_an_instance_ends() -> None:
    """Triton's own counters begin anew; what waits there is gone."""
    totals = Totals()
    totals.add("a-0001", {ECHO: ModelCounters(10.0, pending=4.0)}, fresh=True)
    totals.add("a-0001", {ECHO: ModelCounters(3.0, pending=1.0)}, fresh=True)
    assert of(totals) == ModelTotals(13.0, pending=1.0, queues=1)
    totals.add("a-0001", {}, fresh=True)
    totals.add(
        "a-0001", {ECHO: ModelCounters(2.0, pending=1.0)}, fresh=False
    )  # loaded while it was watched
    assert of(totals) == ModelTotals(15.0, pending=1.0, queues=1)
    totals.forget("a-0001")
    assert of(totals) == ModelTotals(15.0)


def test_a_silent_instance_says_nothing_of_its_queue() -> None:
    """Unknown is not what it said last; its requests stay counted, and go on from there."""
    totals = Totals()
    totals.silent("a-0001")
    totals.add("a-0001", {ECHO: ModelCounters(10.0, pending=4.0)}, fresh=True)
    totals.silent("a-0001")
    totals.silent("a-0001")
    assert of(totals) == ModelTotals(10.0)
    totals.add("a-0001", {ECHO: ModelCounters(12.0, pending=4.0)}, fresh=True)
    assert of(totals) == ModelTotals(12.0, pending=4.0, queues=1)


def test_models_beyond_the_bound_are_one_until_a_place_is_free() -> None:
    """Those that nobody has any more make place, the longest gone first."""
    totals = Totals(most=2)
    totals.add(
        "a-0001",
        {
            "a": ModelCounters(1.0),
            "b": ModelCounters(2.0),
            "c": ModelCounters(4.0),
            "d": ModelCounters(8.0),
        },
        fresh=True,
    )
    assert totals.picture() == (
        {"a": ModelTotals(1.0), "b": ModelTotals(2.0), OTHER: ModelTotals(12.0)},
        2,
    )
    totals.add("a-0001", {"b": ModelCounters(2.0), "d": ModelCounters(9.0)}, fresh=True)
    totals.add(
        "a-0001",
        {"b": ModelCounters(2.0), "d": ModelCounters(9.0), "e": ModelCounters(16.0)},
        fresh=True,
    )
    by_model, others = totals.picture()
    assert others == 1
    assert by_model == {
        "b": ModelTotals(2.0),
        "e": ModelTotals(16.0),
        OTHER: ModelTotals(13.0),
    }


def test_a_model_that_is_back_keeps_its_totals_whatever_comes_with_it() -> None:
    """A new model takes the place of one that is not there, though that one was longer idle."""
    totals = Totals(2)
    totals.add("a-0001", {"a": ModelCounters(1.0), "b": ModelCounters(2.0)}, fresh=True)
    totals.forget("a-0001")
    totals.add("a-0002", {"new": ModelCounters(4.0), "a": ModelCounters(8.0)}, fresh=True)
    assert totals.picture()[0] == {"a": ModelTotals(9.0), "new": ModelTotals(4.0)}


def test_a_model_called_as_the_others_are_is_one_of_them() -> None:
    """And so is one without a name: neither has a series of its own."""
    totals = Totals()
    totals.add("a-0001", {OTHER: ModelCounters(1.0), NAMELESS: ModelCounters(2.0)}, fresh=True)
    assert totals.picture() == ({OTHER: ModelTotals(3.0)}, 2)


ROWS = st.dictionaries(
    st.sampled_from(["a", "b", "c", "d", OTHER]),
    st.builds(
        ModelCounters,
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
    steps: list[tuple[str, dict[str, ModelCounters] | str | None]], most: int
) -> None:
    """Over any order of looks, silences and ends, within any bound."""
    totals, now = Totals(most), dict[str, dict[str, ModelCounters]]()
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
                totals.add(instance, step, fresh=True)
                now[instance] = step
        after, others = totals.picture()
        assert len(after.keys() - {OTHER}) <= most
        assert all(after[n].succeeded >= t.succeeded for n, t in before.items() if n in after)
        said = [row.pending for rows in now.values() for row in rows.values()]
        assert sum(t.pending for t in after.values()) == sum(p for p in said if p is not None)
        assert sum(t.queues for t in after.values()) == sum(p is not None for p in said)
        assert others >= 0
