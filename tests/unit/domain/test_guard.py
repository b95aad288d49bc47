"""When most of a fleet falls silent at once."""

import attrs
import pytest
from given import AT, NOW_S, at, codes, fleet, gone, one, ready, rules, running, silent, step
from given import reading as answers

from tarn.domain import InstanceState, Resume
from tarn.domain.apply_command import apply_command
from tarn.domain.fleet import Fleet
from tarn.domain.fold_readings import guard

RULES = rules()
FOUR = (1, 2, 3, 4)
FACTS = tuple(running(n) for n in FOUR)


def guarded(some: Fleet, now_s: float = NOW_S, *, late: bool = False) -> Fleet:
    return guard(some, now_s, AT, late=late, silence_s=4.0)


def with_silent(count: int, of: int = 4, since_s: float = NOW_S) -> Fleet:
    quiet = [ready(n, silent_s=since_s) for n in range(1, count + 1)]
    return fleet(*quiet, *(ready(n) for n in range(count + 1, of + 1)))


def after_silence(frozen_for_s: float) -> Fleet:
    """Return four instances that have been silent, and frozen, for so long."""
    some = fleet(*(ready(n) for n in FOUR))
    some = step(some, RULES, NOW_S, FACTS, *(silent(n) for n in FOUR))
    return step(some, RULES, NOW_S + frozen_for_s, FACTS, *(silent(n) for n in FOUR))


def test_half_of_a_fleet_may_fall_silent_without_a_freeze() -> None:
    """Exactly half is not more than half."""
    some = with_silent(2)
    assert guarded(some) is some


def test_more_than_half_at_once_freezes_replacements_and_alerts() -> None:
    """The observer is suspect, and says how many fell silent."""
    some = guarded(with_silent(3))
    assert some.frozen_s == NOW_S
    assert codes(some) == ["TARN-1010"]
    assert some.events[0].message == "3 of 4 instances fell silent within 4 s"


def test_a_pair_is_too_small_to_doubt_the_observer() -> None:
    """Below three, "more than half" says nothing."""
    assert guarded(with_silent(2, of=2)).frozen_s is None
    assert guarded(with_silent(2, of=3)).frozen_s == NOW_S


def test_silences_that_do_not_fall_together_freeze_nothing() -> None:
    """One by one is how instances die; the limit is inclusive."""
    assert guarded(with_silent(3, since_s=NOW_S - 4.0)).frozen_s == NOW_S
    assert guarded(with_silent(3, since_s=NOW_S - 4.1)).frozen_s is None


def test_what_is_certainly_gone_is_no_reason_to_doubt_the_observer() -> None:
    """A closed port is Known: all four are gone, and nothing freezes."""
    some = fleet(*(ready(n) for n in FOUR))
    some = step(some, RULES, NOW_S, FACTS, *(gone(n) for n in FOUR))
    assert some.frozen_s is None
    assert some.view.members == ()


def test_a_frozen_fleet_replaces_nobody_who_is_only_silent() -> None:
    """Long after ``replace_after`` all four are still there, unmarked and in the view."""
    some = after_silence(299.9)
    assert [i.state for i in some.instances] == [InstanceState.READY] * 4
    assert len(some.view.members) == 4


def test_a_frozen_fleet_still_replaces_what_is_certainly_gone() -> None:
    """Certainty counts while silence does not."""
    some = after_silence(29.0)
    read = (gone(1), silent(2), silent(3), silent(4))
    some = step(some, RULES, NOW_S + 30.0, FACTS, *read)
    assert some.frozen_s is not None
    assert one(some, 1).condemned
    assert not one(some, 2).condemned


def test_half_that_answer_again_thaw() -> None:
    """Two of four are enough; one is not."""
    some = after_silence(10.0)
    one_answers = (answers(1), silent(2), silent(3), silent(4))
    assert step(some, RULES, NOW_S + 11.0, FACTS, *one_answers).frozen_s is not None
    two_answer = (answers(1), answers(2), silent(3), silent(4))
    thawed = step(some, RULES, NOW_S + 11.0, FACTS, *two_answer)
    assert thawed.frozen_s is None
    assert codes(thawed)[-1] == "TARN-1011"


def test_five_minutes_thaw_and_then_the_silent_are_replaced() -> None:
    """A freeze ends by itself: who is still silent is broken after all."""
    some = step(after_silence(1.0), RULES, NOW_S + 300.0, FACTS, *(silent(n) for n in FOUR))
    assert some.frozen_s is None
    assert all(one(some, n).condemned for n in FOUR)


def test_resume_thaws_at_once() -> None:
    """A person knows better than the guard."""
    some, done = apply_command(after_silence(40.0), Resume(), RULES, now_s=NOW_S + 40.0, at=AT)
    assert done.message == "resumed"
    some = step(some, RULES, NOW_S + 41.0, FACTS, *(silent(n) for n in FOUR))
    assert all(one(some, n).condemned for n in FOUR)


def test_a_late_tick_forgives_every_silence() -> None:
    """Stopped for two minutes, the master takes the silences for its own."""
    some = fleet(*(ready(n) for n in FOUR))
    some = step(some, RULES, NOW_S, FACTS, silent(1), *(answers(n) for n in (2, 3, 4)))
    woken_s = NOW_S + 120.0
    some = step(some, RULES, woken_s, FACTS, *(silent(n) for n in FOUR), late=True)
    assert [i.silent_s for i in some.instances] == [woken_s] * 4
    assert len(some.view.members) == 4
    assert some.frozen_s is None


def test_a_late_tick_without_silences_changes_nothing() -> None:
    """There is nothing to forgive."""
    some = fleet(*(ready(n) for n in FOUR))
    assert guarded(some, late=True) is some


def test_silences_that_outlast_a_late_tick_freeze_the_next_one() -> None:
    """If most are still silent on time, the doubt remains."""
    some = guarded(with_silent(3), late=True)
    assert guarded(some, NOW_S + 1.0).frozen_s == NOW_S + 1.0


@pytest.mark.parametrize("count", range(1, 9))
def test_the_guard_changes_no_state(count: int) -> None:
    """Whatever it thinks, only the freeze and the events differ."""
    some = with_silent(count, of=8)
    after = guarded(some)
    assert attrs.evolve(after, frozen_s=None, events=(), event_totals={}) == some
    assert (after.frozen_s is not None) is (count > 4)
    assert at(NOW_S) == AT
