"""Which step comes next."""

import attrs
import pytest
from given import NOW_S, asked, draining, fleet, name, ready, rules, starting

from tarn.domain import Instance, Known, Unknown
from tarn.domain.plan import Plan, plan

RULES = rules()


def ids(*numbers: int) -> frozenset[str]:
    return frozenset(name(n) for n in numbers)


def left(number: int, **more: object) -> Instance:
    """Return a drain that every follower acknowledged ten seconds ago."""
    values = {"withdrawn_s": NOW_S - 10.0, "busy_s": NOW_S}
    return draining(number, **(values | more))  # type: ignore[arg-type]


# Size.


def test_what_is_only_asked_for_is_not_asked_again() -> None:
    """Requested and starting ones count."""
    assert plan(fleet(asked(1), starting(2), ready(3)), RULES, NOW_S) == Plan()


def test_what_is_missing_is_launched() -> None:
    """Draining ones do not count."""
    some = fleet(ready(1), draining(2, evicted=True), desired=3)
    assert plan(some, RULES, NOW_S) == Plan(launch=2)


@pytest.mark.parametrize("reason", [{"halted": "five failures"}, {"retry_s": NOW_S + 0.1}])
def test_nothing_is_launched_after_giving_up_or_within_a_back_off(reason: object) -> None:
    """The back-off is sharp."""
    some = fleet(desired=2, **reason)  # type: ignore[arg-type]
    assert plan(some, RULES, NOW_S) == Plan()
    ended = attrs.evolve(some, halted="", retry_s=NOW_S)
    assert plan(ended, RULES, NOW_S) == Plan(launch=2)


def test_nothing_is_launched_while_the_cluster_ends() -> None:
    """Whatever the size says."""
    assert plan(fleet(desired=2, ending=True), RULES, NOW_S) == Plan()


def test_an_instance_is_admitted_once_it_serves() -> None:
    """No traffic before."""
    assert plan(fleet(starting(1)), RULES, NOW_S) == Plan()
    assert plan(fleet(starting(1, serving=True)), RULES, NOW_S) == Plan(admit=ids(1))


def test_the_least_valuable_go_first() -> None:
    """Asked for, starting, suspect, least busy, unknown; the newest of equals."""
    some = fleet(
        ready(1, busy=Known(0.0)),
        ready(2, busy=Known(0.0)),
        ready(3, busy=Known(5.0)),
        ready(4, busy=Unknown("late")),
        ready(5, busy=Known(9.0), suspect="no answer"),
        starting(6),
        starting(7, serving=True),
        asked(8),
    )
    order = [8, 7, 6, 5, 2, 1, 3, 4]
    for count in range(1, 9):
        step = plan(attrs.evolve(some, desired=8 - count), RULES, NOW_S)
        assert step.cancel | step.drain == ids(*order[:count])
        assert step.cancel == ids(8)
        assert step.admit == (frozenset() if count > 1 else ids(7))


def test_of_equals_the_newest_goes_even_beyond_four_digits() -> None:
    """Numbers are compared, not their text."""
    some = fleet(ready(9999), ready(10000), desired=1)
    assert plan(some, RULES, NOW_S) == Plan(drain=ids(10000))


# Return from draining.


def test_a_drain_that_is_needed_again_is_taken_back_instead_of_launching() -> None:
    """The rest is launched."""
    assert plan(fleet(draining(1), desired=1), RULES, NOW_S) == Plan(take_back=ids(1))
    assert plan(fleet(draining(1), desired=3), RULES, NOW_S) == Plan(take_back=ids(1), launch=2)


def test_drains_are_taken_back_even_within_a_back_off() -> None:
    """They cost no launch."""
    some = fleet(draining(1), desired=1, retry_s=NOW_S + 9.0, halted="five failures")
    assert plan(some, RULES, NOW_S) == Plan(take_back=ids(1))


def test_the_youngest_drain_that_nobody_has_withdrawn_returns_first() -> None:
    """It is still in most followers' tables; of two withdrawn ones the younger."""
    some = fleet(
        draining(1, since_s=NOW_S - 3.0),
        draining(2, since_s=NOW_S - 2.0),
        left(3, since_s=NOW_S - 1.0, busy=Known(1.0)),
        left(4, since_s=NOW_S - 9.0, busy=Known(1.0)),
    )
    for count, numbers in ((1, [2]), (2, [2, 1]), (3, [2, 1, 3]), (4, [2, 1, 3, 4])):
        step = plan(attrs.evolve(some, desired=count), RULES, NOW_S)
        assert step == Plan(take_back=ids(*numbers))


@pytest.mark.parametrize(
    "no_way_back",
    [
        {"stop_posted": True},
        {"condemned": True},
        {"evicted": True},
        {"ready_s": None},
        {"serving": False},
    ],
)
def test_some_drains_are_never_taken_back(no_way_back: object) -> None:
    """Its stop was posted, it is broken, a person wants it gone, or it does not serve."""
    some = fleet(draining(1, **no_way_back), desired=1)  # type: ignore[arg-type]
    step = plan(some, RULES, NOW_S)
    assert (step.launch, step.take_back) == (1, frozenset())


def test_what_is_taken_back_is_not_stopped() -> None:
    """Quiet and withdrawn, it is wanted again in the same tick."""
    assert plan(fleet(left(1), desired=1), RULES, NOW_S) == Plan(take_back=ids(1))


# Broken ones.


def test_a_start_deadline_is_sharp_and_says_why() -> None:
    """From the process to ready; Triton's own reason is passed on."""
    some = fleet(starting(1, reason="loading model 1 of 1: echo"))
    assert plan(some, RULES, NOW_S + 59.9) == Plan()
    why = "not ready 60 s after its start: loading model 1 of 1: echo"
    assert plan(some, RULES, NOW_S + 60.0) == Plan(launch=1, condemn=((name(1), why),))
    mute = plan(fleet(starting(1)), RULES, NOW_S + 60.0)
    assert mute.condemn == ((name(1), "not ready 60 s after its start: it never answered"),)


def test_an_ask_has_no_start_deadline() -> None:
    """Waiting for a free node is no fault."""
    assert plan(fleet(asked(1)), RULES, NOW_S + 9999.0) == Plan()


def test_a_silent_instance_is_replaced_after_thirty_seconds() -> None:
    """`replace_after` is sharp; the replacement is launched in the same step."""
    some = fleet(ready(1, silent_s=NOW_S, suspect="no answer for 3 s"), ready(2))
    assert plan(some, RULES, NOW_S + 29.9) == Plan()
    why = "silent for 30 s: no answer for 3 s"
    assert plan(some, RULES, NOW_S + 30.0) == Plan(launch=1, condemn=((name(1), why),))
    frozen = attrs.evolve(some, frozen_s=NOW_S)
    assert plan(frozen, RULES, NOW_S + 60.0) == Plan()
    gone = fleet(ready(1, silent_s=NOW_S, gone=True), frozen_s=NOW_S)
    condemned = ((name(1), "silent for 30 s: no answer"),)
    assert plan(gone, RULES, NOW_S + 30.0).condemn == condemned


def test_a_broken_instance_is_no_surplus() -> None:
    """Shrinking by one and losing one need one step each, not two for the same place."""
    some = fleet(ready(1, silent_s=NOW_S - 30.0), ready(2), ready(3), desired=2)
    step = plan(some, RULES, NOW_S)
    assert (step.launch, step.drain) == (0, frozenset())
    assert [id_ for id_, _ in step.condemn] == [name(1)]


# Stops.


def test_nothing_stops_before_the_followers_word() -> None:
    """Quiet, broken or late, it is still in somebody's view."""
    for flags in ({}, {"condemned": True}, {"evicted": True}):
        waiting = draining(1, busy_s=NOW_S, **flags)
        assert plan(fleet(waiting, desired=0), RULES, NOW_S + 999.0) == Plan()


def test_a_quiet_drain_stops_after_the_quiesce() -> None:
    """The look that found it quiet must be newer than the quiesce; both limits are sharp."""
    some = draining(1, withdrawn_s=NOW_S)
    early = attrs.evolve(some, busy_s=NOW_S + 1.9)
    fresh = attrs.evolve(some, busy_s=NOW_S + 2.0)
    assert plan(fleet(early, desired=0), RULES, NOW_S + 5.0) == Plan()
    assert plan(fleet(some, desired=0), RULES, NOW_S + 5.0) == Plan()
    assert plan(fleet(fresh, desired=0), RULES, NOW_S + 1.9) == Plan()
    assert plan(fleet(fresh, desired=0), RULES, NOW_S + 2.0) == Plan(stop=ids(1))


@pytest.mark.parametrize("busy", [Known(1.0), Known(0.5), Unknown("scrape timed out")])
def test_a_busy_drain_stops_at_the_limit_and_not_before(busy: object) -> None:
    """Executing requests are waited for; unknown is not quiet."""
    some = fleet(left(1, busy=busy, busy_s=NOW_S + 99.0), desired=0)
    assert plan(some, RULES, NOW_S + 19.9) == Plan()
    assert plan(some, RULES, NOW_S + 20.0) == Plan(stop=ids(1))


def test_a_condemned_one_waits_for_followers_and_for_nothing_else() -> None:
    """It is broken: neither the quiesce nor its requests hold it."""
    some = fleet(draining(1, condemned=True, withdrawn_s=NOW_S, busy=Known(9.0)), desired=0)
    assert plan(some, RULES, NOW_S) == Plan(stop=ids(1))


def test_one_that_was_never_in_a_view_stops_at_once() -> None:
    """It still loads, so it will not answer how busy it is; nobody can have sent it anything."""
    some = draining(1, ready_s=None, busy=Unknown("not scraped yet"))
    assert plan(fleet(some, desired=0), RULES, NOW_S) == Plan(stop=ids(1))
    adopted = attrs.evolve(some, adopted=True)
    assert plan(fleet(adopted, desired=0), RULES, NOW_S) == Plan()


def test_a_stop_is_planned_once() -> None:
    """It was posted; the runtime is at work."""
    assert plan(fleet(left(1, stop_posted=True), desired=0), RULES, NOW_S + 99.0) == Plan()


def test_a_stuck_start_is_given_up_after_two_seconds() -> None:
    """Long before the start deadline; a ready one is never judged so."""
    stuck = starting(1, stuck_s=NOW_S, reason="no weights")
    assert plan(fleet(stuck), rules(), NOW_S + 1.9).condemn == ()
    assert plan(fleet(stuck), rules(), NOW_S + 2.0).condemn == (("w-0001", "no weights"),)
    serving = ready(1, stuck_s=NOW_S)
    assert plan(fleet(serving), rules(), NOW_S + 9.0).condemn == ()


def test_a_recovered_instance_that_stays_silent_is_replaced_like_a_ready_one() -> None:
    """It served an earlier master: `replace_after` counts, not the start deadline."""
    hung = starting(1, adopted=True, silent_s=NOW_S, reason="no answer")
    assert plan(fleet(hung), rules(), NOW_S + 29.9).condemn == ()
    (condemned,) = plan(fleet(hung), rules(), NOW_S + 30.0).condemn
    assert condemned[0] == "w-0001"
    fresh = starting(1, silent_s=NOW_S)
    assert plan(fleet(fresh), rules(), NOW_S + 30.0).condemn == ()
