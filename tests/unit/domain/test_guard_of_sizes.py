"""How far and when a size follows a wish: windows, cooldown, urgency; and the laws of all of it."""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import attrs
import pytest
from given import AT, NOW_S, at, fleet, rules
from hypothesis import given, settings
from hypothesis import strategies as st

from tarn.domain import Known, Pause, Sample, Unknown, Wish
from tarn.domain.fleet import Fleet, Rules
from tarn.domain.scaling import Lookback, PastSize
from tarn.domain.sizing import SILENCE_S, Hold, SizeHold, judge, size
from tarn.domain.spec import ReplicasSpec, ScalingSpec, WindowSpec

UP_S, DOWN_S, COOLDOWN_S = 10.0, 40.0, 15.0
WINDOWS = rules(
    scaling=ScalingSpec(cooldown_s=0.0, up=WindowSpec(UP_S), down=WindowSpec(DOWN_S)),
    replicas=ReplicasSpec(min=0, max=20),
)
UNKNOWN = Unknown("the policy raised")


def wish(replicas: int | None, *, urgent: bool = False) -> Sample[Wish]:
    return Known(Wish(replicas, "so", urgent))


def play(some: Fleet, by: Rules, *turns: tuple[float, Sample[Wish]]) -> Fleet:
    """Return *some* after each wish at its moment, in seconds from `NOW_S`."""
    for moment_s, asked in turns:
        some = size(some, by, asked, NOW_S + moment_s, at(NOW_S + moment_s))
    return some


def new(desired: int, **more: Any) -> Fleet:
    """Return a fleet whose master begins now."""
    return fleet(desired=desired, started_s=NOW_S, **more)


def test_a_new_master_neither_shrinks_nor_grows_before_it_has_looked() -> None:
    """The present size is its first wish, for as long as each direction looks back."""
    less, more = play(new(5), WINDOWS, (0.0, wish(2))), play(new(5), WINDOWS, (0.0, wish(9)))
    assert [play(less, WINDOWS, (t, wish(2))).desired for t in (39.9, 40.0)] == [5, 2]
    assert [play(more, WINDOWS, (t, wish(9))).desired for t in (9.9, 10.0)] == [5, 9]


def test_growing_goes_by_the_least_wish_and_shrinking_by_the_greatest() -> None:
    """Each in its window; the decision says what is wanted, and what became of it."""
    some = play(new(2), WINDOWS, (0.0, wish(6)), (5.0, wish(4)), (6.0, wish(9)), (10.0, wish(9)))
    last = some.decisions[-1]
    assert (some.desired, last.wanted, last.desired) == (4, 9, 4)
    assert last.held_back == ("a wish for only 4 in the last 10 s (scaling.up.window), 6 s left")
    some = play(new(9), WINDOWS, (0.0, wish(6)), (5.0, wish(1)), (40.0, wish(1)))
    last = some.decisions[-1]
    assert (some.desired, last.wanted, last.desired) == (6, 1, 6)
    assert last.held_back == ("a wish for 6 in the last 40 s (scaling.down.window), 5 s left")


def test_a_wish_holds_until_the_next_one_comes() -> None:
    """A policy that answered 9 once, and nothing for a minute, wanted 9 for a minute."""
    some = play(new(9), WINDOWS, (0.0, wish(9)), (60.0, wish(2)), (99.9, wish(2)))
    assert some.desired == 9
    assert play(some, WINDOWS, (100.0, wish(2))).desired == 2


@pytest.mark.parametrize("nothing", [UNKNOWN, wish(None)])
def test_no_answer_counts_as_a_wish_for_the_present_size(nothing: Sample[Wish]) -> None:
    """Once it lasts: shrinking and growing begin to look back anew."""
    silence = ((9.0, nothing), (19.0, nothing), (21.0, wish(2)))
    some = play(new(5), WINDOWS, (0.0, wish(2)), *silence)
    assert [play(some, WINDOWS, (t, wish(2))).desired for t in (60.9, 61.0)] == [5, 2]
    silence = ((9.0, nothing), (19.0, nothing), (21.0, wish(9)))
    some = play(new(5), WINDOWS, (0.0, wish(9)), *silence)
    assert [play(some, WINDOWS, (t, wish(9))).desired for t in (30.9, 31.0)] == [5, 9]


@pytest.mark.parametrize("nothing", [UNKNOWN, wish(None)])
def test_a_short_silence_moves_nothing_and_is_forgotten(nothing: Sample[Wish]) -> None:
    """One failed scrape in five minutes would keep a large fleet from ever shrinking."""
    asked = wish(2)
    some = play(new(5), WINDOWS, (0.0, asked), (35.0, nothing))
    assert play(some, WINDOWS, (36.0, nothing)) is some
    quiet = play(some, WINDOWS, (44.9, nothing))
    assert quiet.desired == 5
    assert play(quiet, WINDOWS, (45.0, asked)).desired == 2
    assert play(quiet, WINDOWS, (45.0, nothing), (46.0, asked)).desired == 5


@pytest.mark.parametrize("held", [{"pause": Pause(AT + 3600.0)}, {"manual": 5}])
def test_what_is_wanted_in_a_pause_counts_for_nothing(held: dict[str, Any]) -> None:
    """Nor while a person's size holds: it counts as a wish for the present one."""
    some = play(new(5, **held), WINDOWS, (0.0, wish(2)), (100.0, wish(2)))
    some = attrs.evolve(some, pause=None, manual=None)
    some = play(some, WINDOWS, (100.5, wish(2)))
    assert [play(some, WINDOWS, (t, wish(2))).desired for t in (140.4, 140.5)] == [5, 2]


def test_an_urgent_growth_waits_for_nothing() -> None:
    """Neither for the cooldown nor for the window; the limits hold, and the cooldown begins."""
    by = rules(scaling=ScalingSpec(cooldown_s=60.0, up=WindowSpec(UP_S), down=WindowSpec(0.0)))
    some = play(new(2, changed_s=NOW_S - 1.0), by, (0.0, wish(99, urgent=True)))
    assert (some.desired, some.changed_s) == (8, NOW_S)
    assert some.decisions[-1].held_back == "limits 0 to 8"
    assert play(some, by, (1.0, wish(3, urgent=True))).desired == 8


def test_a_calm_growth_waits_for_the_cooldown() -> None:
    """And so does a shrink that is called urgent: the word means growth only."""
    by = rules(scaling=ScalingSpec(cooldown_s=60.0, down=WindowSpec(0.0)))
    cooling = new(4, changed_s=NOW_S)
    for asked in (wish(6), wish(2), wish(2, urgent=True)):
        for some, more_s in ((play(cooling, by, (0.0, asked)), 59.9), (cooling, 60.0)):
            reached = play(some, by, (more_s, asked)).desired
            assert reached == (4 if more_s < 60.0 else asked.value.replicas)  # type: ignore[union-attr]


def verdict(
    some: Fleet, by: Rules, asked: Wish, now_s: float = NOW_S
) -> tuple[int, list[SizeHold]]:
    judged = judge(some, by, asked, now_s)
    return judged.desired, list(judged.held)


def test_a_verdict_names_everything_that_holds() -> None:
    """With when it lets go, if the wish stays."""
    by = rules(scaling=ScalingSpec(cooldown_s=60.0, up=WindowSpec(30.0)), ceiling=6)
    some = new(3, changed_s=NOW_S - 20.0, lookback=Lookback(None, (PastSize(4, NOW_S - 10.0),)))
    size_now, held = verdict(some, by, Wish(12, "so"))
    assert size_now == 3
    assert [(each.by, each.until_s) for each in held] == [
        (Hold.CEILING, None),
        (Hold.UP_WINDOW, NOW_S + 20.0),
        (Hold.COOLDOWN, NOW_S + 40.0),
    ]
    assert [each.said(NOW_S + 0.5) for each in held] == [
        "limits 0 to 8, ceiling 6 (the pool is full)",
        "a wish for only 4 in the last 30 s (scaling.up.window), 20 s left",
        "a change less than 60 s ago (scaling.cooldown), 40 s left",
    ]
    assert verdict(some, by, Wish(3, "so")) == (3, [])
    assert verdict(some, by, Wish(None, "so")) == (3, [])


def test_a_ceiling_is_told_from_the_limits() -> None:
    """Whose bound it is that holds: the farm's, or the user's."""
    by = rules(scaling=ScalingSpec(), ceiling=6)
    assert verdict(new(6), by, Wish(7, "so"))[1][0].by is Hold.CEILING
    low = new(6, min=2)
    assert verdict(low, rules(), Wish(1, "so"))[1][0].by is Hold.LIMITS


def test_the_queues_stay_short() -> None:
    """Wishes that go up and down for an hour leave at most one entry for each size."""
    some = Lookback.began(5, 0.0)
    for turn in range(3600):
        some = some.heard(Wish(turn % 7, "so"), 5, float(turn), 60.0, 300.0)
        assert len(some.least) <= 7
        assert len(some.greatest) <= 7


def test_a_constant_wish_leaves_nothing_behind() -> None:
    """What is too old goes although no other size is wished."""
    some = Lookback.began(5, 0.0).heard(Wish(3, "so"), 5, 0.0, 60.0, 300.0)
    some = some.heard(Wish(3, "so"), 5, 300.0, 60.0, 300.0)
    assert (some.least, some.greatest) == ((), ())


# --- the laws ---------------------------------------------------------------------------------

ASKED = st.one_of(
    st.builds(lambda n, u: Known(Wish(n, "so", u)), st.none() | st.integers(0, 12), st.booleans()),
    st.builds(Unknown, st.just("it raised")),
)
TURNS = st.lists(
    st.tuples(st.sampled_from((0.25, 1.0, 3.0, 12.0, 50.0)), ASKED), min_size=1, max_size=25
)
SETTINGS = st.builds(
    lambda cooldown_s, up_s, down_s: ScalingSpec(
        cooldown_s=cooldown_s, up=WindowSpec(up_s), down=WindowSpec(down_s)
    ),
    st.sampled_from((0.0, 5.0, COOLDOWN_S)),
    st.sampled_from((0.0, 2.0, UP_S)),
    st.sampled_from((0.0, 7.0, DOWN_S)),
)
Turn = tuple[float, Sample[Wish]]


def played(
    some: Fleet, by: Rules, turns: list[Turn]
) -> Iterator[tuple[float, Sample[Wish], Fleet]]:
    """Yield moment, answer and fleet of each turn, and of a tick a little later."""
    now_s = NOW_S
    for after_s, asked in turns:
        now_s += after_s
        for tick_s in (now_s, now_s + 0.125):
            some = size(some, by, asked, tick_s, at(tick_s))
            yield tick_s, asked, some


@settings(max_examples=100, deadline=None)
@given(
    spec=SETTINGS,
    turns=TURNS,
    first=st.integers(0, 12),
    low=st.integers(0, 4),
    high=st.integers(4, 10),
    ceiling=st.none() | st.integers(0, 12),
)
def test_the_size_is_never_outside_the_limits(  # noqa: PLR0917
    spec: ScalingSpec, turns: list[Turn], first: int, low: int, high: int, ceiling: int | None
) -> None:
    """Whatever is wished, and wherever it began."""
    by = rules(scaling=spec, replicas=ReplicasSpec(low, high), ceiling=ceiling)
    for _, _, some in played(new(first), by, turns):
        assert some.limits(by).clamp(some.desired) == some.desired


@settings(max_examples=100, deadline=None)
@given(spec=SETTINGS, turns=TURNS, first=st.integers(0, 8))
def test_no_size_changes_twice_within_the_cooldown_but_by_an_urgent_growth(
    spec: ScalingSpec, turns: list[Turn], first: int
) -> None:
    """So nothing flaps faster than the cooldown."""
    by = rules(scaling=spec)
    before, changed_s = first, float("-inf")
    for now_s, asked, some in played(new(first), by, turns):
        if some.desired == before:
            continue
        urgent = isinstance(asked, Known) and asked.value.urgent and some.desired > before
        assert urgent or now_s - changed_s >= spec.cooldown_s
        before, changed_s = some.desired, now_s


@settings(max_examples=100, deadline=None)
@given(spec=SETTINGS, turns=TURNS, first=st.integers(0, 8))
def test_it_shrinks_and_grows_only_by_what_was_wished_all_through_a_window(
    spec: ScalingSpec, turns: list[Turn], first: int
) -> None:
    """Against a plain list of every wish and when it held, with what there was where none was."""
    by = rules(scaling=spec)
    held: list[tuple[float, float, int]] = [(float("-inf"), NOW_S, first)]
    counts: list[tuple[float, int | None]] = []
    before, since_s = first, NOW_S
    for (_, old, _), (now_s, asked, some) in pairwise(
        [(NOW_S, UNKNOWN, new(first)), *played(new(first), by, turns)]
    ):
        counts.append((since_s, old.value.replicas if isinstance(old, Known) else None))
        held.append((since_s, now_s, in_force(counts, before)))
        since_s = now_s
        if some.desired != before:
            assert isinstance(asked, Known)
            assert some.desired == followed(before, asked.value, spec, held, now_s)
        before = some.desired


def in_force(counts: list[tuple[float, int | None]], present: int) -> int:
    """Return what counts as wished from the last of *counts* on: (moment, wish) of each tick."""
    now_s, silent_s = counts[-1][0], counts[-1][0]
    for moment_s, count in reversed(counts):
        if count is not None:
            return count if now_s - silent_s < SILENCE_S or moment_s == now_s else present
        silent_s = moment_s
    return present


def followed(
    before: int, asked: Wish, spec: ScalingSpec, held: list[tuple[float, float, int]], now_s: float
) -> int:
    """Return where a size must go that moves at *now_s*."""
    wanted = asked.replicas
    assert wanted is not None
    since_s = now_s - (spec.up if wanted > before else spec.down).window_s
    all_through = [wanted, *(n for _, until_s, n in held if until_s > since_s)]
    if wanted < before:
        return max(all_through)
    return min(wanted if asked.urgent else min(all_through), 8)


@settings(max_examples=50, deadline=None)
@given(spec=SETTINGS, turns=TURNS, first=st.integers(0, 8))
def test_a_policy_that_never_answers_keeps_the_size(
    spec: ScalingSpec, turns: list[Turn], first: int
) -> None:
    """It raises, hangs, or has no opinion: no decision at all."""
    by = rules(scaling=spec)
    silent: list[Turn] = [
        (after_s, asked if isinstance(asked, Unknown) else wish(None)) for after_s, asked in turns
    ]
    for _, _, some in played(new(first), by, silent):
        assert (some.desired, some.decisions) == (first, ())


@settings(max_examples=50, deadline=None)
@given(spec=SETTINGS, turns=TURNS, first=st.integers(0, 8))
def test_a_replay_gives_the_same_fleet(spec: ScalingSpec, turns: list[Turn], first: int) -> None:
    """To the last decision and event."""
    by = rules(scaling=spec)
    assert list(played(new(first), by, turns)) == list(played(new(first), by, turns))


@settings(max_examples=100, deadline=None)
@given(spec=SETTINGS, turns=TURNS, first=st.integers(0, 8))
def test_what_lets_go_when_it_was_said_moves_the_size(
    spec: ScalingSpec, turns: list[Turn], first: int
) -> None:
    """At the last of the moments that a verdict names, and not before the first of them."""
    by = rules(scaling=spec)
    *_, (now_s, asked, some) = played(new(first), by, turns)
    if not isinstance(asked, Known) or asked.value.replicas is None:
        return
    judged = judge(some, by, asked.value, now_s)
    moments = [each.until_s for each in judged.held if each.until_s is not None]
    if not moments:
        assert judged.desired == some.limits(by).clamp(asked.value.replicas)
        return
    assert judge(some, by, asked.value, min(moments) - 0.01).desired == some.desired
    later_s = max(moments)
    for _ in range(len(turns) + 3):
        later = judge(some, by, asked.value, later_s)
        if later.desired != some.desired:
            break
        later_s = max(each.until_s for each in later.held if each.until_s is not None)
    assert later.desired != some.desired
