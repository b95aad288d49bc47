"""A plan carried into the fleet."""

from given import AT, NOW_S, asked, codes, draining, fleet, name, one, ready, rules, starting

from tarn.domain import Instance, InstanceState, Known
from tarn.domain.apply_plan import apply_plan
from tarn.domain.fleet import Fleet
from tarn.domain.plan import Plan

RULES = rules()


def done(some: Fleet, step: Plan, now_s: float = NOW_S) -> Fleet:
    return apply_plan(some, step, RULES, now_s, AT)


def ids(*numbers: int) -> frozenset[str]:
    return frozenset(name(n) for n in numbers)


def test_an_empty_plan_changes_nothing() -> None:
    """The very same fleet comes back."""
    some = fleet(ready(1))
    assert done(some, Plan()) is some


def test_ids_are_minted_in_order_and_never_twice() -> None:
    """The counter moves with them; the spec hash is the present one."""
    some = done(fleet(ready(1), next_number=12), Plan(launch=2))
    fresh = [Instance(name(n), "hash", since_s=NOW_S, requested_s=NOW_S) for n in (12, 13)]
    assert some.instances == (ready(1), *fresh)
    assert some.next_number == 14
    assert codes(some) == ["TARN-1100"] * 2


def test_an_admitted_one_is_ready_since_now() -> None:
    """The event says how long it took since it was asked for."""
    some = done(fleet(starting(1, silent_s=NOW_S, reason="loading")), Plan(admit=ids(1)), NOW_S + 7)
    first = one(some, 1)
    assert (first.state, first.ready_s, first.since_s) == (
        InstanceState.READY,
        NOW_S + 7,
        NOW_S + 7,
    )
    assert (first.silent_s, first.reason) == (None, "")
    assert some.events[0].message == "ready 7.0 s after asked"


def test_a_cancelled_ask_has_no_way_back() -> None:
    """Its stop is posted in the same step; nobody must know of it."""
    some = done(fleet(asked(1)), Plan(cancel=ids(1)))
    assert (one(some, 1).state, one(some, 1).stop_posted) == (InstanceState.DRAINING, True)
    assert codes(some) == []


def test_a_drain_begins_and_may_return() -> None:
    """What was noted of its leaving is forgotten."""
    some = done(fleet(ready(1)), Plan(drain=ids(1)))
    assert (one(some, 1).state, one(some, 1).reason) == (
        InstanceState.DRAINING,
        "not needed any more",
    )
    left = fleet(draining(1, left_revision=6, withdrawn_s=NOW_S, reason="not needed any more"))
    back = one(done(left, Plan(take_back=ids(1))), 1)
    assert (back.state, back.left_revision, back.withdrawn_s) == (InstanceState.READY, None, None)
    assert back.reason == ""


def test_a_condemned_one_drains_with_the_reason() -> None:
    """It is replaced, and the event says why."""
    some = done(fleet(ready(1)), Plan(condemn=((name(1), "silent for 30 s"),)))
    assert (one(some, 1).state, one(some, 1).condemned) == (InstanceState.DRAINING, True)
    assert [(e.code, e.message) for e in some.events] == [("TARN-1108", "silent for 30 s")]


def test_a_stop_that_cuts_requests_is_told() -> None:
    """Quiet, condemned and never ready ones cut nothing."""
    some = fleet(
        draining(1, busy=Known(2.0)),
        draining(2),
        draining(3, condemned=True, busy=Known(2.0)),
        draining(4, ready_s=None, busy=Known(2.0)),
    )
    some = done(some, Plan(stop=ids(1, 2, 3, 4)), NOW_S + 20.0)
    assert all(i.stop_posted for i in some.instances)
    assert [(e.code, e.subject, e.message) for e in some.events] == [
        ("TARN-1109", name(1), "still busy after 20 s")
    ]
