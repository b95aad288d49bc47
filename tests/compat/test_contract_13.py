"""13: the Java TARN's master stayed, deaf, when YARN refused what it asked."""

import pytest
from compat.yarns import Master
from fake_yarn import FakeYarn
from tarn_plugins.runtime.yarn.ledger import Ledger

from tarn.domain import Asked
from tarn.domain.spec import PlacementSpec
from tarn.errors import Superseded
from tarn_plugins.runtime.yarn.wire import Exchange


def test_a_rejected_ask_is_told_and_asked_again() -> None:
    """At once in words; again within seconds, and then it is met."""
    yarn = FakeYarn(3)
    yarn.rejecting = {1: "COULD_NOT_PLACE_ON_NODE"}
    master = Master(yarn)
    master.want(1)
    master.step()
    fact = master.facts()["fleet-0001"]
    assert isinstance(fact, Asked)
    assert "COULD_NOT_PLACE_ON_NODE" in fact.waits_for
    yarn.rejecting = {}
    for _ in range(10):
        master.step()
    assert yarn.running().keys() == {"fleet-0001"}


def test_a_yarn_without_constraints_is_served_without_them() -> None:
    """No two on a node, none asked twice; what does not fit waits in words."""
    yarn = FakeYarn(3, plain=True)
    master = Master(yarn)
    master.want(1, 2, 3, 4)
    for _ in range(40):
        master.step()
    running = yarn.running()
    assert len(running) == 3
    assert len({yarn.containers[one].grant.node for one in running.values()}) == 3
    assert yarn.violations == []
    assert yarn.surplus() == []
    waiting = [fact for fact in master.facts().values() if isinstance(fact, Asked)]
    assert [("3 of 3 nodes hold" in fact.waits_for) for fact in waiting] == [True]


def test_a_master_that_was_replaced_says_no_more() -> None:
    """Its door raises for good; `rm-heartbeat` ends, and the master with it."""
    yarn = FakeYarn(1)
    old = Master(yarn)
    Master(yarn)
    for _ in range(2):
        with pytest.raises(Superseded):
            old.step()
    assert Ledger(PlacementSpec()).say(0.0) == Exchange()
