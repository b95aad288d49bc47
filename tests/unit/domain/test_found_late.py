"""Instances of an earlier master that the runtime names only after the start."""

from typing import Any

import pytest
from given import (
    NOW_S,
    codes,
    draining,
    ended,
    fleet,
    name,
    one,
    reading,
    ready,
    rules,
    running,
    told,
)
from given import step as after

from tarn.domain import Applied, Endpoint, Fact, InstanceState, Recovered, Running
from tarn.domain.fleet import Fleet, FollowerState
from tarn.domain.follow_up import acknowledged, publish_view, withdrawals
from tarn.domain.memory import begin, saved
from tarn.domain.tick import PROBE_WITHIN_S

RULES = rules()


def late(number: int, **more: Any) -> Running:
    return running(number, adopted=True, **more)


def step(some: Fleet, now_s: float, *facts: Fact) -> Fleet:
    return after(some, RULES, now_s, facts, *(reading(1, now_s),))


def test_one_found_late_is_taken_over_as_at_the_start() -> None:
    """Starting, adopted, unprobed; its number is never minted again; the event says it."""
    some = told(fleet(ready(1), desired=2), running(1), late(7))
    found = one(some, 7)
    assert (found.state, found.adopted, found.condemned) == (InstanceState.STARTING, True, False)
    assert (found.container_id, found.endpoint, found.since_s) == ("c7", running(7).endpoint, NOW_S)
    assert some.unprobed == {name(7)}
    assert some.next_number == 8
    assert codes(some) == ["TARN-1004"]
    assert some.events[0].message == "found late: c7 on h"


def test_the_view_is_incomplete_until_it_has_answered() -> None:
    """Nobody is taken out of any follower meanwhile; then it serves on."""
    some = after(fleet(ready(1), desired=2), RULES, NOW_S, (running(1), late(7)), reading(1))
    assert (some.view.complete, some.view.revision) == (False, 6)
    read = (reading(1, NOW_S + 1.0), reading(7, NOW_S + 1.0))
    some = after(some, RULES, NOW_S + 1.0, (running(1), late(7)), *read)
    assert one(some, 7).state is InstanceState.READY
    assert some.view.complete
    assert [m.instance_id for m in some.view.members] == [name(1), name(7)]


def test_one_that_never_answers_holds_the_view_for_half_a_minute_from_when_it_was_found() -> None:
    """However long ago the master started."""
    facts = (running(1), late(7))
    some = step(fleet(ready(1), desired=2, started_s=NOW_S - 9000.0), NOW_S, *facts)
    some = step(some, NOW_S + PROBE_WITHIN_S - 0.1, *facts)
    assert not some.view.complete
    assert step(some, NOW_S + PROBE_WITHIN_S, *facts).view.complete


def test_one_too_many_is_drained_and_not_condemned() -> None:
    """Whoever still sends to it loses nothing."""
    some = step(fleet(ready(1), desired=1), NOW_S, running(1), late(7))
    assert one(some, 7).state is InstanceState.DRAINING
    assert not one(some, 7).condemned
    assert not one(some, 7).stop_posted
    assert one(some, 1).state is InstanceState.READY


def test_one_that_this_master_gave_up_stays_given_up() -> None:
    """It is known, and over: taken in only to be stopped."""
    gone = told(fleet(draining(7, stop_posted=True)), ended(7))
    some = told(gone, late(7))
    again = next(i for i in some.instances if i.id == name(7))
    assert again.state is InstanceState.DRAINING
    assert again.condemned


def test_one_that_was_not_adopted_is_a_stray() -> None:
    """Granted to this master, and wanted by nobody."""
    some = told(fleet(ready(1)), running(1), running(7))
    assert one(some, 7).condemned
    assert some.unprobed == frozenset()


def test_who_had_not_left_everywhere_leaves_anew_when_the_view_becomes_incomplete() -> None:
    """A follower may never see the complete view between: its word for the next is no proof."""
    some = fleet(ready(1), draining(2), followers={"lb": FollowerState(5, NOW_S, came=True)})
    by = rules(required=("lb",))
    some = publish_view(some)
    assert one(some, 2).left_revision == 5
    some = publish_view(told(some, running(1), running(2), late(7)))
    assert not some.view.complete
    assert one(some, 2).left_revision is None
    word = Applied("lb", some.epoch, some.view.revision, 0.0)
    some = acknowledged(some, word, NOW_S, 0.0, lease_s=15.0)
    assert one(withdrawals(some, by, NOW_S, 0.0), 2).withdrawn_s is None


# A place that will be taken.


@pytest.mark.parametrize("first", [ready(1), ready(1, state=InstanceState.STARTING, ready_s=None)])
def test_an_instance_whose_place_will_be_taken_is_drained_and_replaced_at_once(first: Any) -> None:
    """The replacement is asked for in the same tick; the event tells why."""
    notice = running(1, leaving="preempted by queue 'prod'")
    some = after(fleet(first), RULES, NOW_S, (notice,), reading(1))
    leaving = one(some, 1)
    assert (leaving.state, leaving.evicted) == (InstanceState.DRAINING, True)
    assert leaving.reason == "its place will be taken: preempted by queue 'prod'"
    assert one(some, 2).state is InstanceState.REQUESTED
    assert codes(some) == ["TARN-1113", "TARN-1100"]
    assert some.events[0].message == "preempted by queue 'prod'"


def test_a_notice_that_is_taken_back_and_comes_again_changes_nothing() -> None:
    """One event, one replacement, and no way back."""
    some = after(fleet(ready(1)), RULES, NOW_S, (running(1, leaving="preempted"),), reading(1))
    for second, leaving in enumerate(("", "preempted", "", "decommissioned")):
        now_s = NOW_S + 0.1 * second
        facts = (running(1, leaving=leaving), running(2))
        some = after(some, RULES, now_s, facts, reading(1, now_s))
    assert one(some, 1).state is InstanceState.DRAINING
    assert len(some.instances) == 2
    assert codes(some).count("TARN-1113") == 1


def test_one_that_drains_already_is_kept_from_coming_back() -> None:
    """What was not needed is not needed there again."""
    surplus = draining(1, serving=True, reason="not needed any more")
    assert surplus.returnable
    some = told(fleet(surplus), running(1, leaving="preempted"))
    assert not one(some, 1).returnable
    assert one(some, 1).reason == "not needed any more"


def test_the_receipt_says_why_it_left() -> None:
    """Quiet in time, or not."""
    some = told(fleet(ready(1)), running(1, leaving="preempted"))
    in_time = told(
        fleet(draining(1, evicted=True, stop_posted=True, reason=one(some, 1).reason)),
        ended(1),
        now_s=NOW_S + 3.0,
    )
    assert one(in_time, 1).reason == (
        "drained: requests unknown in 3.0 s, lost unknown, cut unknown: "
        "its place will be taken: preempted"
    )
    too_late = told(some, ended(1, "preempted by the scheduler"))
    assert one(too_late, 1).state is InstanceState.FAILED
    assert one(too_late, 1).reason == (
        "preempted by the scheduler, while it drained (its place will be taken: preempted)"
    )
    assert too_late.strikes == 0


def test_the_next_master_goes_on_draining_it() -> None:
    """Also when the notice is not repeated."""
    some = told(fleet(ready(1)), running(1, leaving="preempted"))
    state = saved(some, 0.0)
    from_it = begin(some.epoch, state, Recovered((late(1),)), RULES, now_s=NOW_S, at=NOW_S)
    assert (one(from_it, 1).state, one(from_it, 1).evicted) == (InstanceState.DRAINING, True)


def test_one_found_late_whose_place_will_be_taken_is_drained_at_once() -> None:
    """It is not probed, since it will not serve."""
    some = told(fleet(ready(1)), running(1), late(7, leaving="the node is decommissioned"))
    assert one(some, 7).state is InstanceState.DRAINING
    assert some.unprobed == frozenset()


def test_a_notice_with_the_first_word_of_a_place_drains_too() -> None:
    """It was asked for, and its place goes before it starts."""
    requested = ready(
        1, state=InstanceState.REQUESTED, endpoint=None, container_id=None, ready_s=None
    )
    some = told(fleet(requested), running(1, leaving="preempted"))
    assert one(some, 1).state is InstanceState.DRAINING
    assert one(some, 1).endpoint == Endpoint("h", 3, 4, 5)
