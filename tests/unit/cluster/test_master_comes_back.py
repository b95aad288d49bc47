"""The seconds after a master was killed: a reader waits once, and then says how it is."""

import logging

import attrs
import pytest
from fake_fleet import API_TOKEN, URL, FakeFleet

from tarn.cluster import Cluster, connect
from tarn.errors import UnreachableError
from tarn.follow import NOBODY_LISTENS

SPEC = {"name": "demo", "models": "models", "runtime": {"use": "fake"}}
MOVED = "http://nm2:40002"
NOBODY = UnreachableError("nobody listens there", code=NOBODY_LISTENS, where=URL)
STRANGER = UnreachableError("did not prove to be it", code="TARN-3703", where=URL)
SERVING = (("demo-0001", "127.0.0.1:41001"), ("demo-0002", "127.0.0.1:41002"))


@pytest.fixture
def running(fleet: FakeFleet) -> FakeFleet:
    """A cluster that runs."""
    Cluster(SPEC, environment=fleet.environment).up()
    (fleet.directory / "api_token").write_text(API_TOKEN)
    fleet.asked.clear()
    return fleet


def found(fleet: FakeFleet) -> Cluster:
    return connect("demo", environment=fleet.environment)


def restarting(fleet: FakeFleet, **changes: object) -> None:
    fleet.ref = attrs.evolve(fleet.ref, url=None, restarts=True, **changes)


def comes_back(fleet: FakeFleet, cluster: Cluster) -> list[float]:
    """Let another master answer at a new address once somebody rests; return the rests."""
    rests: list[float] = []

    def rest(seconds: float) -> None:
        rests.append(seconds)
        fleet.clock.time_s += seconds
        fleet.answers = {URL: NOBODY, MOVED: None}
        fleet.ref = attrs.evolve(fleet.ref, url=MOVED, restarts=False)

    link = cluster.source
    link._environment = attrs.evolve(link._environment, rest=rest)
    return rests


@pytest.mark.parametrize("told", [True, False])
def test_status_waits_once_for_the_next_master(running: FakeFleet, told: bool) -> None:
    """Its runtime knows that it was killed, or nobody listens where the runtime still has it."""
    cluster = found(running)
    running.answers = {URL: NOBODY}
    if told:
        restarting(running)
    rests = comes_back(running, cluster)
    assert cluster.status()["ready"] == 2
    assert len(rests) == 1
    assert cluster.url == MOVED
    assert cluster.decisions() is not None


def test_a_master_that_takes_longer_is_said_to_be_on_its_way(running: FakeFleet) -> None:
    """With how many serve meanwhile, where that is known."""
    running.answers = {URL: NOBODY}
    restarting(running, orphans=SERVING)
    shown = found(running).status()
    assert shown["reason"] == "the master is being started again; 2 instances serve"
    assert (shown["code"], shown["state"], shown["ready"]) == ("TARN-4023", "degraded", 2)
    assert "being started again" in found(running).why()
    restarting(running, orphans=())
    assert found(running).status()["reason"].endswith("; its instances go on")


def test_a_write_is_not_held_up(running: FakeFleet) -> None:
    """Only what reads waits: whoever writes hears at once that it was not done."""
    cluster = found(running)
    running.answers = {URL: NOBODY}
    restarting(running)
    rests = comes_back(running, cluster)
    with pytest.raises(UnreachableError, match="nobody listens"):
        cluster.scale(3)
    assert rests == []


def test_one_that_is_silent_for_another_reason_is_not_waited_for(running: FakeFleet) -> None:
    """A firewall, a hanging master: its runtime knows of no other."""
    cluster = found(running)
    running.answers = {URL: UnreachableError("no connection within the time limit", where=URL)}
    rests = comes_back(running, cluster)
    with pytest.raises(UnreachableError, match="time limit"):
        cluster.status()
    assert rests == []


@pytest.mark.parametrize(
    ("restarts", "begins"),
    [
        (True, "the master is being started again; 2 instances serve. "),
        (False, "no master is running; 2 "),
    ],
)
def test_a_stranger_at_the_masters_port_is_told(
    running: FakeFleet, restarts: bool, begins: str
) -> None:
    """Where, and that it got no token."""
    running.answers = {URL: STRANGER}
    running.ref = attrs.evolve(running.ref, url=None, restarts=restarts, orphans=SERVING)
    reason = found(running).status()["reason"]
    assert reason.startswith(begins)
    assert f"At {URL} another program answers" in reason
    assert "no token was sent to it" in reason


def test_tarn_token_counts_where_nothing_is_kept(fleet: FakeFleet) -> None:
    """As on a machine that has neither token nor spec of the cluster."""
    fleet.environ["TARN_TOKEN"] = API_TOKEN
    cluster = Cluster(SPEC, environment=fleet.environment).up()
    for name in ("api_token", "spec.yaml"):
        (fleet.directory / name).unlink(missing_ok=True)
    assert cluster.source._api_token() == API_TOKEN
    (fleet.directory / "spec.yaml").write_text("name: demo\n")
    assert cluster.source._api_token() is None  # it asks for none


def test_tarn_token_beside_another_one_is_told_once(
    running: FakeFleet, caplog: pytest.LogCaptureFixture
) -> None:
    """What is kept with the cluster counts."""
    running.environ["TARN_TOKEN"] = "of-another-cluster"
    link = found(running).source
    with caplog.at_level(logging.WARNING):
        assert [link._api_token(), link._api_token()] == [API_TOKEN, API_TOKEN]
    assert caplog.text.count("TARN_TOKEN is not used") == 1
    assert "of-another-cluster" not in caplog.text
    assert API_TOKEN not in caplog.text
