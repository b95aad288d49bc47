"""31: the Java TARN registered a container that never became ready, once its patience ended."""

import attrs
from unit.control.desk import Desk, spec

from tarn.domain.spec import InstanceSpec, ReplicasSpec


class Everybody(set[str]):
    """Whoever it is."""

    def __contains__(self, _name: object) -> bool:
        return True


def test_what_never_serves_is_replaced_and_never_in_the_view() -> None:
    """After the start time-out another one is tried; nobody is sent anywhere meanwhile."""
    some = attrs.evolve(
        spec(replicas=ReplicasSpec(1, 4, 1)), instance=InstanceSpec(start_timeout_s=10.0)
    )
    desk = Desk(some)
    desk.scraper.silent = Everybody()
    seen: set[str] = set()
    with desk:
        for _ in range(30):
            now = desk.tick(1.0)
            seen |= {instance.id for instance in now.instances}
            assert now.view.members == ()
    assert len(seen) >= 2
