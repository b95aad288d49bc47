"""13: the Java TARN's master stayed, deaf, when YARN refused what it asked."""

import pytest
from fake_yarn import FakeYarn
from hand_driven_yarn import HandDrivenMaster

from tarn.domain import Pending
from tarn.errors import Superseded
from tarn.testing.fakes import FakeClock

A, B, C, D = (f"fleet-000{number}" for number in (1, 2, 3, 4))


def test_a_rejected_ask_is_told_and_asked_again() -> None:
    """At once in words; again within seconds, and then it is met."""
    yarn = FakeYarn(3)
    yarn.rejecting = {1: "COULD_NOT_PLACE_ON_NODE"}
    master = HandDrivenMaster(yarn, FakeClock())
    master.want(A)
    master.step()
    fact = master.fact(A)
    assert isinstance(fact, Pending)
    assert "COULD_NOT_PLACE_ON_NODE" in fact.waits_for
    yarn.rejecting = {}
    for _ in range(10):
        master.step()
    assert yarn.running().keys() == {A}


def test_a_yarn_without_constraints_is_served_without_them() -> None:
    """No two on a node, none asked twice; what does not fit waits in words."""
    yarn = FakeYarn(3, plain=True)
    master = HandDrivenMaster(yarn, FakeClock())
    master.want(A, B, C, D)
    for _ in range(40):
        master.step()
    running = yarn.running()
    assert len(running) == 3
    assert len({yarn.containers[one].grant.node for one in running.values()}) == 3
    assert yarn.violations == []
    assert yarn.surplus() == []
    waiting = [fact for fact in master.facts() if isinstance(fact, Pending)]
    assert [("3 of 3 nodes hold" in fact.waits_for) for fact in waiting] == [True]


def test_a_master_that_was_replaced_does_nothing_more() -> None:
    """Its door says so for good, and whoever asks anything of it hears it."""
    yarn = FakeYarn(1)
    old = HandDrivenMaster(yarn, FakeClock())
    HandDrivenMaster(yarn, FakeClock())
    old.step()
    assert old.superseded
    with pytest.raises(Superseded):
        old.want(A)
    assert yarn.exchanges == []
