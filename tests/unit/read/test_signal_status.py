"""What people are shown of the signals, and of a size that is held back."""

from unit.control.desk import Desk

from tarn.domain import Known, Unknown, Wish
from tarn.domain.signals import SignalSelection
from tarn.read.snapshot import SignalStatus, signal_status

OWN = {
    "pending": ((1.0, Known(3.0)), (2.0, Known(4.0, 0.5))),
    "nv_x": ((2.0, Unknown("no instance is ready")),),
    "in_flight": ((2.0, Known(5.0)),),
}
BROUGHT = {"latency_p95": ((1.5, Known(0.02)),)}
KEPT = SignalSelection(metrics={"nv_x": "nv_x"}, reads=("nv_x", "latency_p95", "in_flight"))


def test_the_newest_of_each_those_that_the_policy_reads_first() -> None:
    """With unit and source; of a plugin and of a metric nobody knows the unit."""
    assert signal_status(OWN, BROUGHT, KEPT, ready=3) == (
        SignalStatus("nv_x", OWN["nv_x"][0][1], 2.0, "", "metric nv_x of 3 instances", read=True),
        SignalStatus("in_flight", Known(5.0), 2.0, "requests", "metrics of 3 instances", read=True),
        SignalStatus("latency_p95", Known(0.02), 1.5, "", "a plugin", read=True),
        SignalStatus(
            "pending", Known(4.0, 0.5), 2.0, "requests", "metrics of 3 instances", read=False
        ),
    )


def test_one_instance_is_one_instance() -> None:
    """And before the first look there is nothing to see."""
    assert signal_status(OWN, {}, SignalSelection(), ready=1)[0].source == "metrics of 1 instance"
    assert signal_status({}, {}, SignalSelection(), ready=0) == ()


def test_every_snapshot_has_the_newest_signals_and_how_the_size_stands() -> None:
    """Of the same control thread that decides: the size follows a wish in the very next ticks."""
    with Desk() as desk:
        for _ in range(8):
            now = desk.tick(1.0)
        assert {sight.name: sight.sample for sight in now.signals}["pending"] == Known(0.0)
        assert {sight.source for sight in now.signals} == {"metrics of 2 instances"}
        assert (now.holds.size.answered, now.holds.size.held) == (True, ())
        desk.policy.answer = Wish(1, "idle")
        for _ in range(4):
            now = desk.tick(1.0)
        assert [held.by for held in now.holds.size.held] == ["down_window"]
        assert (now.desired, now.holds.size.next_size) == (2, 1)
