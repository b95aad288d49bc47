"""18: the Java TARN lost what YARN told of a container before its own start had returned."""

from fake_yarn import FakeYarn
from hand_driven_yarn import HandDrivenMaster

from tarn.domain import Ended, Running
from tarn.testing.fakes import FakeClock
from tarn_plugins.runtime.yarn.master.slots import Start
from tarn_plugins.runtime.yarn.messages import AllocateResponse, Completed, Exchange


def granted(master: HandDrivenMaster) -> Start:
    """Bring one instance to where its node is being told to start it."""
    master.want("fleet-0001")
    said = master.ledger.say(1.0)
    master.ledger.heard(said, master.services.rm.exchange(said), 1.0, 1.0)
    (job,) = master.ledger.jobs()
    assert isinstance(job, Start)
    return job


def test_a_start_told_twice_is_one_instance() -> None:
    """It is known from its grant on; the word of its start changes one thing once."""
    master = HandDrivenMaster(FakeYarn(3), FakeClock())
    one = granted(master).grant.container_id
    for at_s in (1.1, 1.2):
        master.ledger.started(one, at_s)
        (fact,) = master.ledger.facts(at_s)
        assert isinstance(fact, Running)
        assert fact.container_id == one
    assert master.ledger.jobs() == ()


def test_an_end_inside_the_start_is_an_end() -> None:
    """The start that returns afterwards brings nothing back."""
    master = HandDrivenMaster(FakeYarn(3), FakeClock())
    one = granted(master).grant.container_id
    over = AllocateResponse(completed=(Completed(one, 1, "it crashed"),), nodes=3)
    master.ledger.heard(Exchange(), over, 1.1, 1.1)
    master.ledger.started(one, 1.2)
    (fact,) = master.ledger.facts(1.2)
    assert isinstance(fact, Ended)
