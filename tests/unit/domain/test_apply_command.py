"""What each command does, and when it is refused."""

from typing import Any

import attrs
import pytest
from given import AT, EPOCH, NOW_S, asked, codes, draining, fleet, name, one, ready, rules, starting

from tarn.domain import (
    Acknowledge,
    Adapt,
    Applied,
    Command,
    Demand,
    Done,
    Down,
    Drain,
    InstanceState,
    Pause,
    PauseScaling,
    Requester,
    Resume,
    Scale,
)
from tarn.domain.apply_command import MOST_FOLLOWERS, MOST_NAMES, apply_command
from tarn.domain.fleet import DemandReport, Fleet, FollowerState, Rules
from tarn.domain.follow_up import acknowledged
from tarn.domain.memory import saved
from tarn.domain.spec import UpdateSpec
from tarn.errors import ConflictError, NotFoundError, RefusedError

RULES = rules()
WORD = Acknowledge(Applied("lb", EPOCH, 5, AT), lease_s=20.0)


def after(
    some: Fleet, command: Command, if_match: int | None = None, at: float = AT
) -> tuple[Fleet, Done]:
    return apply_command(some, command, RULES, now_s=NOW_S, at=at, if_match=if_match)


def test_a_size_by_hand_is_kept_until_it_is_given_back() -> None:
    """Each ask moves the spec revision by one, and the answer carries it."""
    some, done = after(fleet(desired=1), Scale(4))
    assert (some.manual, done) == (4, Done(2, "4 replicas, by hand"))
    some, done = after(some, Scale(None))
    assert (some.manual, done) == (None, Done(3, "the policy decides the size"))


@pytest.mark.parametrize("replicas", [-1, 9])
def test_a_size_outside_the_limits_is_refused_with_the_limits(replicas: int) -> None:
    """And with how to change them."""
    with pytest.raises(RefusedError, match=r"0 to 8 are allowed.*tarn adapt --min N --max M"):
        after(fleet(), Scale(replicas))


def test_the_limits_themselves_are_allowed() -> None:
    """Both ends; `adapt` moves them."""
    for replicas in (0, 8):
        assert after(fleet(), Scale(replicas))[0].manual == replicas
    wide, _ = after(fleet(), Adapt(max=20))
    assert after(wide, Scale(20))[0].manual == 20


def test_adapt_gives_the_size_to_the_policy_between_bounds() -> None:
    """A bound that is not given stays."""
    some, done = after(fleet(manual=3), Adapt(min=2))
    assert (some.manual, some.min, some.max) == (None, 2, 8)
    assert done.message == "the policy decides, 2 to 8"
    assert after(some, Adapt(max=4))[1].message == "the policy decides, 2 to 4"


@pytest.mark.parametrize("bounds", [Adapt(min=9), Adapt(max=-1), Adapt(5, 4), Adapt(-1, 4)])
def test_bounds_that_cannot_be_meant_are_refused(bounds: Adapt) -> None:
    """With the present limits."""
    with pytest.raises(RefusedError, match="the limits are now 0 to 8"):
        after(fleet(), bounds)


def test_a_pause_has_an_end_and_a_reason() -> None:
    """Wall time, for it must outlive the master."""
    some, done = after(fleet(), PauseScaling(60.0, "load test"))
    assert some.pause == Pause(AT + 60.0, "load test")
    assert done.message == "paused for 60 s: load test"
    assert codes(some) == ["TARN-1201"]
    assert after(fleet(), PauseScaling(60.0))[1].message == "paused for 60 s"


@pytest.mark.parametrize(
    "held",
    [
        {"pause": Pause(AT + 60.0)},
        {"halted": "five failures", "strikes": 5, "retry_s": NOW_S + 60.0},
        {"strikes": 2, "retry_s": NOW_S + 2.0},
        {"frozen_s": NOW_S},
    ],
)
def test_resume_ends_whatever_holds(held: object) -> None:
    """A pause, giving up, a back-off, a freeze."""
    some, done = after(fleet(ready(1), **held), Resume())  # type: ignore[arg-type]
    assert done == Done(2, "resumed")
    assert (some.pause, some.halted, some.strikes, some.retry_s) == (None, "", 0, 0.0)
    assert some.frozen_s is None
    assert codes(some) == ["TARN-1202"]


def test_resume_of_nothing_says_so_and_moves_nothing() -> None:
    """A back-off that is long past is nothing."""
    some = fleet(retry_s=NOW_S - 60.0)
    assert after(some, Resume()) == (some, Done(1, "nothing was paused, halted or frozen"))


def test_drain_withdraws_an_instance_for_good() -> None:
    """It is replaced, and never taken back."""
    some, done = after(fleet(ready(1), ready(2)), Drain(name(1), now=True))
    first = one(some, 1)
    assert (first.state, first.evicted, first.stop_posted) == (InstanceState.DRAINING, True, False)
    assert (done.message, codes(some)) == ("w-0001 drains", ["TARN-1103"])
    assert after(some, Drain(name(1))) == (some, Done(2, "w-0001 is draining already"))


def test_drain_of_the_only_one_that_serves_says_what_it_costs() -> None:
    """It leaves before its replacement is there."""
    _, done = after(fleet(ready(1), starting(2)), Drain(name(1), now=True))
    assert done.message == (
        "w-0001 drains; it was the only one that served, so requests fail or wait, as the load "
        "balancer or client does, until its replacement is ready"
    )


def test_drain_starts_a_replacement_first() -> None:
    """It serves on; a second word for it is the same, and it is saved for the next master."""
    some, done = after(fleet(ready(1), desired=1), Drain(name(1)))
    first = one(some, 1)
    assert (first.in_view, first.retiring, codes(some)) == (True, 2, ["TARN-1117"])
    assert done.message == (
        "w-0001 serves until a replacement does, then drains; "
        "`tarn drain w-0001 --now` does not wait for it"
    )
    assert after(some, Drain(name(1)))[0] is some
    assert saved(some, 0.0).retiring == {name(1): 2}
    assert one(after(some, Drain(name(1), now=True))[0], 1).state is InstanceState.DRAINING


@pytest.mark.parametrize(
    ("by", "more", "why"),
    [
        (rules(update=UpdateSpec(surge=0, max_unavailable=1)), {}, "`update.surge` is 0"),
        (rules(ceiling=1), {}, r"the ceiling is 1 \(the pool is full\)"),
        (RULES, {"halted": "five failures"}, r"launching is given up \(five failures\)"),
    ],
)
def test_drain_without_room_for_a_replacement_is_refused_with_the_way(
    by: Rules, more: dict[str, Any], why: str
) -> None:
    """Nobody gets an outage that was not asked for."""
    some = fleet(ready(1), desired=1, **more)
    ask = Drain(name(1))
    with pytest.raises(RefusedError, match=f"can start first: {why}.*w-0001 --now` does not wait"):
        apply_command(some, ask, by, now_s=NOW_S, at=AT)
    enough = fleet(ready(1), ready(2), desired=1, **more)
    assert apply_command(enough, ask, by, now_s=NOW_S, at=AT)[1].message == "w-0001 drains"


def test_drain_of_an_ask_cancels_it() -> None:
    """There is nothing to finish; a starting one stops by the plan."""
    assert one(after(fleet(asked(1)), Drain(name(1)))[0], 1).stop_posted
    assert not one(after(fleet(starting(1)), Drain(name(1)))[0], 1).stop_posted


def test_drain_of_a_surplus_one_keeps_its_time_and_takes_its_way_back() -> None:
    """It drains since before; now a person wants it gone."""
    surplus = draining(1, since_s=NOW_S - 5.0, stop_posted=True)
    some, _ = after(fleet(surplus), Drain(name(1)))
    assert one(some, 1) == attrs.evolve(surplus, evicted=True)


def test_drain_of_a_stranger_names_who_is_there() -> None:
    """At most ten."""
    with pytest.raises(NotFoundError, match=r"there is no instance 'x'.*Alive: none"):
        after(fleet(), Drain("x"))
    with pytest.raises(NotFoundError, match=r"Alive: w-0001, w-0002$"):
        after(fleet(ready(1), ready(2)), Drain("x"))
    with pytest.raises(NotFoundError, match=r"w-0010 and 2 more$"):
        after(fleet(*(ready(n) for n in range(1, 13))), Drain("x"))


def test_down_ends_the_cluster_and_a_second_one_says_so() -> None:
    """A freeze must not hold what must end."""
    some, done = after(fleet(ready(1), frozen_s=NOW_S), Down())
    assert (some.ending, some.frozen_s, done.message) == (True, None, "it ends")
    assert codes(some) == ["TARN-1203"]
    assert after(some, Down()) == (some, Done(2, "it is ending already"))


@pytest.mark.parametrize(
    "command", [Scale(1), Adapt(), PauseScaling(1.0), Resume(), Drain(name(1))]
)
def test_a_cluster_that_ends_obeys_nothing_else(command: Command) -> None:
    """`up` starts it again."""
    with pytest.raises(RefusedError, match="w is ending"):
        after(fleet(ready(1), ending=True), command)


def test_a_follower_is_heard_even_while_the_cluster_ends() -> None:
    """Its drains wait for the word; no revision moves, and none is asked for."""
    some, done = after(fleet(ready(1), ending=True), WORD, if_match=99)
    assert some.followers["lb"].lease_until_s == NOW_S + 20.0
    assert done == Done(1, "view revision 5")


@pytest.mark.parametrize(
    "command", [Scale(1), Adapt(), PauseScaling(1.0), Resume(), Drain(name(1)), Down()]
)
def test_a_command_for_another_revision_is_refused_with_the_present_one(command: Command) -> None:
    """Somebody else was first; with the right revision it is obeyed."""
    some = fleet(ready(1), spec_revision=7)
    for stale in (6, 8):
        with pytest.raises(ConflictError, match=f"is 7, not {stale}") as refused:
            after(some, command, if_match=stale)
        assert refused.value.spec_revision == 7
    assert after(some, command, if_match=7)[1].spec_revision in (7, 8)


def test_a_demand_is_heard_and_is_no_ask() -> None:
    """Like a follower's word it moves no revision and minds none; the next tick decides."""
    some, done = after(fleet(desired=0), Demand("lb1", 2), if_match=99)
    assert some.demand == DemandReport("lb1", 2, NOW_S)
    assert done == Done(1, "heard")
    assert (
        after(fleet(manual=0), Demand("lb1", 2))[1].message
        == "the demand was noted, but a person set 0 replicas"
    )


@pytest.mark.parametrize("some", [fleet(ending=True), fleet()])
def test_a_demand_of_nobody_or_on_a_cluster_that_ends_changes_nothing(some: Fleet) -> None:
    """It is answered all the same: who reports is not at fault."""
    waiting = 3 if some.ending else 0
    assert after(some, Demand("lb1", waiting))[0] is some


def test_followers_are_not_without_number() -> None:
    """Whoever may follow makes no master carry names without end; the spec's own always may."""
    some = fleet(followers={f"pod-{n}": FollowerState() for n in range(MOST_FOLLOWERS)})
    required = rules(required=("lb1",))

    def word(who: str) -> Fleet:
        said = Acknowledge(Applied(who, EPOCH, 1, AT))
        return apply_command(some, said, required, now_s=NOW_S, at=AT)[0]

    with pytest.raises(RefusedError, match="1000 may follow"):
        word("one-more")
    assert "lb1" in word("lb1").followers
    assert len(word("pod-1").followers) == MOST_FOLLOWERS


def test_no_agent_speaks_for_the_masters_own_discovery() -> None:
    """Its word would end a drain for which the discovery has done nothing yet."""
    own = acknowledged(fleet(), Applied("zookeeper", EPOCH, 1, AT), NOW_S, AT, lease_s=None)
    with pytest.raises(RefusedError, match="the master itself runs"):
        after(own, Acknowledge(Applied("zookeeper", EPOCH, 5, AT)))
    assert after(own, WORD)[0].followers.keys() == {"zookeeper", "lb"}


LB, CAROL = Requester("r1", "lb1", "trusted-proxy"), Requester("r2", "carol", "spnego")


def follow(some: Fleet, who: Requester | None, called: str = "lb", now_s: float = NOW_S) -> Fleet:
    """Return *some* after *who* acknowledged as *called*; the spec names ``lb``."""
    said = Acknowledge(Applied(called, EPOCH, 5, AT), lease_s=15.0)
    return apply_command(some, said, rules(required=("lb",)), now_s=now_s, at=AT, asker=who)[0]


def test_a_followers_name_belongs_to_its_first_principal_while_its_lease_lasts() -> None:
    """From whatever address and by whatever request it comes; nobody else speaks for it."""
    some = follow(follow(fleet(), LB), attrs.evolve(LB, request="r9", address="10.0.0.9"))
    with pytest.raises(RefusedError, match="belongs to the trusted proxy lb1, not to the user"):
        follow(some, CAROL)
    for other in (Requester("r", "owner", "token"), Requester("r", "lb1", "spnego"), None):
        with pytest.raises(RefusedError) as caught:
            follow(some, other)
        assert caught.value.code == "TARN-1312"
    assert follow(some, LB, now_s=NOW_S + 14).followers["lb"].revision == 5


def test_a_name_that_is_not_of_the_spec_is_free_once_its_lease_ran_out() -> None:
    """Machines come and go with their names."""
    some = follow(fleet(), LB, "pod")
    with pytest.raises(RefusedError, match="wait 1 s"):
        follow(some, CAROL, "pod", NOW_S + 14.5)
    assert follow(some, CAROL, "pod", NOW_S + 15).followers["pod"].held_by == "the user carol"


def test_a_name_of_the_spec_is_kept_longer_for_its_principal() -> None:
    """A drain would go by the word of whoever took it while its follower was away for a moment."""
    some = follow(fleet(), LB)
    with pytest.raises(RefusedError, match="belongs to the trusted proxy lb1"):
        follow(some, CAROL, now_s=NOW_S + 15 + 299)
    assert follow(some, CAROL, now_s=NOW_S + 315).followers["lb"].held_by == "the user carol"


def test_one_principal_takes_no_place_of_the_others() -> None:
    """So many names, and no more; who is there already goes on, and so does the spec's own."""
    some = fleet()
    for number in range(MOST_NAMES):
        some = follow(some, CAROL, f"carol-{number}")
    with pytest.raises(RefusedError) as caught:
        follow(some, CAROL, "one-more")
    assert caught.value.code == "TARN-1322"
    assert "the user carol already follows w under 100 names" in str(caught.value)
    assert len(follow(some, CAROL, "carol-7").followers) == MOST_NAMES
    assert {"dave-1", "carol-7"} < follow(
        some, Requester("r", "dave", "spnego"), "dave-1"
    ).followers.keys()
    assert "lb" in follow(some, CAROL).followers
