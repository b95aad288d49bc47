"""Waiting goes on, whatever becomes of the log that tells how far a starting instance is."""

import threading

import pytest
from fake_fleet import URL, FakeFleet, instance, status

from tarn.cluster import Cluster, connect
from tarn.cluster.operate import waiting as load_progress
from tarn.errors import LaunchError, TarnError, TimedOutError, UnreachableError
from tarn.testing.wait import until

SPEC = {"name": "demo", "models": "models", "runtime": {"use": "fake"}}
SILENT = LaunchError("fake", "the ResourceManager does not answer", code="TARN-3130")


@pytest.fixture
def starting(fleet: FakeFleet) -> FakeFleet:
    """A cluster whose only instance starts."""
    Cluster(SPEC, environment=fleet.environment).up()
    fleet.statuses = [status("starting", (instance(1, "starting", models=[]),))]
    return fleet


def found(fleet: FakeFleet) -> Cluster:
    return connect("demo", environment=fleet.environment)


@pytest.mark.parametrize("error", [SILENT, TarnError("odd"), OSError("torn")])
@pytest.mark.parametrize("verb", ["logs", "find"])
def test_a_log_that_cannot_be_read_is_no_failure(
    starting: FakeFleet, monkeypatch: pytest.MonkeyPatch, error: Exception, verb: str
) -> None:
    """Nothing is told of models."""

    def broken(*_given: object) -> None:
        raise error

    starting.statuses.append(status("ready", (instance(1),)))
    cluster, heard = found(starting), []
    monkeypatch.setattr(FakeFleet, verb, broken)
    cluster.wait(progress=heard.append)
    assert [one.phase for one in heard] == ["launching", "ready"]


def test_a_log_that_takes_long_is_not_waited_for(
    starting: FakeFleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One reader at a time, and the deadline holds."""
    free, begun = threading.Event(), []

    def slow(*_given: object) -> list[str]:
        begun.append(1)
        free.wait(20.0)
        return []

    monkeypatch.setattr(load_progress, "READ_WITHIN_S", 0.01)
    monkeypatch.setattr(FakeFleet, "logs", slow)
    try:
        with pytest.raises(TimedOutError, match="not reached in 10 s"):
            found(starting).wait(timeout="10s")
        until(lambda: begun)  # all of that took a moment only: its thread may not have come so far
    finally:
        free.set()
    assert begun == [1]


def test_an_empty_log_is_read_no_more_often_than_another(starting: FakeFleet) -> None:
    """Once a second: it may be on another machine."""
    with pytest.raises(TimedOutError):
        found(starting).wait(timeout="10s")
    assert 8 <= starting.verbs().count("logs") <= 11


def test_a_runtime_that_cannot_be_asked_is_waited_for(
    starting: FakeFleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be failing over, as the master may be restarting; for half a minute."""

    def broken(*_given: object) -> None:
        raise SILENT

    cluster = found(starting)
    starting.answers = {URL: UnreachableError("nothing listens")}
    monkeypatch.setattr(FakeFleet, "find", broken)
    with pytest.raises(TimedOutError, match=r"nothing listens"):
        cluster.wait(timeout="10s")
    with pytest.raises(UnreachableError, match="the master has not answered for 30 s"):
        cluster.wait(timeout="5m")
