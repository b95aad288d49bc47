"""Worlds that the laws found with other seeds, each played out by hand."""

from fake_yarn import FakeYarn
from hand_driven_yarn import GOOD, HandDrivenMaster, spec_with

from tarn.domain import Endpoint, Pending, Running
from tarn.testing.fakes import FakeClock

A, B = "fleet-0001", "fleet-0002"


def test_what_may_come_back_late_keeps_its_ports() -> None:
    """Its process listens on its node while YARN does not know of it, and its file says where."""
    yarn, clock, spec = FakeYarn(1), FakeClock(), spec_with(spread="none")
    first = HandDrivenMaster(yarn, clock, spec)
    first.want(A)
    first.step()
    yarn.odds = {"recovered late": 1.0, "recovered later still": 1.0}
    second = HandDrivenMaster(yarn, clock, spec)
    second.want(B)
    second.step()
    yarn.odds = {}
    second.step()
    facts = {fact.instance_id: fact for fact in second.facts()}
    assert all(isinstance(fact, Running) for fact in facts.values())
    assert facts[A].endpoint == Endpoint("nm-1", 8000, 8001, 8002)
    assert facts[B].endpoint == Endpoint("nm-1", 8003, 8004, 8005)


def test_one_that_did_not_come_back_frees_its_ports() -> None:
    """After three minutes nobody waits for it."""
    yarn, clock, spec = FakeYarn(1), FakeClock(), spec_with(spread="none")
    first = HandDrivenMaster(yarn, clock, spec)
    first.want(A)
    first.step()
    yarn.kill_node("nm-1")
    yarn.revive()
    second = HandDrivenMaster(yarn, clock, spec)
    second.step(200.0)
    second.want(B)
    second.step()
    assert second.fact(B).endpoint == Endpoint("nm-1", 8000, 8001, 8002)


def test_an_instance_alone_on_its_node_has_the_ports_of_the_spec() -> None:
    """With ``spread: node`` they are exact, whatever an ended one left behind."""
    yarn, clock = FakeYarn(1), FakeClock()
    first = HandDrivenMaster(yarn, clock)
    first.want(A)
    first.step()
    yarn.kill_node("nm-1")
    yarn.revive()
    second = HandDrivenMaster(yarn, clock)
    second.want(B)
    second.step()
    assert second.fact(B).endpoint == Endpoint("nm-1", 8000, 8001, 8002)


def test_an_ask_that_yarn_calls_invalid_is_told_as_such() -> None:
    """It answers, and refuses every heartbeat; when it is mended, all goes on."""
    yarn, clock = FakeYarn(3, plain=True), FakeClock()
    master = HandDrivenMaster(yarn, clock)
    master.want(A)
    master.step()
    yarn.invalid = {2}
    master.want(A, B)
    woken = master.woken
    master.step()
    assert master.woken > woken
    master.steps(10)
    woken = master.woken
    master.steps(100)
    assert master.woken == woken
    words = (
        "the ResourceManager refuses every request of this master: it rejected a request as "
        "invalid. Fix YARN"
    )
    assert master.fact(B) == Pending(B, GOOD, words)
    assert master.beating.mute() == words
    assert isinstance(master.fact(A), Running)
    yarn.invalid = set()
    master.steps(2)
    assert isinstance(master.fact(B), Running)
    assert master.beating.mute() == ""
