"""What a master saves, and how the next one begins."""

import attrs
import pytest
from given import AT, EPOCH, NOW_S, at, codes, draining, fleet, name, one, ready, rules, running

from tarn.domain import (
    Acknowledge,
    Applied,
    Decision,
    Epoch,
    InstanceState,
    Pause,
    Recovered,
    Requester,
    SavedState,
)
from tarn.domain.apply_command import apply_command
from tarn.domain.fleet import Fleet, FollowerState, Rules
from tarn.domain.memory import begin, saved
from tarn.domain.spec import ReplicasSpec
from tarn.errors import RefusedError

RULES = rules(required=("lb",))
PAST_S = AT - NOW_S
NEXT = Epoch(1, 2)
LATER_S = NOW_S + 30.0


def begun(
    state: SavedState | None,
    *numbers: int,
    now_s: float = LATER_S,
    wall: float | None = None,
    by: Rules = RULES,
) -> Fleet:
    """Return what a next master takes up, thirty seconds later."""
    found = Recovered(tuple(running(n, adopted=True) for n in numbers))
    return begin(NEXT, state, found, by, now_s=now_s, at=at(now_s) if wall is None else wall)


def test_an_unchanged_fleet_saves_the_same() -> None:
    """Time alone is no change, so nothing is written for it."""
    some = fleet(ready(1), draining(2), strikes=1, retry_s=NOW_S + 1.0, changed_s=NOW_S)
    assert saved(some, PAST_S) == saved(attrs.evolve(some, short_s=NOW_S), PAST_S)


def test_what_people_and_policies_decided_survives() -> None:
    """Sizes, limits, pause, counters, cooldown, back-off, decisions."""
    decisions = tuple(Decision(float(n), n, n, "scale", "") for n in range(15))
    some = fleet(
        ready(1),
        desired=3,
        next_number=12,
        spec_revision=7,
        wish_revision=9,
        manual=3,
        min=1,
        max=5,
        pause=Pause(AT + 60.0, "test"),
        changed_s=NOW_S - 5.0,
        strikes=2,
        retry_s=NOW_S + 40.0,
        halted="five failures",
        decisions=decisions,
    )
    after = begun(saved(some, PAST_S), 1)
    same = ("desired", "next_number", "spec_revision", "wish_revision", "manual", "min", "max")
    for key in (*same, "pause", "strikes", "halted", "changed_s", "retry_s", "ending"):
        assert getattr(after, key) == getattr(some, key), key
    assert after.decisions == decisions[5:]
    assert (after.view.epoch, after.view.revision) == (NEXT, 5)


def test_a_fleet_that_ends_goes_on_ending() -> None:
    """`down` is never forgotten."""
    assert begun(saved(fleet(ending=True), PAST_S)).ending


def test_drains_go_on_with_their_original_time() -> None:
    """Their limit is not granted anew; reasons and marks stay."""
    some = fleet(
        draining(1, since_s=NOW_S - 4.0, reason="not needed any more"),
        draining(2, condemned=True, reason="silent"),
        draining(3, evicted=True),
        draining(4, stop_posted=True),
    )
    after = begun(saved(some, PAST_S), 1, 2, 3, 4)
    assert [i.state for i in after.instances] == [InstanceState.DRAINING] * 4
    assert (one(after, 1).since_s, one(after, 1).reason) == (NOW_S - 4.0, "not needed any more")
    assert one(after, 2).condemned
    assert one(after, 3).evicted
    assert [i.stop_posted for i in after.instances] == [False, False, False, True]
    assert [i.withdrawn_s for i in after.instances] == [None, None, None, LATER_S]


def test_what_served_starts_again_until_it_has_been_probed() -> None:
    """The view is incomplete as long; the recovery is told for each."""
    after = begun(saved(fleet(ready(1), draining(2)), PAST_S), 1, 2)
    first = one(after, 1)
    assert (first.state, first.since_s, first.adopted) == (InstanceState.STARTING, LATER_S, True)
    assert after.unprobed == {name(1)}
    assert (after.view.complete, after.view.members) == (False, ())
    assert codes(after) == ["TARN-1002", "TARN-1004", "TARN-1004"]


@pytest.mark.parametrize("numbers", [(), (2,)])
def test_a_view_of_nothing_to_probe_is_complete_at_once(numbers: tuple[int, ...]) -> None:
    """Nothing ran, or all of it drains."""
    assert begun(saved(fleet(draining(2)), PAST_S), *numbers).view.complete


def test_an_unknown_instance_is_taken_over_and_its_number_never_used_again() -> None:
    """The state was older than the instance."""
    after = begun(SavedState(desired=1, next_number=3), 1, 7)
    assert [i.id for i in after.instances] == [name(1), name(7)]
    assert after.next_number == 8
    assert begun(SavedState(desired=1, next_number=30), 7).next_number == 30


def test_stamps_from_the_future_are_clamped_to_the_present() -> None:
    """The wall clock was set back: no cooldown, drain or back-off lasts longer for it."""
    some = fleet(draining(1), changed_s=NOW_S, strikes=1, retry_s=NOW_S + 1.0)
    after = begun(saved(some, PAST_S), 1, wall=AT - 3600.0)
    assert after.changed_s == LATER_S
    assert one(after, 1).since_s == LATER_S
    assert after.retry_s == LATER_S + 60.0


def test_a_back_off_that_is_over_is_over() -> None:
    """And without strikes there is none."""
    assert begun(saved(fleet(strikes=1, retry_s=NOW_S + 1.0), PAST_S)).retry_s == LATER_S
    assert saved(fleet(retry_s=NOW_S), PAST_S).retry_at == 0.0
    assert begun(saved(fleet(), PAST_S)).changed_s is None


def test_followers_of_an_earlier_master_are_waited_for_from_the_first_moment() -> None:
    """Only required ones; each has one lease to be heard of again."""
    came, never = FollowerState(5, NOW_S, came=True), FollowerState()
    state = saved(fleet(followers={"lb": came, "notebook": came, "zk": never}), PAST_S)
    assert state.followers == {"lb", "notebook"}
    after = begun(state)
    expected = FollowerState(lease_until_s=LATER_S + 15.0, came=True)
    assert dict(after.followers) == {"lb": expected}


def test_the_name_of_a_follower_is_kept_for_its_principal_over_a_restart() -> None:
    """Else somebody else could be the first to speak for it; of names that the spec has only."""
    hers = FollowerState(5, NOW_S, came=True, held_by="the trusted proxy lb1")
    state = saved(fleet(followers={"lb": hers, "notebook": hers}), PAST_S)
    after = begun(state)
    assert after.followers.keys() == {"lb"}
    assert after.followers["lb"].held_by == "the trusted proxy lb1"
    word = Acknowledge(Applied("lb", after.epoch, 1, AT))
    given = {"now_s": LATER_S, "at": AT}
    with pytest.raises(RefusedError, match="belongs to the trusted proxy lb1"):
        apply_command(after, word, RULES, asker=Requester("r", "carol", "spnego"), **given)
    back, _ = apply_command(
        after, word, RULES, asker=Requester("r", "lb1", "trusted-proxy"), **given
    )
    assert back.followers["lb"].came


@pytest.mark.parametrize(
    ("replicas", "found", "desired"),
    [
        (ReplicasSpec(2, 8), 0, 2),
        (ReplicasSpec(2, 8), 5, 5),
        (ReplicasSpec(2, 4), 5, 4),
        (ReplicasSpec(0, 8, 3), 0, 3),
        (ReplicasSpec(0, 8, 3), 1, 3),
        (ReplicasSpec(0, 8, 0), 0, 0),
    ],
)
def test_without_a_saved_state_the_size_is_what_was_found_or_the_first_one(
    replicas: ReplicasSpec, found: int, desired: int
) -> None:
    """Within the limits; the decision says that it is the first."""
    after = begun(None, *range(1, found + 1), by=rules(replicas=replicas))
    assert after.desired == desired
    assert [(d.by, d.desired) for d in after.decisions] == [("start", desired)]
    assert after.spec_revision == 1


def test_beginning_and_saving_at_once_keeps_everything() -> None:
    """A master that dies at its first tick has forgotten nothing."""
    followers = {"lb": FollowerState(5, came=True)}
    some = fleet(
        ready(1),
        draining(2, reason="not needed any more"),
        draining(3, condemned=True, stop_posted=True),
        desired=1,
        manual=1,
        followers=followers,
        decisions=(Decision(AT, 1, 1, "scale", ""),),
    )
    state = saved(some, PAST_S)
    again = saved(begun(state, 1, 2, 3), at(LATER_S) - LATER_S)
    assert attrs.evolve(again, events=state.events) == state
    assert EPOCH < NEXT
