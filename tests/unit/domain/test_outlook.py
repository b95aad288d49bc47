"""What is waited for, and until when."""

import attrs
import pytest
from given import AT, NOW_S, asked, draining, fleet, ready, rules, starting

from tarn.domain import InstanceState, Known, Unknown, Wish
from tarn.domain.fleet import FollowerState
from tarn.domain.outlook import Holds, Prospect, WaitsFor, holds, prospect, size_outlook

RULES = rules(required=("lb", "zk"))
NO_WISH = Unknown("it hangs")
LEFT = NOW_S + 1.0


def came(revision: int, **more: object) -> FollowerState:
    return attrs.evolve(FollowerState(revision, came=True), **more)


def test_one_that_is_as_it_should_be_waits_for_nothing() -> None:
    """Ready and answering, or over."""
    stopped = attrs.evolve(ready(1), state=InstanceState.STOPPED)
    assert prospect(ready(1), fleet(), RULES) is None
    assert prospect(stopped, fleet(), RULES) is None


def test_one_that_is_asked_for_waits_for_a_place_without_end() -> None:
    """A queue may be long; nobody gives up for it."""
    assert prospect(asked(1), fleet(), RULES) == Prospect(WaitsFor.PLACE)


def test_one_that_starts_is_replaced_at_the_start_limit() -> None:
    """60 s in these rules."""
    assert prospect(starting(1), fleet(), RULES) == Prospect(WaitsFor.MODELS, NOW_S + 60.0)


def test_a_start_that_can_come_to_nothing_is_given_up_sooner() -> None:
    """Two seconds after that is known, and never later than the limit."""
    assert prospect(starting(1, stuck_s=NOW_S + 5.0), fleet(), RULES) == Prospect(
        WaitsFor.MODELS, NOW_S + 7.0
    )
    late = starting(1, stuck_s=NOW_S + 59.0)
    assert prospect(late, fleet(), RULES) == Prospect(WaitsFor.MODELS, NOW_S + 60.0)


def test_a_recovered_one_that_is_silent_is_like_a_ready_one() -> None:
    """It served before, so the limit of a start is not its own."""
    limit_s = NOW_S - 5.0 + RULES.spec.instance.replace_after_s
    found = starting(1, adopted=True, silent_s=NOW_S - 5.0)
    assert prospect(found, fleet(), RULES) == Prospect(WaitsFor.ANSWER, limit_s)
    answering = starting(1, adopted=True)
    assert prospect(answering, fleet(), RULES) == Prospect(WaitsFor.MODELS, NOW_S + 60.0)


def test_a_silent_one_is_replaced_unless_replacements_are_frozen() -> None:
    """One that is gone for certain is replaced all the same."""
    silent = ready(1, silent_s=NOW_S - 5.0)
    limit_s = NOW_S - 5.0 + RULES.spec.instance.replace_after_s
    frozen = fleet(frozen_s=NOW_S)
    assert prospect(silent, fleet(), RULES) == Prospect(WaitsFor.ANSWER, limit_s)
    assert prospect(silent, frozen, RULES) == Prospect(WaitsFor.ANSWER)
    gone = attrs.evolve(silent, gone=True)
    assert prospect(gone, frozen, RULES) == Prospect(WaitsFor.ANSWER, limit_s)


def test_a_drain_waits_for_the_followers_whose_word_counts() -> None:
    """Required, came, not lost, and still at a view with it; by name."""
    followers = {
        "zk": came(4),
        "lb": came(5),
        "optional": came(4),
    }
    left = draining(1, left_revision=5)
    assert prospect(left, fleet(followers=followers), RULES) == Prospect(
        WaitsFor.FOLLOWERS, followers=("zk",)
    )
    lost = {"zk": came(4, lost=True), "lb": FollowerState()}
    assert prospect(left, fleet(followers=lost), RULES) == Prospect(WaitsFor.FOLLOWERS)
    in_view = draining(1)  # the view is incomplete: it has not left yet
    assert prospect(in_view, fleet(followers=followers), RULES) == Prospect(WaitsFor.FOLLOWERS)


def test_a_withdrawn_drain_waits_for_the_quiesce_and_for_its_requests() -> None:
    """Unknown is not quiet; requests are cut at the drain limit, never before the quiesce."""
    gone = draining(1, left_revision=5, withdrawn_s=LEFT, since_s=NOW_S)
    assert prospect(gone, fleet(), RULES) == Prospect(WaitsFor.QUIESCE, LEFT + 2.0)
    for busy in (Known(3.0), Unknown("no answer")):
        busy_one = attrs.evolve(gone, busy=busy)
        assert prospect(busy_one, fleet(), RULES) == Prospect(WaitsFor.REQUESTS, NOW_S + 20.0)
    late = attrs.evolve(gone, busy=Known(1.0), withdrawn_s=NOW_S + 30.0)
    assert prospect(late, fleet(), RULES) == Prospect(WaitsFor.REQUESTS, NOW_S + 32.0)


@pytest.mark.parametrize(
    "changes",
    [
        {"stop_posted": True},
        {"ready_s": None},
        {"condemned": True, "left_revision": 5, "withdrawn_s": LEFT},
    ],
)
def test_what_has_nothing_to_finish_waits_for_its_end(changes: dict[str, object]) -> None:
    """Its stop was posted, it never was in a view, or it is broken."""
    assert prospect(draining(1, **changes), fleet(), RULES) == Prospect(WaitsFor.END)


def test_nothing_holds_a_fleet_that_is_well() -> None:
    """Only how its size stands is told."""
    wish = Known(Wish(3, "queue 40 ms"))
    plain = Holds(size=size_outlook(fleet(), RULES, wish, NOW_S, AT))
    assert holds(fleet(), RULES, wish, NOW_S, AT) == plain


def test_tells_back_off_cooldown_freeze_and_halt_while_they_hold() -> None:
    """Each with its moment; what is over is left out."""
    some = fleet(
        strikes=3, retry_s=NOW_S + 4.0, changed_s=NOW_S - 20.0, frozen_s=NOW_S - 10.0, halted="why"
    )
    assert holds(some, RULES, NO_WISH, NOW_S, AT) == Holds(
        halted="why",
        strikes=3,
        retry_s=NOW_S + 4.0,
        frozen_s=NOW_S - 10.0,
        thaw_s=NOW_S + 290.0,
        cooldown_s=NOW_S + 40.0,
        size=size_outlook(some, RULES, NO_WISH, NOW_S, AT),
    )
    over = holds(some, RULES, NO_WISH, NOW_S + 40.0, AT)
    assert (over.retry_s, over.cooldown_s) == (None, None)
    assert holds(attrs.evolve(some, strikes=0), RULES, NO_WISH, NOW_S, AT).retry_s is None
