"""The size in one sentence: what is, what holds it, what happens next and when."""

from typing import Any

import attrs
import pytest
from given import AT, NOW_S, at, fleet, ready, rules
from hypothesis import given, settings
from hypothesis import strategies as st

from tarn.domain import Known, Pause, Sample, Unknown, Wish
from tarn.domain.fleet import Fleet, Rules
from tarn.domain.outlook import SizeOutlook, coming_words, sentence, size_outlook
from tarn.domain.sizing import Hold, in_words, size
from tarn.domain.spec import ScalingSpec, WindowSpec

RULES = rules(
    scaling=ScalingSpec("target", cooldown_s=60.0, up=WindowSpec(10.0), down=WindowSpec(300.0))
)


def wish(replicas: int | None, reason: str = "load 20", *, urgent: bool = False) -> Sample[Wish]:
    return Known(Wish(replicas, reason, urgent))


def seen(some: Fleet, asked: Sample[Wish], by: Rules = RULES, now_s: float = NOW_S) -> SizeOutlook:
    return size_outlook(size(some, by, asked, now_s, at(now_s)), by, asked, now_s, at(now_s))


def said(some: Fleet, asked: Sample[Wish], by: Rules = RULES, now_s: float = NOW_S) -> str:
    return sentence(seen(some, asked, by, now_s), now_s)


def test_a_size_that_is_wanted_is_due_no_change() -> None:
    """And ready is named only where it differs."""
    some = fleet(ready(1), ready(2))
    assert said(some, wish(2)) == "2 replicas, as policy target wants: load 20; no change is due"
    assert said(attrs.evolve(some, desired=3), wish(3)).startswith("3 replicas (2 ready), as")
    assert said(fleet(ready(1)), wish(1)).startswith("1 replica, as policy target wants")


def test_a_shrink_that_waits_says_for_what_and_until_when() -> None:
    """In seconds that are left now."""
    some = size(fleet(ready(1), ready(2), started_s=NOW_S), RULES, wish(1), NOW_S, AT)
    assert said(some, wish(1), now_s=NOW_S + 119.5) == (
        "2 replicas; policy target wants 1: load 20; it shrinks to 1 in 181 s,"
        " held back by a wish for 2 in the last 300 s (scaling.down.window)"
    )


def test_everything_that_holds_on_the_way_is_named() -> None:
    """The window lets go first, then the cooldown: the change comes after both."""
    some = fleet(ready(1), started_s=NOW_S, changed_s=NOW_S - 5.0)
    outlook = seen(some, wish(4))
    assert [held.by for held in outlook.held] == [Hold.UP_WINDOW, Hold.COOLDOWN]
    assert (outlook.next_size, outlook.next_s) == (4, NOW_S + 55.0)
    assert sentence(outlook, NOW_S) == (
        "1 replica; policy target wants 4: load 20; it grows to 4 in 55 s, held back by"
        " a wish for only 1 in the last 10 s (scaling.up.window)"
        " and a change less than 60 s ago (scaling.cooldown)"
    )


def test_limits_and_a_ceiling_hold_for_good() -> None:
    """Nothing comes by itself."""
    some = fleet(*map(ready, range(1, 9)))
    outlook = seen(some, wish(20))
    assert (outlook.allowed, outlook.next_size) == (8, None)
    assert sentence(outlook, NOW_S) == (
        "8 replicas; policy target wants 20: load 20; it stays at 8, held back by limits 0 to 8"
    )
    farm = rules(ceiling=8, scaling=RULES.spec.scaling)
    assert said(some, wish(20), farm).endswith("limits 0 to 8, ceiling 8 (the pool is full)")


def test_a_policy_without_an_answer_or_an_opinion_keeps_the_size() -> None:
    """The two are told apart."""
    some = fleet(ready(1))
    assert said(some, Unknown("it hangs for 9 s")) == (
        "1 replica; the size is kept, since policy target has no answer: it hangs for 9 s"
    )
    assert said(some, wish(None, "load unknown")) == (
        "1 replica; the size is kept, since policy target has no opinion: load unknown"
    )
    assert [h.by for h in seen(some, Unknown("it hangs")).held] == [Hold.UNKNOWN]
    assert seen(some, wish(None)).held == ()


@pytest.mark.parametrize(
    ("held", "words"),
    [
        ({"ending": True}, "0 replicas (1 ready): the cluster ends"),
        (
            {"manual": 1},
            "1 replica, set by a person until `tarn scale --auto`; policy target wants 3: load 20",
        ),
        (
            {"pause": Pause(AT + 1500.0, "load test")},
            (
                "1 replica, kept by a pause of scaling (load test), 25 min left;"
                " policy target wants 3: load 20"
            ),
        ),
        (
            {"pause": Pause(AT + 30.0)},
            "1 replica, kept by a pause of scaling, 30 s left; policy target wants 3: load 20",
        ),
    ],
)
def test_who_silences_the_policy_is_named(held: dict[str, Any], words: str) -> None:
    """With what the policy would do."""
    assert said(fleet(ready(1), **held), wish(3)) == words


def test_an_answer_that_no_tick_has_seen_yet_comes_now() -> None:
    """A snapshot may be younger than the tick."""
    some = fleet(ready(1), started_s=NOW_S - 900.0)
    outlook = size_outlook(some, RULES, wish(3), NOW_S, AT)
    assert coming_words(outlook, NOW_S) == "grows to 3 now"
    assert sentence(outlook, NOW_S).endswith("load 20; it grows to 3 now")
    assert coming_words(SizeOutlook(), NOW_S) == ""


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (-1.0, "0 s"),
        (0.2, "1 s"),
        (599.0, "599 s"),
        (600.0, "10 min"),
        (7200.0, "2 h"),
        (7201.0, "3 h"),
    ],
)
def test_a_time_to_come_is_rounded_up(seconds: float, words: str) -> None:
    """Nobody looks too early."""
    assert in_words(seconds) == words


@settings(max_examples=150, deadline=None)
@given(
    turns=st.lists(
        st.tuples(st.sampled_from((0.5, 7.0, 40.0, 200.0)), st.integers(0, 10), st.booleans()),
        min_size=1,
        max_size=12,
    ),
    first=st.integers(0, 8),
)
def test_what_is_said_to_come_comes_then_and_not_before(
    turns: list[tuple[float, int, bool]], first: int
) -> None:
    """If the wish stays: the very size at the very moment, and none before it."""
    now_s, some = NOW_S, fleet(desired=first, started_s=NOW_S)
    for after_s, wanted, urgent in turns:
        now_s += after_s
        asked = wish(wanted, urgent=urgent)
        some = size(some, RULES, asked, now_s, at(now_s))
    outlook = size_outlook(some, RULES, asked, now_s, at(now_s))
    if outlook.next_s is None:
        for later_s in (now_s + 100.0, now_s + 1000.0):
            assert size(some, RULES, asked, later_s, AT).desired == some.desired
        return
    assert size(some, RULES, asked, outlook.next_s - 0.01, AT).desired == some.desired
    assert size(some, RULES, asked, outlook.next_s, AT).desired == outlook.next_size
