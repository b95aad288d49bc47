"""From zero: requests that wait wake a fleet that sleeps, and keep it awake for a while."""

from typing import Any

import attrs
import pytest
from given import AT, NOW_S, at, codes, fleet, ready, rules, step
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from world import World
from world import rules as world_rules

from tarn.domain import Decision, Demand, Known, Pause, Resume, Sample, Unknown, Wish
from tarn.domain.apply_command import apply_command
from tarn.domain.facts import Recovered
from tarn.domain.fleet import DemandReport, Fleet, Rules
from tarn.domain.memory import begin, saved
from tarn.domain.signals import Signals, fleet_view
from tarn.domain.sizing import DEMAND_HOLDS_S, fresh_demand, size
from tarn.domain.spec import ReplicasSpec, ScalingSpec, WindowSpec
from tarn_plugins.scaling.target import TargetPolicy, TargetSettings

RULES = rules(scaling=ScalingSpec(cooldown_s=60.0, down=WindowSpec(300.0)))
HASTY = rules(scaling=ScalingSpec(down=WindowSpec(0.0)))
NONE: Sample[Wish] = Known(Wish(None, "fixed"))
ZERO: Sample[Wish] = Known(Wish(0, "idle"))


def asleep(waiting: int = 2, heard_s: float = NOW_S, **more: Any) -> Fleet:
    """Return a fleet of size 0 at which requests wait."""
    return fleet(desired=0, demand=DemandReport("lb1", waiting, heard_s), **more)


def sized(some: Fleet, wish: Sample[Wish] = NONE, now_s: float = NOW_S, by: Rules = RULES) -> Fleet:
    return size(some, by, wish, now_s, at(now_s))


def test_requests_that_wait_wake_a_fleet_of_size_zero() -> None:
    """One replica, with the reason in words, an event of its own, and no cooldown begun."""
    some = sized(asleep())
    assert some.decisions == (Decision(AT, 1, 1, "demand", "2 requests wait at lb1", number=1),)
    assert (some.desired, some.changed_s, codes(some)) == (1, None, ["TARN-1204"])
    assert sized(asleep(1)).decisions[0].reason == "1 request waits at lb1"


@pytest.mark.parametrize("wish", [NONE, ZERO, Unknown("the policy raised")])
def test_no_policy_and_no_cooldown_stands_in_the_way(wish: Sample[Wish]) -> None:
    """Nothing that a policy looks at can move at zero."""
    assert sized(asleep(changed_s=NOW_S - 1.0), wish).desired == 1


@pytest.mark.parametrize(
    "held",
    [
        {"manual": 0},
        {"ending": True},
        {"pause": Pause(AT + 60.0)},
        {"max": 0},
        {"heard_s": NOW_S - DEMAND_HOLDS_S},
    ],
)
def test_a_person_a_pause_the_limits_and_age_hold_it_asleep(held: dict[str, Any]) -> None:
    """Demand is weaker than whatever people said, and is forgotten."""
    assert sized(asleep(**held)).desired == 0


def test_a_ceiling_of_zero_holds_it_asleep() -> None:
    """The farm grants nothing."""
    assert sized(asleep(), by=rules(ceiling=0)).desired == 0


def test_refused_requests_wake_one_instance_and_are_no_concurrency() -> None:
    """One client that tries again each 10 ms is refused 79 times: one instance, and no more."""
    some, _ = apply_command(fleet(desired=0), Demand("lb1", 0, 79), RULES, now_s=NOW_S, at=AT)
    assert some.demand == DemandReport("lb1", 0, NOW_S, 79)
    view = fleet_view(some, RULES, Signals(), NOW_S)
    assert view.waiting == 0
    assert TargetPolicy(TargetSettings(target=0.75)).wanted(view).replicas is None
    woken = sized(some)
    assert (woken.desired, woken.decisions[0].reason) == (1, "79 requests were refused at lb1")
    both = DemandReport("lb1", 1, NOW_S, 1)
    assert both.said == "1 request waits and 1 request was refused"


def test_a_fleet_that_is_awake_does_not_grow_by_demand() -> None:
    """How many it needs is the policy's to say."""
    some = fleet(ready(1), demand=DemandReport("lb1", 99, NOW_S))
    assert sized(some) is some


def test_what_was_woken_stays_for_the_policys_window() -> None:
    """A policy that wants nothing takes it away only after `scaling.down`."""
    some = sized(asleep(), ZERO)
    assert sized(some, ZERO, NOW_S + 299.9).desired == 1
    after = sized(some, ZERO, NOW_S + 300.0)
    assert (after.desired, after.decisions[-1].by) == (0, "policy fixed")


def test_more_than_one_goes_down_to_one_and_says_why() -> None:
    """The last one is what the demand keeps."""
    some = sized(attrs.evolve(asleep(), desired=3), ZERO, NOW_S, HASTY)
    said = some.decisions[-1]
    assert (some.desired, said.wanted) == (1, 0)
    assert said.held_back == "requests that waited for it a short while ago, 10 s left"


def test_a_window_of_nothing_still_keeps_it_while_the_demand_is_fresh() -> None:
    """Or it would be ended before its start is over."""
    some = sized(asleep(), by=HASTY)
    assert sized(some, ZERO, NOW_S + DEMAND_HOLDS_S - 0.1, HASTY).desired == 1
    assert sized(some, ZERO, NOW_S + DEMAND_HOLDS_S, HASTY).desired == 0


def test_after_an_hour_asleep_it_still_wakes() -> None:
    """And launches in the very tick."""
    some = fleet(desired=0)
    for minute in range(60):
        some = step(some, RULES, NOW_S + 60.0 * minute, wish=NONE)
    assert not some.instances
    later_s = NOW_S + 3600.0
    some, _ = apply_command(some, Demand("lb1", 1), RULES, now_s=later_s, at=at(later_s))
    some = step(some, RULES, later_s, wish=NONE)
    assert [i.state for i in some.instances] == ["requested"]
    assert some.spec_revision == 1


def test_the_next_master_keeps_it_awake() -> None:
    """The decision that woke it is remembered; a later one is the policy's again."""
    some = sized(asleep())
    state = saved(some, AT - NOW_S)
    taken = begin(some.epoch, state, Recovered(()), RULES, now_s=5.0, at=AT + 900.0)
    taken = sized(taken, ZERO, 5.0)
    assert taken.desired == 1
    assert fresh_demand(taken, 5.0) is None  # nobody is named in what people are shown
    assert sized(taken, ZERO, 5.0 + 301.0).desired == 0
    later = attrs.evolve(state, decisions=(*state.decisions, Decision(AT, 1, 1, "scale", "")))
    assert begin(some.epoch, later, Recovered(()), RULES, now_s=5.0, at=AT).demand is None


def test_a_policy_sees_how_many_wait() -> None:
    """While the word is fresh."""
    some = asleep(7)
    assert fleet_view(some, RULES, Signals(), NOW_S).waiting == 7
    assert fleet_view(some, RULES, Signals(), NOW_S + 10.0).waiting == 0
    assert fleet_view(fleet(), RULES, Signals(), NOW_S).waiting == 0


@given(
    desired=st.integers(0, 8),
    low=st.integers(0, 8),
    high=st.integers(0, 8),
    ceiling=st.none() | st.integers(0, 8),
    manual=st.none() | st.integers(0, 8),
    ending=st.booleans(),
    paused=st.booleans(),
    age_s=st.none() | st.floats(0.0, 600.0),
    wanted=st.none() | st.integers(0, 12),
    cooled_s=st.none() | st.floats(0.0, 120.0),
)
def test_demand_never_breaks_a_limit_and_never_takes_away(  # noqa: PLR0917
    desired: int,
    low: int,
    high: int,
    ceiling: int | None,
    manual: int | None,
    ending: bool,
    paused: bool,
    age_s: float | None,
    wanted: int | None,
    cooled_s: float | None,
) -> None:
    """Against the same fleet without demand: equal, or at least as large, and within the limits."""
    by = rules(ceiling=ceiling, replicas=ReplicasSpec(min=min(low, high), max=high))
    plain = fleet(
        desired=desired,
        manual=manual,
        ending=ending,
        pause=Pause(AT + 60.0) if paused else None,
        changed_s=None if cooled_s is None else NOW_S - cooled_s,
    )
    demand = None if age_s is None else DemandReport("lb1", 1, NOW_S - age_s)
    wish = Known(Wish(wanted, ""))
    without = sized(plain, wish, by=by).desired
    some = sized(attrs.evolve(plain, demand=demand), wish, by=by)
    limits = some.limits(by)
    assert without <= some.desired <= max(without, 1)
    assert some.desired == without or limits.clamp(some.desired) == some.desired
    if demand is None or ending or manual is not None:
        assert some.desired == without


@settings(max_examples=50, deadline=None, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 2**32))
def test_whatever_goes_wrong_a_request_that_waits_gets_an_instance(seed: int) -> None:
    """Lost wishes, crashes, masters that restart; nothing but the size of one is ever asked for."""
    world = World(seed, world_rules(initial=0, min=0, max=2))
    for turn in range(400):
        world.kind = turn < 200
        if not world.fleet.view.members:
            word = Demand("lb1", 1)
            world.fleet, done = apply_command(
                world.fleet, word, world.rules, now_s=world.now_s, at=world.now_s
            )
            assert done.spec_revision == 1
        world.step()
        assert world.fleet.desired <= 1
        if turn == 200:
            world.fleet, _ = apply_command(
                world.fleet, Resume(), world.rules, now_s=world.now_s, at=0.0
            )
            world.fleet = attrs.evolve(world.fleet, spec_revision=1)
    assert len(world.fleet.view.members) == 1
