"""3: the Java TARN asked YARN for more than it wanted, and kept what came too much."""

from compat.yarns import Master
from fake_yarn import FakeYarn

from tarn.domain import Running


def test_what_is_asked_is_what_lacks_at_all_times() -> None:
    """A YARN that answers after five ticks is asked once; growth and decline are differences."""
    yarn = FakeYarn(8)
    yarn.hold_grants = True
    master = Master(yarn)
    for wanted, stop in (((1, 2, 3), ()), ((1, 2, 3, 4), ()), ((1, 2, 3), ("fleet-0004",))):
        master.want(*wanted, stop=frozenset(stop))
        for _ in range(5):
            master.step()
            assert set(yarn.asks) == set(wanted), "outstanding is target less running"
    assert sum(len(said.asks) for said in yarn.exchanges) == 4
    yarn.hold_grants = False
    master.step()
    assert yarn.running().keys() == {"fleet-0001", "fleet-0002", "fleet-0003"}
    assert yarn.asks == {}


def test_three_surplus_containers_are_three_releases() -> None:
    """Nothing is started in them."""
    yarn = FakeYarn(8)
    master = Master(yarn)
    master.want(1, 2, 3)
    master.step()
    held = {fact.container_id for fact in master.facts().values() if isinstance(fact, Running)}
    assert len(held) == 3
    shape = yarn.containers[min(held)].shape
    extra = [yarn.grant_again(number, shape).container_id for number in (1, 2, 3)]
    for _ in range(3):
        master.step()
    assert sorted(yarn.released) == sorted(extra)
    assert set(master.started) == held
    assert yarn.violations == []
