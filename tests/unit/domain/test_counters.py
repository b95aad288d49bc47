"""The one rule of counters: what they grew by, whatever became of those who count."""

import math
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarn.domain.counters import (
    NOTHING,
    CounterSet,
    InstanceCounters,
    Line,
    grown,
    newest_known,
    summed,
)

ECHO, SECOND, OTHER = ("echo", "1"), ("echo", "2"), ("other", "1")


def test_what_fell_began_again_with_all_that_belongs_to_it() -> None:
    """Its durations fell, though more requests than before have ended since: all of it is new."""
    assert CounterSet(93, 10, 5.0).since(CounterSet(90, 9)) == CounterSet(3, 1, 5.0)
    assert CounterSet(3, 1).since(CounterSet(90, 9)) == CounterSet(3, 1)
    assert CounterSet(5, 0, 500.0).since(CounterSet(2, 0, 2e7)) == CounterSet(5, 0, 500.0)
    assert grown((9,), (4,)) == (4,)
    assert CounterSet(5).goes_on_from(CounterSet(5))
    assert not CounterSet(5).goes_on_from(CounterSet(5, 1))


def test_a_model_that_is_unloaded_takes_nothing_from_the_total_and_adds_nothing() -> None:
    """A sum over models falls then, and the rule for it would make all of the rest new."""
    counters, _ = InstanceCounters().looked({ECHO: CounterSet(900.0), OTHER: CounterSet(100.0)})
    counters, more = counters.looked({OTHER: CounterSet(101.0)})
    assert (counters.total, dict(more)) == (CounterSet(1001.0), {"other": CounterSet(1.0)})
    assert (dict(counters.models), counters.resets) == ({"other": CounterSet(101.0)}, 1)
    counters, more = counters.looked({ECHO: CounterSet(4.0), OTHER: CounterSet(101.0)})
    assert (counters.total, dict(more)) == (CounterSet(1005.0), {"echo": CounterSet(4.0)})
    assert (counters.models["echo"], counters.resets) == (CounterSet(4.0), 1)


def test_a_model_counts_on_while_a_version_of_it_stays_and_from_0_when_none_does() -> None:
    """What it is compared by must not leap; another model of its name is another one."""
    counters, _ = InstanceCounters().looked({ECHO: CounterSet(100.0), SECOND: CounterSet(900.0)})
    assert counters.models["echo"] == CounterSet(1000.0)
    counters, _ = counters.looked({ECHO: CounterSet(101.0)})
    assert counters.models["echo"] == CounterSet(1001.0)
    counters, _ = counters.looked({ECHO: CounterSet(2.0)})
    assert (counters.models["echo"], counters.total) == (CounterSet(2.0), CounterSet(1003.0))
    assert counters.resets == 2


def test_a_look_that_changes_nothing_says_so() -> None:
    lines: Mapping[Line, CounterSet] = {ECHO: CounterSet(1.0)}
    counters, _ = InstanceCounters().looked(lines)
    assert counters.looked(lines) == (counters, {})


@pytest.mark.parametrize("odd", [math.nan, math.inf, -math.inf, -1.0, 2.0**64])
def test_a_look_with_a_number_that_cannot_be_is_refused(odd: float) -> None:
    """All of it, and the next one goes on from the look before."""
    counters, _ = InstanceCounters().looked({ECHO: CounterSet(5.0), OTHER: CounterSet(1.0)})
    refused = counters.looked({ECHO: CounterSet(9.0), OTHER: CounterSet(2.0, odd)})
    assert refused == (counters, {})
    assert refused[0].looked({ECHO: CounterSet(7.0), OTHER: CounterSet(1.0)})[1] == {
        "echo": CounterSet(2.0)
    }


def test_the_newest_that_is_known_is_kept_of_those_that_are_there() -> None:
    before = {"a": CounterSet(1.0), "gone": CounterSet(2.0)}
    assert newest_known(before, {"a": None, "b": NOTHING, "c": None}) == {
        "a": CounterSet(1.0),
        "b": NOTHING,
    }


NUMBERS = st.integers(0, 2**40).map(float)
LINES = st.dictionaries(
    st.sampled_from([ECHO, SECOND, OTHER]),
    st.builds(
        CounterSet,
        NUMBERS,
        NUMBERS,
        NUMBERS | st.sampled_from([math.nan, math.inf, -1.0]),
    ),
)


@given(st.lists(st.tuples(LINES, st.sampled_from(["metrics", "metrics", "statistics"]))))
def test_the_total_never_falls_and_is_what_the_models_grew_by(
    looks: list[tuple[dict[Line, CounterSet], str]],
) -> None:
    """Over resets, gaps, models that come and go, restarts, and numbers that are none."""
    counters, sums, resets = InstanceCounters(), NOTHING, 0
    for lines, source in looks:
        before = counters
        counters, more = before.looked(lines, source)
        sums = sums.plus(summed(more.values()))
        assert counters.total == sums
        assert counters.total.goes_on_from(before.total)
        assert counters.resets >= resets
        assert all(one.countable for one in (counters.total, *counters.models.values()))
        if before is not counters:
            assert counters.models.keys() == {model for model, _ in lines}
            assert counters.lines is lines
        resets = counters.resets


@given(
    st.lists(
        st.tuples(st.integers(0, 9), st.sampled_from(["", "", "", "reload", "unload", "restart"])),
        max_size=40,
    )
)
def test_what_is_seen_of_a_triton_that_is_looked_at_after_each_step_is_what_it_did(
    steps: list[tuple[int, str]],
) -> None:
    """Reloads, unloads and restarts lose nothing and make nothing up, if a look is between them."""
    counters, alive, did = InstanceCounters(), {ECHO: 0.0, OTHER: 0.0}, 0.0
    counters, _ = counters.looked({line: CounterSet(n) for line, n in alive.items()})
    for requests, what in steps:
        if what == "restart":
            alive = {ECHO: 0.0, OTHER: 0.0}
        elif what == "unload":
            alive.pop(ECHO, None)
        elif what == "reload":
            alive[ECHO] = 0.0
        counters, _ = counters.looked({line: CounterSet(n) for line, n in alive.items()})
        alive[OTHER] += requests
        did += requests
        if ECHO in alive:
            alive[ECHO] += requests
            did += requests
        counters, _ = counters.looked({line: CounterSet(n) for line, n in alive.items()})
        assert counters.total == CounterSet(did)
