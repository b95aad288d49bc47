"""Sessions at followers: a drain does not end while a load balancer still has some open to it."""

from typing import Any

import attrs
import pytest
from given import AT, EPOCH, NOW_S, codes, draining, fleet, name, one, ready, rules
from hypothesis import given
from hypothesis import strategies as st

from tarn.domain import Applied, Ended, ExitStatus, Instance, InstanceState, Known, Unknown
from tarn.domain.apply_plan import apply_plan
from tarn.domain.fleet import Fleet, FollowerState
from tarn.domain.fold_facts import fold_facts
from tarn.domain.follow_up import acknowledged, open_sequences, open_sessions
from tarn.domain.outlook import Prospect, WaitsFor, prospect
from tarn.domain.plan import plan

RULES = rules(required=("lb1",))
WITHDRAWN_S = NOW_S + 1.0
QUIET_S = NOW_S + 5.0
"""The withdrawal and the quiesce are over, and the instance was read since."""
LIMIT_S = NOW_S + 20.0


def left(**more: Any) -> Instance:
    """Return a drain that every follower has taken out, and that says that it is quiet."""
    values = {"left_revision": 6, "withdrawn_s": WITHDRAWN_S, "busy_s": QUIET_S}
    return draining(1, **(values | more))


def counted(sessions: int | None, **more: Any) -> FollowerState:
    """Return a follower whose newest word, after it took the instance out, counts *sessions*."""
    values: dict[str, Any] = {"revision": 6, "came": True, "counted_s": WITHDRAWN_S + 1.0}
    named = {} if sessions is None else {name(1): sessions}
    return FollowerState(sessions=named, **(values | more))


def of(lb1: FollowerState, instance: Instance | None = None) -> Fleet:
    return fleet(left() if instance is None else instance, desired=0, followers={"lb1": lb1})


def stops(some: Fleet, now_s: float = QUIET_S) -> bool:
    return bool(plan(some, RULES, now_s).stop)


@pytest.mark.parametrize(("sessions", "may"), [(None, True), (0, True), (1, False), (7, False)])
def test_a_drain_waits_for_the_end_of_its_sessions(sessions: int | None, may: bool) -> None:
    """A follower that says nothing of the instance is not waited for."""
    assert stops(of(counted(sessions))) is may


def test_sessions_alone_do_not_end_a_drain() -> None:
    """What the instance says of itself, and the quiesce, count as before."""
    done = counted(0)
    assert not stops(of(done, left(busy=Known(1.0))))
    assert not stops(of(done, left(busy=Unknown("no answer"))))
    assert not stops(of(done, left(withdrawn_s=None)))
    assert not stops(of(done), WITHDRAWN_S + 1.9)


def test_the_limit_of_a_drain_cuts_sessions() -> None:
    """Sharp, and whatever is open."""
    assert not stops(of(counted(9)), LIMIT_S - 0.01)
    assert stops(of(counted(9)), LIMIT_S)


@pytest.mark.parametrize(
    ("follower", "instance"),
    [
        (counted(1, lost=True), left()),
        (counted(1), left(condemned=True)),
        (counted(1), left(gone=True)),
    ],
)
def test_who_is_lost_broken_or_gone_is_not_waited_for(
    follower: FollowerState, instance: Instance
) -> None:
    """There is nobody to finish them."""
    assert stops(of(follower, instance))


def test_a_follower_that_is_not_required_is_heard_too() -> None:
    """It is alive and says that it would lose something."""
    some = fleet(left(), desired=0, followers={"other": counted(2), "lb1": counted(0)})
    assert open_sessions(one(some, 1), some) == (("other", 2),)
    assert not stops(some)


def test_no_session_counts_only_after_it_was_taken_out() -> None:
    """Before, one could begin in the next moment: its next word is waited for."""
    early = counted(0, revision=5, counted_s=WITHDRAWN_S - 0.1)
    assert not stops(of(early))
    assert stops(of(attrs.evolve(early, counted_s=WITHDRAWN_S)))
    assert stops(of(attrs.evolve(early, revision=6)))


def word(at: float, *sessions: tuple[str, int], error: str = "") -> Applied:
    return Applied("lb1", EPOCH, 5, at, error, sessions)


def test_the_newest_word_replaces_the_one_before() -> None:
    """Also one with an error: sessions are open whatever it could not apply."""
    first, second = name(1), name(2)
    some = fleet(ready(1), ready(2))
    some = acknowledged(some, word(AT, (first, 1), (second, 2)), NOW_S, AT, lease_s=15.0)
    assert (some.followers["lb1"].sessions, some.followers["lb1"].counted_s) == (
        {first: 1, second: 2},
        NOW_S,
    )
    some = acknowledged(some, word(AT, (second, 1), error="x"), NOW_S + 1.0, AT, lease_s=15.0)
    assert some.followers["lb1"].sessions == {second: 1}
    some = acknowledged(some, word(AT), NOW_S + 2.0, AT, lease_s=15.0)
    assert some.followers["lb1"].sessions == {}


def test_sessions_at_an_instance_that_is_found_late_are_known_then() -> None:
    """Those at one that never was are nobody's: a follower cannot make the master keep anything."""
    late, never = name(1), name(9)
    some = attrs.evolve(fleet(), next_number=2)
    said = word(AT, (late, 2), (never, 2), ("x", 1), (f"{late}x", 1))
    some = acknowledged(some, said, NOW_S, AT, lease_s=15.0)
    assert some.followers["lb1"].sessions == {late: 2}
    assert open_sessions(ready(1), some) == (("lb1", 2),)


def test_a_word_that_is_repeated_in_each_tick_says_itself_when_it_counted() -> None:
    """A discovery in this process: hearing it again does not make it newer."""
    again = acknowledged(fleet(), word(AT - 3.0, ("a", 0)), NOW_S, AT, lease_s=None)
    assert again.followers["lb1"].counted_s == NOW_S - 3.0
    ahead = acknowledged(fleet(), word(AT + 9.0, ("a", 0)), NOW_S, AT, lease_s=None)
    assert ahead.followers["lb1"].counted_s == NOW_S


def test_what_is_waited_for_names_the_sessions_and_where() -> None:
    """Until the limit of the drain."""
    some = fleet(left(), desired=0, followers={"lb1": counted(1), "lb2": counted(2)})
    waits = Prospect(WaitsFor.SESSIONS, LIMIT_S, ("lb1", "lb2"), 3)
    assert prospect(one(some, 1), some, RULES) == waits
    gone = of(counted(1), left(gone=True))
    assert prospect(one(gone, 1), gone, RULES) == Prospect(WaitsFor.QUIESCE, WITHDRAWN_S + 2.0)


@pytest.mark.parametrize(
    ("sessions", "noted", "receipt"),
    [
        (0, [], "0 cut"),
        (1, ["TARN-1109"], "1 cut at drain.timeout"),
        (2, ["TARN-1109"], "2 cut at drain.timeout"),
    ],
)
def test_the_receipt_counts_the_sessions_that_were_cut(
    sessions: int, noted: list[str], receipt: str
) -> None:
    """And a warning names where they were."""
    some = of(counted(sessions))
    some = apply_plan(some, plan(some, RULES, LIMIT_S), RULES, LIMIT_S, AT)
    assert codes(some) == noted
    if sessions == 2:
        assert some.events[0].message == "2 sessions still open at lb1 after 20 s"
    over = fold_facts(some, (Ended(name(1), "hash", ExitStatus("ended", 0)),), LIMIT_S, AT)
    before = "drained: requests unknown in 20.0 s, lost unknown, "
    reason = f"{before}{receipt}; lb1 acknowledged 1.6"
    assert (one(over, 1).state, one(over, 1).reason) == (InstanceState.STOPPED, reason)


def test_the_receipt_says_how_many_of_them_were_sequences() -> None:
    """A follower that is lost, or an instance that is gone, keeps none."""
    some = of(counted(5, sequences={name(1): 3}))
    some = apply_plan(some, plan(some, RULES, LIMIT_S), RULES, LIMIT_S, AT)
    told = "5 sessions, 3 of them sequences, still open at lb1 after 20 s"
    assert some.events[0].message == told
    over = fold_facts(some, (Ended(name(1), "hash", ExitStatus("ended", 0)),), LIMIT_S, AT)
    assert "5 cut at drain.timeout (3 of them sequences); lb1" in one(over, 1).reason
    lost = of(counted(5, sequences={name(1): 3}, lost=True))
    assert open_sequences(one(lost, 1), lost) == 0


def test_sequences_are_kept_of_what_a_follower_says() -> None:
    """As sessions are: only of instances that there are."""
    said = Applied("lb1", EPOCH, 5, AT, "", ((name(1), 2),), ((name(1), 2), (name(9), 1)))
    some = acknowledged(fleet(ready(1)), said, NOW_S, AT, lease_s=15.0)
    assert some.followers["lb1"].sequences == {name(1): 2}
    some = acknowledged(some, word(AT), NOW_S, AT, lease_s=15.0)
    assert some.followers["lb1"].sequences == {}


followers = st.builds(
    FollowerState,
    st.integers(-1, 8),
    lost=st.booleans(),
    came=st.booleans(),
    sessions=st.dictionaries(st.sampled_from([name(1), name(2)]), st.integers(0, 2)),
    counted_s=st.sampled_from([NOW_S - 5.0, WITHDRAWN_S, QUIET_S]),
)
drains = st.builds(
    left,
    busy=st.sampled_from([Known(0.0), Known(1.0), Unknown("")]),
    busy_s=st.sampled_from([None, WITHDRAWN_S, QUIET_S]),
    withdrawn_s=st.sampled_from([None, WITHDRAWN_S]),
    left_revision=st.none() | st.integers(4, 8),
    condemned=st.booleans(),
    gone=st.booleans(),
    stop_posted=st.booleans(),
)


@given(
    instance=drains,
    said=st.dictionaries(st.sampled_from(["lb1", "lb2"]), followers, max_size=2),
    now_s=st.sampled_from([QUIET_S, LIMIT_S - 0.01, LIMIT_S]),
)
def test_sessions_only_ever_make_a_drain_wait_and_never_beyond_its_limit(
    instance: Instance, said: dict[str, FollowerState], now_s: float
) -> None:
    """Against followers that count nothing: fewer stops before the limit, the same from it on."""
    some = fleet(instance, ready(2), desired=1, followers=said)
    dumb = {follower: attrs.evolve(f, sessions={}) for follower, f in said.items()}
    before = plan(attrs.evolve(some, followers=dumb), RULES, now_s).stop
    after = plan(some, RULES, now_s).stop
    assert after <= before
    if now_s >= LIMIT_S:
        assert after == before
    open_at = [f for f in said.values() if not f.lost and f.sessions.get(name(1))]
    if open_at and now_s < LIMIT_S and not (instance.condemned or instance.gone):
        assert not after


def test_sessions_of_instances_that_there_are_not_are_not_kept() -> None:
    """A word may name as many as its sender likes."""
    said = Applied("lb1", EPOCH, 6, AT, sessions=((name(1), 3), *((f"x-{n}", 1) for n in range(9))))
    after = acknowledged(of(FollowerState()), said, NOW_S, AT, lease_s=15.0)
    assert after.followers["lb1"].sessions == {name(1): 3}
