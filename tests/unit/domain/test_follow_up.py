"""What followers are told, and whose word a drain waits for."""

import attrs
from given import (
    AT,
    EPOCH,
    NOW_S,
    codes,
    draining,
    endpoint,
    fleet,
    name,
    one,
    ready,
    rules,
    starting,
)

from tarn.domain import Applied, DiscoveryView, Epoch, Member
from tarn.domain.fleet import Fleet, FollowerState
from tarn.domain.follow_up import FORGET_AFTER_S, acknowledged, publish_view, withdrawals

RULES = rules(required=("lb",))
LEFT = draining(1, left_revision=6)


def word(revision: int, *, who: str = "lb", epoch: Epoch = EPOCH, error: str = "") -> Applied:
    return Applied(who, epoch, revision, AT, error)


def heard(
    some: Fleet, applied: Applied, now_s: float = NOW_S, lease_s: float | None = 15.0
) -> Fleet:
    return acknowledged(some, applied, now_s, AT, lease_s=lease_s)


def withdrawn(some: Fleet, now_s: float = NOW_S) -> float | None:
    return one(withdrawals(some, RULES, now_s, AT), 1).withdrawn_s


def at_revision(revision: int, *members: int) -> DiscoveryView:
    some = tuple(Member(name(n), f"c{n}", endpoint(n), "hash") for n in members)
    return DiscoveryView(EPOCH, revision, complete=True, members=some)


# The view.


def test_the_revision_stands_while_the_members_do() -> None:
    """Nothing to tell: the very same fleet."""
    some = fleet(ready(1), starting(2), draining(3, left_revision=5))
    assert publish_view(some) is some


def test_the_revision_moves_by_one_with_the_members() -> None:
    """In, out, and moved to another place; those who stay are the same objects."""
    some = publish_view(fleet(ready(1), ready(2), view=at_revision(5, 1)))
    assert some.view == at_revision(6, 1, 2)
    less = publish_view(attrs.evolve(some, instances=(ready(1), ready(2, suspect="gone"))))
    assert less.view == at_revision(7, 1)
    moved = attrs.evolve(less, instances=(ready(1, endpoint=endpoint(9)),))
    assert publish_view(moved).view.members[0].endpoint == endpoint(9)
    assert publish_view(moved).view.revision == 8
    again = attrs.evolve(less, instances=(ready(1, container_id="other"),))
    assert publish_view(again).view.members[0].container_id == "other"


def test_an_instance_without_a_container_is_shown_by_its_id() -> None:
    """Followers always get a name for it."""
    some = publish_view(fleet(ready(1, container_id=None), view=at_revision(5)))
    assert some.view.members[0].container_id == name(1)


def test_a_drain_notes_the_first_revision_without_it() -> None:
    """What came before it left says nothing."""
    some = publish_view(fleet(draining(1), view=at_revision(5, 1)))
    assert one(some, 1).left_revision == some.view.revision == 6
    never_in = publish_view(fleet(draining(1)))
    assert one(never_in, 1).left_revision == 5


def test_an_incomplete_view_lets_nobody_leave_until_it_is_complete() -> None:
    """Followers remove nothing by it, so the revision that counts is the complete one."""
    some = fleet(draining(1), starting(2), unprobed=frozenset({name(2)}))
    some = publish_view(some)
    assert (some.view.revision, some.view.complete) == (6, False)
    assert one(some, 1).left_revision is None
    assert publish_view(some) is some
    whole = publish_view(attrs.evolve(some, unprobed=frozenset()))
    assert (whole.view.revision, whole.view.complete) == (7, True)
    assert one(whole, 1).left_revision == 7


# The followers' word.


def test_a_follower_joins_with_its_first_word() -> None:
    """Once; later words only count."""
    some = heard(fleet(), word(5))
    assert some.followers["lb"] == FollowerState(5, NOW_S, NOW_S + 15.0, came=True, counted_s=NOW_S)
    assert codes(some) == ["TARN-1300"]
    assert codes(heard(some, word(5))) == ["TARN-1300"]


def test_a_word_about_another_epoch_or_of_nothing_done_counts_for_nothing() -> None:
    """It is heard: the lease runs anew, and the error is shown."""
    for applied in (word(5, epoch=Epoch(1, 0)), word(5, epoch=Epoch(2, 1)), word(0, error="no")):
        state = heard(fleet(), applied).followers["lb"]
        assert (state.revision, state.came, state.heard_s) == (-1, False, NOW_S)
        assert state.error == applied.error


def test_an_error_beside_a_revision_holds_up_no_drain() -> None:
    """Who left has left; that another one could not be added is shown, and is another matter."""
    state = heard(fleet(), word(5, error="host 'gpu7' has no address")).followers["lb"]
    assert (state.revision, state.came) == (5, True)
    assert state.error == "host 'gpu7' has no address"


def test_an_older_word_that_comes_late_takes_nothing_back() -> None:
    """Messages may overtake one another."""
    some = heard(heard(fleet(), word(5)), word(3))
    assert some.followers["lb"].revision == 5


def test_nobody_can_acknowledge_what_was_never_published() -> None:
    """A wild number counts as the newest view, not as every later one."""
    assert heard(fleet(), word(10**9)).followers["lb"].revision == 5


# Withdrawals.


def test_a_drain_waits_for_every_required_follower() -> None:
    """The revision without it, or a later one."""
    some = fleet(LEFT, view=at_revision(7))
    assert withdrawn(heard(some, word(5))) is None
    assert withdrawn(heard(some, word(6))) == NOW_S
    assert withdrawn(heard(some, word(7))) == NOW_S


def test_a_drain_waits_for_its_leaving_first() -> None:
    """While it is in the view nobody's word can be about its absence."""
    assert withdrawn(heard(fleet(draining(1)), word(5))) is None


def test_only_required_followers_hold_a_drain() -> None:
    """A client that follows for itself holds nothing."""
    some = heard(fleet(LEFT, view=at_revision(6)), word(1, who="notebook"))
    assert withdrawn(some) == NOW_S


def test_a_required_follower_that_never_came_holds_nothing() -> None:
    """It is a warning; a word of another epoch is no coming."""
    some = fleet(LEFT, view=at_revision(6))
    assert withdrawn(some) == NOW_S
    assert withdrawn(heard(some, word(9, epoch=Epoch(1, 0)))) == NOW_S


def test_a_lost_lease_is_told_once_and_drains_wait_twice_the_quiesce() -> None:
    """The lease is sharp; the quiesce begins two seconds later than now."""
    some = heard(fleet(LEFT, view=at_revision(6)), word(5))
    assert withdrawn(some, NOW_S + 15.0) is None
    lost = withdrawals(some, RULES, NOW_S + 15.1, AT)
    assert one(lost, 1).withdrawn_s == NOW_S + 17.1
    assert lost.followers["lb"].lost
    assert codes(lost)[-1] == "TARN-1301"
    assert withdrawals(lost, RULES, NOW_S + 16.0, AT) is lost
    assert lost.event_totals["TARN-1301"] == 1


def test_a_lost_follower_that_is_nobodys_condition_is_no_alert() -> None:
    """It is marked all the same."""
    some = withdrawals(heard(fleet(), word(5, who="notebook")), RULES, NOW_S + 16.0, AT)
    assert some.followers["notebook"].lost
    assert "TARN-1301" not in codes(some)


def test_a_lost_follower_that_returns_is_waited_for_again() -> None:
    """Its next loss is the next alert."""
    some = heard(fleet(), word(5))
    some = withdrawals(some, RULES, NOW_S + 16.0, AT)
    some = heard(some, word(5), NOW_S + 17.0)
    assert not some.followers["lb"].lost
    late = attrs.evolve(some, instances=(LEFT,), view=at_revision(6))
    assert withdrawn(late, NOW_S + 18.0) is None
    assert withdrawals(some, RULES, NOW_S + 40.0, AT).event_totals["TARN-1301"] == 2


def test_a_follower_in_this_process_has_no_lease_to_lose() -> None:
    """A discovery that is blocked holds the drain for as long as it takes."""
    some = heard(fleet(LEFT, view=at_revision(6)), word(5), lease_s=None)
    assert withdrawn(some, NOW_S + 9999.0) is None


def test_the_moment_of_leaving_is_noted_once() -> None:
    """The quiesce runs from the first tick in which all had acknowledged."""
    some = withdrawals(fleet(attrs.evolve(LEFT, withdrawn_s=NOW_S)), RULES, NOW_S + 1.0, AT)
    assert one(some, 1).withdrawn_s == NOW_S


def test_a_follower_that_the_spec_does_not_name_is_forgotten() -> None:
    """Load balancers come and go with the names of their machines; a required one is remembered."""
    some = fleet(ready(1))
    for who in ("lb1", "pod-1", "pod-2"):
        word = Applied(who, EPOCH, some.view.revision, AT)
        some = acknowledged(some, word, NOW_S, AT, lease_s=15.0)
    after = NOW_S + 15.0 + FORGET_AFTER_S + 1.0
    some = acknowledged(some, word, after - 20.0, AT, lease_s=15.0)
    required = rules(required=("lb1",))
    some = withdrawals(some, required, NOW_S + 16.0, AT)
    assert set(some.followers) == {"lb1", "pod-1", "pod-2"}
    some = withdrawals(some, required, after, AT)
    assert set(some.followers) == {"lb1", "pod-2"}
    assert some.followers["lb1"].lost
