"""The view of a policy carries the time of the wall, for those that go by the calendar."""

from typing import Any

from desk import Desk, spec

from tarn.domain import FleetView, Wish
from tarn.testing.wait import until


class Looking:
    """Keeps the time that it was shown."""

    def __init__(self) -> None:
        self.at: list[float] = []

    def wanted(self, fleet: FleetView) -> Wish:
        self.at.append(fleet.at)
        return Wish(None, "it only looks")


def test_a_policy_sees_what_time_it_is() -> None:
    """On the master's clock, not on the machine's: replay and the simulator have their own."""
    looking: Any = Looking()
    with Desk(spec(), policy=looking) as desk:
        desk.reach(2)
        until(lambda: looking.at, what="a question")
        assert looking.at[-1] <= desk.clock.at() < looking.at[-1] + 60
