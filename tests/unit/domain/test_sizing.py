"""From wanted to desired."""

import attrs
import pytest
from given import AT, NOW_S, codes, fleet, rules

from tarn.domain import Decision, Known, Pause, Sample, Unknown, Wish
from tarn.domain.fleet import Fleet, Rules
from tarn.domain.sizing import size
from tarn.domain.spec import ScalingSpec, WindowSpec

RULES = rules()
HASTY = rules(scaling=ScalingSpec(cooldown_s=60.0, down=WindowSpec(0.0)))


def wish(replicas: int | None, reason: str = "queue of 9") -> Sample[Wish]:
    return Known(Wish(replicas, reason))


def sized(
    some: Fleet, asked: Sample[Wish], by: Rules = RULES, now_s: float = NOW_S, at: float = AT
) -> Fleet:
    return size(some, by, asked, now_s, at)


def test_the_policys_wish_becomes_the_size() -> None:
    """With a decision, an event, and the stamp that starts the cooldown."""
    some = sized(fleet(desired=2), wish(5))
    assert (some.desired, some.changed_s) == (5, NOW_S)
    assert some.decisions == (Decision(AT, 5, 5, "policy fixed", "queue of 9", number=1),)
    assert some.events[0].message == "2 → 5 by policy fixed: queue of 9"
    assert codes(some) == ["TARN-1200"]


@pytest.mark.parametrize(
    "no_wish", [wish(None), Unknown("the policy raised"), Unknown("not asked yet")]
)
def test_no_opinion_changes_nothing(no_wish: Sample[Wish]) -> None:
    """Unknown is not zero; the very same fleet comes back."""
    some = fleet(desired=2)
    assert sized(some, no_wish) is some


def test_the_same_wish_again_changes_nothing() -> None:
    """Once it is known; a tick between two answers makes no new fleet."""
    asked = wish(2)
    some = sized(fleet(desired=2), asked)
    assert (some.desired, some.decisions) == (2, ())
    assert sized(some, asked, now_s=NOW_S + 0.5) is some


def test_a_wish_is_moved_into_the_limits_and_says_so() -> None:
    """Above max, and below min."""
    some = sized(fleet(desired=2), wish(99))
    assert (some.desired, some.decisions[0].held_back) == (8, "limits 0 to 8")
    assert some.events[0].message == "2 → 8 by policy fixed: queue of 9 (99 wanted; limits 0 to 8)"
    raised = sized(fleet(desired=4, min=3), wish(0), HASTY)
    assert (raised.desired, raised.decisions[0].held_back) == (3, "limits 3 to 8")


def test_a_ceiling_holds_for_everybody_and_says_why() -> None:
    """Even below min."""
    farm = rules(ceiling=3)
    some = sized(fleet(desired=2), wish(5), farm)
    held_back = "limits 0 to 8, ceiling 3 (the pool is full)"
    assert (some.desired, some.decisions[0].held_back) == (3, held_back)
    by_hand = sized(fleet(desired=2, manual=5), wish(1), farm)
    assert by_hand.desired == 3
    assert by_hand.decisions[0].held_back == "the limits allow 3"
    assert sized(fleet(desired=6, min=5), Unknown(""), farm).desired == 3


def test_limits_that_moved_hold_at_once() -> None:
    """Neither a pause nor the cooldown stands in their way."""
    some = fleet(desired=6, max=4, pause=Pause(AT + 60.0), changed_s=NOW_S)
    after = sized(some, wish(6))
    assert (after.desired, after.decisions[0].by) == (4, "limits")
    assert after.changed_s == NOW_S


def test_a_person_wins_over_the_policy() -> None:
    """Even in a pause; the cooldown is not started."""
    some = sized(fleet(desired=2, manual=4, pause=Pause(AT + 60.0)), wish(8))
    assert (some.desired, some.changed_s) == (4, None)
    assert some.decisions[0] == Decision(AT, 4, 4, "scale", "a person set 4", number=1)
    assert sized(some, wish(8)) is some


def test_the_cooldown_is_sharp() -> None:
    """A second change waits for a minute."""
    some = sized(fleet(desired=2), wish(3))
    assert sized(some, wish(4), now_s=NOW_S + 59.9).desired == 3
    assert sized(some, wish(4), now_s=NOW_S + 60.0).desired == 4


def test_a_pause_stops_the_policy_only() -> None:
    """Until it ends."""
    some = fleet(desired=2, pause=Pause(AT + 60.0))
    asked = wish(5)
    assert sized(some, asked) is some
    assert sized(attrs.evolve(some, pause=None), asked).desired == 5


def test_down_is_zero_whatever_the_limits_say() -> None:
    """It wins over a person and over min."""
    some = sized(fleet(desired=2, min=1, manual=4, ending=True), wish(5))
    assert (some.desired, some.decisions[0].by) == (0, "down")


def test_a_new_size_has_all_its_time() -> None:
    """What served before is remembered."""
    some = fleet(desired=2, served=2, short_s=NOW_S - 50.0)
    after = sized(some, wish(3))
    assert (after.served, after.short_s) == (2, None)


def test_only_the_last_hundred_decisions_are_kept() -> None:
    """Oldest first."""
    some = attrs.evolve(fleet(desired=0), decisions=())
    for turn in range(105):
        some = attrs.evolve(some, manual=turn % 2 + 1)
        some = sized(some, wish(None), at=float(turn))
    assert [d.at for d in some.decisions] == [float(n) for n in range(5, 105)]
