"""28: the Java TARN stopped a container whose last request still executed."""

from tarn.domain import Known, Reading, Unknown


def test_what_executes_is_work_though_nothing_waits() -> None:
    """Pending alone excludes it: the counter drops when the backend begins."""
    metrics = {"pending": Known(0.0), "executing": Known(1.0)}
    assert Reading("a", 1.0, metrics=metrics).busy == Known(1.0)


def test_not_knowing_what_executes_is_not_idleness() -> None:
    """A drain then goes on to its time limit."""
    metrics = {"pending": Known(0.0), "executing": Unknown("timed out")}
    assert Reading("a", 1.0, metrics=metrics).busy == Unknown("timed out")
