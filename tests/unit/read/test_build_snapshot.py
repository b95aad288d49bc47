"""What readers see of a fleet."""

import attrs

from tarn.control.issues import of_fleet, of_policy
from tarn.domain import (
    ClusterState,
    DiscoveryView,
    Endpoint,
    Epoch,
    Instance,
    InstanceState,
    Issue,
    Known,
    Member,
    Wish,
)
from tarn.domain.fleet import Fleet, FollowerState, Rules
from tarn.domain.outlook import Prospect, WaitsFor
from tarn.read.snapshot import Follower, SnapshotInputs, blank_snapshot, build_snapshot
from tarn.testing.context import cluster_spec

EPOCH = Epoch(1, 1)
RULES = Rules(cluster_spec("w"), "hash", frozenset({"lb", "zk"}))
VIEW = DiscoveryView(EPOCH, 3, True, (Member("w-0001", "c1", Endpoint("h", 1, 2, 3), "hash"),))
FLEET = Fleet("w", EPOCH, 1, view=VIEW)


def test_the_first_picture_can_be_mistaken_for_nothing_that_serves() -> None:
    """Nobody who waits for a ready cluster is told one before the first tick."""
    first = blank_snapshot(EPOCH, RULES, 5.0)
    assert (first.state, first.ready, first.stale) == (ClusterState.SUBMITTED, 0, True)
    assert first.instances_text == b""


def test_the_first_picture_removes_nothing() -> None:
    """The API listens before the first tick: a follower that is quick asks in between."""
    first = blank_snapshot(Epoch(1, 2), RULES, 5.0).view
    assert (first.complete, first.members) == (False, ())


def test_bytes_that_cannot_have_changed_are_not_rendered_again() -> None:
    """``/instances`` by view."""
    one = build_snapshot(FLEET, RULES, SnapshotInputs(10.0, 100.0), None)
    assert one.instances_text == b"h:1\n"
    two = build_snapshot(FLEET, RULES, SnapshotInputs(10.9, 100.9), one)
    assert two.instances_text is one.instances_text
    empty = attrs.evolve(FLEET, view=attrs.evolve(VIEW, members=()))
    assert build_snapshot(empty, RULES, SnapshotInputs(11.0, 101.0), two).instances_text == b""


def test_every_follower_is_shown_and_the_required_ones_even_before_they_come() -> None:
    """By name; with the age of their last word."""
    followers = {
        "lb": FollowerState(3, 4.0, 9.0, "no quorum", came=True, lost=True),
        "notebook": FollowerState(),
    }
    shown = build_snapshot(
        attrs.evolve(FLEET, followers=followers), RULES, SnapshotInputs(10.0, 100.0), None
    )
    assert shown.followers == (
        Follower("lb", True, 3, 6.0, True, "no quorum"),
        Follower("notebook", False, -1, None),
        Follower("zk", True, -1, None),
    )


def test_required_followers_that_are_lost_or_never_came_are_troubles() -> None:
    """The faults, open to all, name nobody; thirty seconds are granted for coming."""
    lost = {"lb": FollowerState(3, came=True, lost=True)}
    some = attrs.evolve(FLEET, followers=lost, started_s=0.0)
    early = list(of_fleet(some, RULES, 29.9))
    fault = (
        "a required follower is lost; drains wait a longer fixed time instead of its "
        "acknowledgement"
    )
    found = "follower lb is lost: its lease ran out"
    assert early == [Issue("lb", found, code="TARN-1301", public=fault, noted=True)]
    late = list(of_fleet(some, RULES, 30.0))
    found = "follower zk never came; drains do not wait for it"
    assert late == [*early, Issue("zk", found, code="TARN-1302")]
    heard = {"lb": FollowerState(3, came=True), "zk": FollowerState()}
    never = list(of_fleet(attrs.evolve(some, followers=heard), RULES, 30.0))
    assert [t.subject for t in never] == ["zk"]


def test_a_picture_tells_what_is_waited_for_and_what_holds_the_fleet() -> None:
    """For `tarn why`: only those that wait, and the policy's wish."""
    ready = Instance("w-0001", "hash", InstanceState.READY, endpoint=Endpoint("h", 1, 2, 3))
    asked = Instance("w-0002", "hash")
    around = SnapshotInputs(
        10.0,
        100.0,
        issues=(Issue("w", "the policy hangs", code="TARN-1012"),),
        wish=Known(Wish(3, "queue 40 ms")),
    )
    shown = build_snapshot(attrs.evolve(FLEET, instances=(ready, asked)), RULES, around, None)
    assert shown.prospects == {"w-0002": Prospect(WaitsFor.PLACE)}
    size = shown.holds.size
    assert (size.policy, size.wanted, size.reason) == ("fixed", 3, "queue 40 ms")
    assert (size.desired, size.next_size) == (FLEET.desired, 3)
    assert shown.issues == around.issues


def test_a_policy_without_an_answer_is_one_trouble() -> None:
    """The fault, open to all, does not say what the policy wrote."""
    assert list(of_policy("", "w")) == []
    (issue,) = of_policy("it raised KeyError: 'alice'", "w")
    assert "alice" not in issue.public
    assert issue.found == "the scaling policy has no answer: it raised KeyError: 'alice'"
