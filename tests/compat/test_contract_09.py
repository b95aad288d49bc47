"""9: the Java TARN counted containers that never started: neither replaced nor given back."""

from fake_yarn import FakeYarn
from hand_driven_yarn import HandDrivenMaster

from tarn.domain import Ended
from tarn.testing.fakes import FakeClock

A, B = "fleet-0001", "fleet-0002"


def test_a_container_that_does_not_start_goes_back_and_is_told() -> None:
    """The core asks for another one, under a number of its own."""
    yarn = FakeYarn(3)
    yarn.odds = {"start failed": 1.0}
    master = HandDrivenMaster(yarn, FakeClock())
    master.want(A)
    master.step()
    (tried,) = yarn.containers
    fact = master.fact(A)
    assert isinstance(fact, Ended)
    assert not fact.exit.expected
    assert "the node is full" in fact.exit.reason
    yarn.odds = {}
    master.want(B)
    master.step()
    assert yarn.released == [tried]
    assert yarn.running().keys() == {B}
    assert yarn.surplus() == []


def test_files_that_cannot_be_brought_are_an_end_like_any_other() -> None:
    """The node says so later, by the container's exit code."""
    yarn = FakeYarn(3)
    master = HandDrivenMaster(yarn, FakeClock())
    master.want(A)
    master.step()
    (container,) = yarn.containers
    yarn.end(container, -1000, "java.io.FileNotFoundException: File does not exist: /m/1/model.py")
    master.step()
    fact = master.fact(A)
    assert isinstance(fact, Ended)
    assert "no longer exists" in fact.exit.reason
    master.want(B)
    master.step()
    assert yarn.running().keys() == {B}
