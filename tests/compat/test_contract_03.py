"""3: the Java TARN asked YARN for more than it wanted, and kept what came too much."""

from fake_yarn import FakeYarn
from hand_driven_yarn import HandDrivenMaster

from tarn.domain import Running
from tarn.testing.fakes import FakeClock

A, B, C, D = (f"fleet-000{number}" for number in (1, 2, 3, 4))


def test_what_is_asked_is_what_lacks_at_all_times() -> None:
    """A YARN that answers after five ticks is asked once; growth and decline are differences."""
    yarn = FakeYarn(8)
    yarn.hold_grants = True
    master = HandDrivenMaster(yarn, FakeClock())
    for wanted, stop in (((A, B, C), ()), ((A, B, C, D), ()), ((A, B, C), (D,))):
        master.want(*wanted, stop=stop)
        for _ in range(5):
            master.step()
            assert set(yarn.asks) == {int(one[-1]) for one in wanted}, (
                "outstanding is target less running"
            )
    assert sum(len(said.asks) for said in yarn.exchanges) == 4
    yarn.hold_grants = False
    master.step()
    assert yarn.running().keys() == {A, B, C}
    assert yarn.asks == {}


def test_three_surplus_containers_are_three_releases() -> None:
    """Nothing is started in them."""
    yarn = FakeYarn(8)
    master = HandDrivenMaster(yarn, FakeClock())
    master.want(A, B, C)
    master.step()
    held = {fact.container_id for fact in master.facts() if isinstance(fact, Running)}
    assert len(held) == 3
    shape = yarn.containers[min(held)].shape
    extra = [yarn.grant_again(number, shape).container_id for number in (1, 2, 3)]
    for _ in range(3):
        master.step()
    assert sorted(yarn.released) == sorted(extra)
    assert {container for _, container in yarn.started} == held
    assert yarn.violations == []
