"""What is wrong, from what was read."""

import attrs

from tarn.control.troubles import of_readings
from tarn.domain import Endpoint, Epoch, Instance, Reading, State
from tarn.domain.fleet import Fleet


def test_instances_without_metrics_are_told_once_with_what_is_lacking() -> None:
    """Only ready ones: one that starts may be late, and one that drains is not scaled by."""
    one = Instance("w-0001", "h", State.READY, endpoint=Endpoint("h", 1, 2, 3))
    fleet = Fleet("w", Epoch(1, 1), 2, (one, attrs.evolve(one, id="w-0002")))
    readings = {
        "w-0001": Reading("w-0001", 1.0, unmeasured="connection refused by h:3"),
        "w-0002": Reading("w-0002", 1.0),
    }
    (trouble,) = of_readings(fleet, readings)
    assert (trouble.code, trouble.subject) == ("TARN-1137", "w")
    assert trouble.fault.startswith("the metrics of 1 of 2 instances cannot be read; ")
    assert trouble.said.endswith(" (w-0001: connection refused by h:3)")
    assert list(of_readings(fleet, {})) == []
