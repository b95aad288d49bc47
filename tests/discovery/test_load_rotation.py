"""How soon an instance gets requests through HAProxy, and how soon it gets none any more."""

import signal
import statistics
import threading
import time
from collections.abc import Iterator

import attrs
import discovery_house
import pytest
from discovery_house import Agent, Door, Fleet, Tap, fake_tritons, soon
from house import House, clear, kill, until
from proxied_load import HttpLoad

pytestmark = pytest.mark.discovery

RATE = 200.0
ROUNDS = 5
IN_AIM_S, OUT_AIM_S = 0.150, 1.0
SLACK = 3
"""A busy machine may take so many times what is aimed at."""
STEADY_S = 10.0
READY = "TARN-1102"


@attrs.frozen
class Stage:
    """A cluster of fakes behind HAProxy, its agent listened to."""

    house: House
    door: Door
    tap: Tap
    fleet: Fleet


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    root = tmp_path_factory.mktemp("rotation")
    house = House(root)
    path = house.spec(
        "turn",
        **fake_tritons(root),
        replicas={"min": 1, "max": 4, "initial": 2},
        drain={"timeout": "30s", "quiesce": "100ms"},
        **discovery_house.followed(),
    )
    try:
        done = house.tarn("up", "-f", path, "--timeout", "60s")
        assert done.returncode == 0, done.stderr
        with Door(root) as door, Tap(root, door.socket) as tap:
            with Agent(house, door, "turn", by=tap.socket), Fleet(house, "turn") as fleet:
                try:
                    yield Stage(house, door, tap, fleet)
                finally:
                    clear(house)  # while the agent is there, whose word the end waits for
    finally:
        clear(house)


@pytest.fixture(autouse=True)
def two_instances(stage: Stage) -> None:
    stage.fleet.api.scale(2)
    stage.fleet.settled(stage.door, 2)


def test_a_ready_instance_gets_requests_at_once(
    stage: Stage, capsys: pytest.CaptureFixture[str]
) -> None:
    """From the master's event to the first request that HAProxy sends it: median of five."""
    took_s = []
    with HttpLoad(stage.door.address, RATE) as load:
        for _ in range(ROUNDS):
            before = {row["id"] for row in stage.fleet.all()}
            stage.fleet.api.scale(3)
            new = until(lambda had=before: _others(stage.fleet, had), 30, "a third instance")
            sent = soon(lambda name=new: _first_sent(stage.door, name), 30, "a first request")
            took_s.append(sent - stage.fleet.moment(READY, new))
            stage.fleet.api.scale(2)
            stage.fleet.settled(stage.door, 2)
            # one that still drains would come back, and not be a new one
            until(lambda: len(stage.fleet.all()) == 2, 30, "the end of one")
    with capsys.disabled():
        print(f"\n  ready → first request: {[round(1000 * s) for s in took_s]} ms")
    assert load.missed == []
    assert statistics.median(took_s) < SLACK * IN_AIM_S


def _others(fleet: Fleet, known: set[str]) -> str:
    """Return the id of an instance in the view that is not *known*; empty without one."""
    return next((str(r["id"]) for r in fleet.ready().values() if r["id"] not in known), "")


def _first_sent(door: Door, server: str) -> float:
    """Return when HAProxy sent the first request to *server*; 0 before."""
    return min((line.sent for line in door.lines() if line.server == server), default=0.0)


def test_a_killed_instance_is_chosen_no_more(
    stage: Stage, capsys: pytest.CaptureFixture[str]
) -> None:
    """Kill -9 of one that is idle, so that only the push can say it: median of three."""
    took_s = []
    for _ in range(3):
        ready = stage.fleet.ready()
        until(lambda: all(r["state_for_s"] > 5.5 for r in stage.fleet.ready().values()), 30)
        http, row = next(iter(ready.items()))
        began_s = time.monotonic()
        kill(int(str(row["container_id"])))
        soon(lambda gone=http: gone not in stage.door.taking(), 10, "out of rotation")
        took_s.append(time.monotonic() - began_s)
        stage.fleet.settled(stage.door, 2)
    with capsys.disabled():
        print(f"\n  kill -9 → out of rotation: {[round(1000 * s) for s in took_s]} ms")
    assert statistics.median(took_s) < SLACK * OUT_AIM_S


def test_a_restarted_haproxy_is_filled_again(stage: Stage) -> None:
    """It comes back without servers; soon it has them all, and answers."""
    ready = set(stage.fleet.ready())
    stage.door.stop()
    stage.door.start()
    soon(lambda: set(stage.door.taking()) == ready, 10, "every server again")
    with HttpLoad(stage.door.address, RATE) as load:
        load.pass_(50)
    assert load.missed == []


def test_nothing_is_written_in_steady_state(stage: Stage) -> None:
    """Ten seconds without an event: HAProxy is looked at, and told nothing."""
    looks, writes = len(stage.tap.heard), len(stage.tap.writes)
    threading.Event().wait(STEADY_S)
    assert stage.tap.writes[writes:] == []
    assert 0 < len(stage.tap.heard) - looks < 20 * STEADY_S


def test_a_killed_master_changes_nothing(stage: Stage) -> None:
    """Without a master the last good set stays; its successor takes nobody out."""
    pid = int(str(stage.house.ref("turn")["pid"]))
    writes = len(stage.tap.writes)
    with HttpLoad(stage.door.address, RATE) as load:
        load.pass_(50)
        kill(pid, signal.SIGKILL)
        until(lambda: stage.house.ref("turn")["pid"] != pid, 30, "the next master")
        until(lambda: len(stage.fleet.ready()) == 2, 30, "its view")
        load.pass_(100)
    assert load.missed == []
    # HAProxy is told whose servers these are now; the servers themselves are left alone
    assert [write for write in stage.tap.writes[writes:] if "server" in write] == []


def test_a_successor_serves_before_the_last_one_goes(stage: Stage) -> None:
    """One is taken out as soon as another is ready: HAProxy has checked that one before."""
    stage.fleet.api.scale(1)
    stage.fleet.settled(stage.door, 1)
    with HttpLoad(stage.door.address, RATE) as load:
        for _ in range(ROUNDS):
            (old,) = (row["id"] for row in stage.fleet.ready().values())
            stage.fleet.api.scale(2)
            soon(lambda one=old: _others(stage.fleet, {one}), 30, "a successor")
            stage.fleet.api.drain(str(old))
            stage.fleet.api.scale(1)
            stage.fleet.settled(stage.door, 1)
            until(lambda: len(stage.fleet.all()) == 1, 30, "the end of the others")
    assert load.missed == []
