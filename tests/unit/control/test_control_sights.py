"""What people are shown of the signals."""

from tarn.control.sights import Sight, sights
from tarn.domain import Known, Unknown
from tarn.domain.signals import Kept

OWN = {
    "pending": ((1.0, Known(3.0)), (2.0, Known(4.0, 0.5))),
    "nv_x": ((2.0, Unknown("no instance is ready")),),
    "in_flight": ((2.0, Known(5.0)),),
}
BROUGHT = {"latency_p95": ((1.5, Known(0.02)),)}
KEPT = Kept(metrics={"nv_x": "nv_x"}, reads=("nv_x", "latency_p95", "in_flight"))


def test_the_newest_of_each_those_that_the_policy_reads_first() -> None:
    """With unit and source; of a plugin and of a metric nobody knows the unit."""
    assert sights(OWN, BROUGHT, KEPT, ready=3) == (
        Sight("nv_x", OWN["nv_x"][0][1], 2.0, "", "metric nv_x of 3 instances", read=True),
        Sight("in_flight", Known(5.0), 2.0, "requests", "metrics of 3 instances", read=True),
        Sight("latency_p95", Known(0.02), 1.5, "", "a plugin", read=True),
        Sight("pending", Known(4.0, 0.5), 2.0, "requests", "metrics of 3 instances", read=False),
    )


def test_one_instance_is_one_instance() -> None:
    """And before the first look there is nothing to see."""
    assert sights(OWN, {}, Kept(), ready=1)[0].source == "metrics of 1 instance"
    assert sights({}, {}, Kept(), ready=0) == ()
