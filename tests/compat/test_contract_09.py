"""9: the Java TARN counted containers that never started: neither replaced nor given back."""

from compat.yarns import Master
from fake_yarn import FakeYarn

from tarn.domain import Ended


def test_a_container_that_does_not_start_goes_back_and_is_told() -> None:
    """The core asks for another one, under a number of its own."""
    yarn = FakeYarn(3)
    yarn.odds = {"start failed": 1.0}
    master = Master(yarn)
    master.want(1)
    master.step()
    (tried,) = master.started
    fact = master.facts()["fleet-0001"]
    assert isinstance(fact, Ended)
    assert not fact.exit.expected
    assert "the node is full" in fact.exit.reason
    yarn.odds = {}
    master.want(2)
    master.step()
    assert yarn.released == [tried]
    assert yarn.running().keys() == {"fleet-0002"}
    assert yarn.surplus() == []


def test_files_that_cannot_be_brought_are_an_end_like_any_other() -> None:
    """The node says so later, by the container's exit code."""
    yarn = FakeYarn(3)
    master = Master(yarn)
    master.want(1)
    master.step()
    (container,) = master.started
    yarn.end(container, -1000, "java.io.FileNotFoundException: File does not exist: /m/1/model.py")
    master.step()
    fact = master.facts()["fleet-0001"]
    assert isinstance(fact, Ended)
    assert "does not exist" in fact.exit.reason
    master.want(2)
    master.step()
    assert yarn.running().keys() == {"fleet-0002"}
