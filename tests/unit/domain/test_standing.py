"""How a cluster stands."""

import attrs
import pytest
from given import NOW_S, asked, draining, fleet, ready, rules, starting

from tarn.domain import ClusterState, Decision, InstanceState
from tarn.domain.fleet import DemandReport, Fleet
from tarn.domain.standing import standing

RULES = rules()
BAD = (("bad", "UNAVAILABLE", "no such file"), ("ok", "READY", ""))
WOKEN = (Decision(0.0, 1, 1, "demand", "2 requests wait at lb1"),)
WAITED_FOR = "0 of 1 ready; 2 requests wait at lb1"
WAIT, WAITED = DemandReport("lb1", 2, NOW_S - 1.0), DemandReport("lb1", 2, NOW_S - 3600.0)
FAILED = starting(9, state=InstanceState.FAILED, reason="killed by signal 9\nand more")
FAILED_START = asked(10)
RETIRING = ready(1, models=(("ok", "READY", ""),), retiring=2)
SUSPECT = ready(2, suspect="no answer for 3 s")


def stands(some: Fleet) -> tuple[str, str]:
    stands = standing(some, RULES, NOW_S)
    return str(stands.state), stands.reason


@pytest.mark.parametrize(
    ("some", "state", "reason"),
    [
        (fleet(ready(1)), "ready", ""),
        (fleet(), "ready", ""),
        (fleet(ready(1), ready(2), desired=1), "ready", ""),
        (fleet(asked(1)), "starting", "0 of 1 ready"),
        (fleet(asked(1), served=1), "degraded", "0 of 1 ready"),
        (fleet(starting(1), served=1, unprobed=frozenset({"w-0001"})), "starting", "0 of 1 ready"),
        (fleet(asked(1, reason="no node")), "starting", "0 of 1 ready; w-0001: no node"),
        (fleet(asked(1), decisions=WOKEN, demand=WAIT), "starting", WAITED_FOR),
        (fleet(asked(1), decisions=WOKEN, demand=WAITED), "starting", "0 of 1 ready"),
        (fleet(ready(1), starting(2)), "ready", "1 of 2 ready"),
        (fleet(ready(1), ready(2), starting(3), served=2), "ready", "2 of 3 ready"),
        (
            fleet(ready(1), FAILED_START, desired=2, strikes=1, ended=(FAILED,)),
            "degraded",
            "1 of 2 ready; w-0009 failed: killed by signal 9",
        ),
        (
            fleet(RETIRING, starting(2), desired=1, served=1),
            "ready",
            "",
        ),
        (
            fleet(RETIRING, desired=1, served=1, strikes=1, ended=(FAILED,)),
            "degraded",
            "w-0001 is kept although its drain was requested; w-0009 failed: killed by signal 9",
        ),
        (
            fleet(RETIRING, ready(2), desired=1, served=1),
            "degraded",
            "w-0001 is kept although its drain was requested: no other instance serves model 'ok'",
        ),
        (
            fleet(ready(1), SUSPECT, served=2),
            "degraded",
            "1 of 2 ready; w-0002: no answer for 3 s",
        ),
        (
            fleet(ready(1), draining(2, reason="evicted"), desired=2, served=2),
            "degraded",
            "1 of 2 ready",
        ),
        (
            fleet(ready(1), desired=2, short_s=NOW_S - 60.0),
            "degraded",
            "1 of 2 ready, for 60 s",
        ),
        (fleet(ready(1), desired=2, short_s=NOW_S - 59.9), "ready", "1 of 2 ready"),
        (fleet(desired=2, short_s=NOW_S - 99.0), "starting", "0 of 2 ready"),
        (
            fleet(ready(1, models=BAD)),
            "degraded",
            "model bad is unavailable on w-0001: no such file",
        ),
        (
            fleet(starting(1, models=BAD)),
            "starting",
            "model bad is unavailable on w-0001: no such file",
        ),
        (fleet(ready(1), draining(2, models=BAD), desired=1), "ready", ""),
        (fleet(halted="five failures", desired=1), "failed", "five failures"),
        (fleet(ready(1), halted="five failures", desired=2), "degraded", "five failures"),
        (fleet(draining(1), ending=True), "stopping", "1 instances still drain or stop"),
        (fleet(ending=True), "stopped", ""),
    ],
)
def test_the_state_and_its_reason(some: Fleet, state: str, reason: str) -> None:
    """Zero wanted is ready; degraded serves; failed is given up with nothing left."""
    assert stands(some) == (state, reason)


@pytest.mark.parametrize(
    ("some", "models"),
    [
        (fleet(ready(1)), ()),
        (fleet(ready(1, models=BAD)), ("bad",)),
        (fleet(asked(1, reason="no node")), ()),
        (fleet(starting(1, reason="bad is unavailable", blamed="bad")), ("bad",)),
        (fleet(RETIRING, ready(2), desired=1, served=1), ("ok",)),
        (fleet(RETIRING, desired=1, served=1, strikes=1), ()),
        (
            fleet(ready(1), desired=2, strikes=1, ended=(attrs.evolve(FAILED, blamed="bad"),)),
            ("bad",),
        ),
        (fleet(halted="five", halted_by="w-0009", desired=1, ended=(FAILED,)), ()),
        (
            fleet(
                halted="five",
                halted_by="w-0009",
                desired=1,
                ended=(attrs.evolve(FAILED, blamed="bad"),),
            ),
            ("bad",),
        ),
    ],
)
def test_the_models_that_a_reason_is_about_are_named(some: Fleet, models: tuple[str, ...]) -> None:
    """Who may not see one of them is told another reason."""
    assert standing(some, RULES, NOW_S).models == models


def test_a_model_that_is_listed_and_not_loaded_is_no_fault() -> None:
    """Without a reason nobody tried to load it."""
    idle = (("idle", "UNAVAILABLE", ""),)
    assert stands(fleet(ready(1, models=idle))) == ("ready", "")


def test_ending_wins_over_every_fault() -> None:
    """What is being ended is not degraded."""
    some = attrs.evolve(fleet(ready(1, models=BAD)), halted="five failures", ending=True)
    assert standing(some, RULES, NOW_S)[0] is ClusterState.STOPPING
