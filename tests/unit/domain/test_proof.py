"""Where models may be unloaded, a drain ends when Triton has proved that nothing executes."""

import attrs
import pytest
from given import AT, NOW_S, codes, draining, fleet, name, one, read, reading, ready, rules, running
from given import step as ticked

from tarn.domain import Instance, Known, ModelState, Sample, Unknown
from tarn.domain.apply_plan import apply_plan
from tarn.domain.draining import DrainProgress
from tarn.domain.fleet import FollowerState
from tarn.domain.outlook import Prospect, WaitsFor, prospect
from tarn.domain.plan import Plan, plan
from tarn.domain.spec import ModelsSpec

EXPLICIT = attrs.evolve(
    rules(), spec=attrs.evolve(rules().spec, models=ModelsSpec("/models", control="explicit"))
)
ONE = frozenset({name(1)})


def left(**more: object) -> Instance:
    """Return a quiet drain that every follower let go, and the quiesce after it has passed."""
    values = {"withdrawn_s": NOW_S - 2.0, "since_s": NOW_S - 3.0, "busy_s": NOW_S}
    return draining(1, **(values | more))  # type: ignore[arg-type]


def asked(unloaded: Sample[bool], **more: object) -> Instance:
    return left(drain=attrs.evolve(DrainProgress().unload(NOW_S), unloaded=unloaded), **more)


def step(instance: Instance, now_s: float = NOW_S, **more: object) -> Plan:
    return plan(fleet(instance, desired=0, **more), EXPLICIT, now_s)  # type: ignore[arg-type]


def test_a_quiet_one_is_asked_to_unload_and_is_stopped_once_it_has() -> None:
    """The estimate alone is enough only where nothing better can be had."""
    assert step(left()) == Plan(unload=ONE)
    assert plan(fleet(left(), desired=0), rules(), NOW_S) == Plan(stop=ONE)
    assert step(asked(Known(value=False))) == Plan()
    assert step(asked(Known(value=True))) == Plan(stop=ONE)


@pytest.mark.parametrize(
    "waits",
    [
        {"withdrawn_s": None},
        {"withdrawn_s": NOW_S - 1.9},
        {"busy": Known(1.0)},
        {"busy": Unknown("late")},
        {"busy_s": NOW_S - 0.1},
    ],
)
def test_nothing_is_unloaded_before_the_estimate_says_quiet(waits: object) -> None:
    """A model in work fails when one that it calls is unloaded: measured."""
    assert step(left(**waits)) == Plan()  # type: ignore[arg-type]


def test_nothing_is_unloaded_while_a_session_is_open() -> None:
    """Its request may still be on its way."""
    follower = FollowerState(9, came=True, sessions={name(1): 1}, counted_s=NOW_S)
    assert step(left(), followers={"lb": follower}) == Plan()


@pytest.mark.parametrize("flags", [{"condemned": True}, {"gone": True}, {"ready_s": None}])
def test_what_is_broken_gone_or_never_served_proves_nothing(flags: object) -> None:
    """It is stopped at once."""
    assert step(left(**flags)) == Plan(stop=ONE)  # type: ignore[arg-type]


def test_the_limit_of_the_drain_bounds_the_proof() -> None:
    """Sharp, and told."""
    some = asked(Known(value=False))
    assert step(some, NOW_S + 16.9) == Plan()
    assert step(some, NOW_S + 17.0) == Plan(stop=ONE)


def test_a_triton_that_refuses_is_taken_at_its_estimate() -> None:
    """Quiet: stopped. Busy again: waited for."""
    refused = Unknown("Triton refused: 403")
    assert step(asked(refused)) == Plan(stop=ONE)
    assert step(asked(refused, busy=Known(1.0))) == Plan()


def test_what_counters_say_while_models_vanish_holds_nothing() -> None:
    """They move as the models go, which looks like work."""
    assert step(asked(Known(value=True), busy=Known(0.01))) == Plan(stop=ONE)
    assert step(asked(Known(value=True), busy=Unknown("no line"))) == Plan(stop=ONE)


def test_there_is_no_way_back_once_it_was_asked() -> None:
    """Its models go; before, there is."""
    again = fleet(left(), desired=1)
    assert plan(again, EXPLICIT, NOW_S) == Plan(take_back=ONE)
    gone = fleet(asked(Known(value=False)), desired=1)
    assert plan(gone, EXPLICIT, NOW_S) == Plan(launch=1)


def test_a_take_back_forgets_the_drain() -> None:
    """The next one counts anew."""
    some = fleet(left(drain=DrainProgress(succeeded=9.0)), desired=1)
    some = apply_plan(some, Plan(take_back=ONE), EXPLICIT, NOW_S, AT)
    assert one(some, 1).drain is None


def test_while_it_unloads_that_is_waited_for() -> None:
    """`tarn why` says so, with the limit."""
    some = fleet(asked(Known(value=False)), desired=0)
    assert prospect(one(some, 1), some, EXPLICIT) == Prospect(WaitsFor.UNLOAD, NOW_S + 17.0)


def test_a_model_that_was_unloaded_for_a_drain_is_no_news() -> None:
    """We asked for it; one that failed on its own is."""
    index = (ModelState("echo", "UNAVAILABLE", "unloaded"),)
    some = fleet(asked(Known(value=False)), desired=0)
    assert codes(read(some, reading(1, models=index))) == []
    assert codes(read(fleet(left(), desired=0), reading(1, models=index))) == ["TARN-1111"]


def test_one_drain_from_the_first_tick_to_its_stop() -> None:
    """Asked once quiet; stopped in the tick that hears that no model is left."""
    some = fleet(ready(1), desired=0, manual=0)
    some = ticked(some, EXPLICIT, NOW_S, (running(1),), reading(1, NOW_S))
    some = ticked(some, EXPLICIT, NOW_S + 2, (running(1),), reading(1, NOW_S + 2))
    assert (one(some, 1).unloading, one(some, 1).stop_posted) == (True, False)
    waits = reading(1, NOW_S + 3, unloaded=Known(value=False))
    some = ticked(some, EXPLICIT, NOW_S + 3, (running(1),), waits)
    assert not one(some, 1).stop_posted
    done = reading(1, NOW_S + 4, unloaded=Known(value=True))
    some = ticked(some, EXPLICIT, NOW_S + 4, (running(1),), done)
    assert one(some, 1).stop_posted
    assert "TARN-1109" not in codes(some)
