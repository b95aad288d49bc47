"""Servers that die or hang, and masters that are killed: what a consumer sees of it."""

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from servers.zookeeper import Ensemble, ZooKeeperServer, client, watched
from zookeeper_masters import EPOCH, Masters, children, fleet, masters, names, view

from tarn.domain import Epoch
from tarn.errors import DiscoveryError
from tarn.testing.wait import until
from tarn_plugins.discovery.zookeeper.discovery import ZooKeeper

pytestmark = [pytest.mark.discovery, pytest.mark.timeout(120)]


@pytest.fixture
def three(zookeeper_three: Ensemble, tmp_path: Path) -> Iterator[Masters]:
    with masters(tmp_path, zookeeper_three.address) as some:
        yield some
    zookeeper_three.start()


@pytest.fixture
def alone(zookeeper_alone: Ensemble, tmp_path: Path) -> Iterator[Masters]:
    with masters(tmp_path, zookeeper_alone.address) as some:
        yield some


def test_the_leader_is_killed(three: Masters, zookeeper_three: Ensemble) -> None:
    """The session that it served goes on with another server, and views are published soon."""
    leader = zookeeper_three.leader()
    discovery = until(lambda: _at(leader, three), 20.0)
    discovery.sync(view(1, 1, 2))
    session = discovery._session.id
    with watched(zookeeper_three.address, three.path, *names(1, 2)):
        leader.stop()
        killed_s = time.monotonic()
        until(lambda: _synced(discovery, 2, 1, 2, 3), 20.0)
        print(f"published {time.monotonic() - killed_s:.2f} s after the leader's death")
    assert discovery._session.id == session
    with client(zookeeper_three.address) as other:
        assert children(other, three.path) == names(1, 2, 3)


def _at(server: ZooKeeperServer, house: Masters) -> ZooKeeper | None:
    """Make a discovery; None where its session is with another server (kazoo chooses by lot)."""
    discovery = house.make(session_timeout_s=10.0)
    discovery.reach(10.0)
    link = discovery._session._line._socket
    assert link is not None
    return discovery if link.getpeername()[1] == server.port else None


def _synced(discovery: ZooKeeper, revision: int, *numbers: int) -> bool:
    """As the master's worker does it: an error is tried again."""
    try:
        discovery.sync(view(revision, *numbers))
    except DiscoveryError:
        return False
    return True


def test_servers_that_hang_cost_no_instance(alone: Masters, zookeeper_alone: Ensemble) -> None:
    """Three seconds of silence: SUSPENDED, and then the same session; no deletion is seen."""
    discovery = alone.make(session_timeout_s=4.0)
    discovery.sync(view(1, 1, 2))
    session = discovery._session.id
    states: list[str] = []
    discovery._session._client.add_listener(states.append)  # type: ignore[union-attr]
    with watched(zookeeper_alone.address, alone.path, *names(1, 2)):
        with client(zookeeper_alone.address) as other:
            before = other.get(f"{alone.path}/container_1")[1].czxid
        with zookeeper_alone.servers[0].stopped():
            threading.Event().wait(3.0)
        until(lambda: _synced(discovery, 2, 1, 2), 10.0)
    assert "SUSPENDED" in states
    assert discovery._session.id == session
    with client(zookeeper_alone.address) as other:
        assert other.get(f"{alone.path}/container_1")[1].czxid == before


def test_a_server_that_comes_back_finds_the_session_gone(
    alone: Masters, zookeeper_alone: Ensemble
) -> None:
    """Down for longer than the session: everything is there again within a second."""
    discovery = alone.make(session_timeout_s=1.0)
    discovery.sync(view(1, 1, 2))
    before = discovery._session.id
    server = zookeeper_alone.servers[0]
    with server.stopped():
        threading.Event().wait(3.0)
    until(lambda: discovery._session.id not in {0, before}, 30.0)
    reconnected_s = time.monotonic()
    with client(server.address) as other:
        until(lambda: fleet(other, alone.path).count == 2, 5.0)
        until(lambda: children(other, alone.path) == names(1, 2), 5.0)
    assert time.monotonic() - reconnected_s < 3.0


def test_that_zookeeper_is_away_is_said_without_a_new_view(
    alone: Masters, zookeeper_alone: Ensemble
) -> None:
    """Nodes vanish with the session, so nobody may call it in step; the word itself stays."""
    discovery = alone.make(look_every_s=0.2)
    discovery.sync(view(1, 1))
    with zookeeper_alone.servers[0].stopped():
        until(lambda: "Check that the servers run" in discovery.applied().error, 20.0)
        assert discovery.applied().revision == 1
    until(lambda: discovery.applied().error == "", 20.0)


def test_down_with_zookeeper_away_ends_in_a_second(
    alone: Masters, zookeeper_alone: Ensemble
) -> None:
    """Whether it hangs or has gone."""
    hanging, gone = alone.make(), alone.make(cluster="second")
    hanging.sync(view(1, 1))
    gone.sync(view(1, 2))
    with zookeeper_alone.servers[0].stopped():
        begun_s = time.monotonic()
        hanging.close(withdraw=True)
        assert time.monotonic() - begun_s < 3.0
    zookeeper_alone.servers[0].stop()
    until(lambda: not gone._session.connected, 5.0)
    begun_s = time.monotonic()
    gone.close(withdraw=True)
    assert time.monotonic() - begun_s < 3.0


def test_a_view_that_could_not_be_published_is_an_error_in_time(
    alone: Masters, zookeeper_alone: Ensemble
) -> None:
    """Before the master calls the discovery blocked (10 s); and what was published stays said."""
    discovery = alone.make()
    discovery.sync(view(1, 1))
    with zookeeper_alone.servers[0].stopped():
        begun_s = time.monotonic()
        with pytest.raises(DiscoveryError) as caught:
            discovery.sync(view(2, 1, 2))
        assert time.monotonic() - begun_s < 10.0
    assert caught.value.code == "TARN-3301"
    applied = discovery.applied()
    assert applied is not None
    assert applied.revision == 1


_MASTER = """
import sys, threading
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from zookeeper_masters import Masters, view
from tarn.domain import Epoch
root, address, path, attempt = sys.argv[2:]
masters = Masters(Path(root), address, path)
epoch = Epoch(1_700_000_000_000, int(attempt))
discovery = masters.make(epoch=epoch, session_timeout_s=4.0)
if int(attempt) > 1:
    discovery.sync(view(1, epoch=epoch, complete=False))
discovery.sync(view(2, 1, 2, 3, epoch=epoch))
print("published", flush=True)
threading.Event().wait()
"""


def _master(house: Masters, attempt: int) -> "subprocess.Popen[str]":
    here = str(Path(__file__).resolve().parent.parent)
    process = subprocess.Popen(
        [
            sys.executable,
            "-c",
            _MASTER,
            here,
            str(house.root),
            house.address,
            house.path,
            str(attempt),
        ],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "published\n"
    return process


def test_a_master_is_killed_and_back_within_the_session(
    alone: Masters, zookeeper_alone: Ensemble
) -> None:
    """Its process dies at once (-9); nobody misses an instance, also after its session ended."""
    old = _master(alone, 1)
    try:
        with watched(zookeeper_alone.address, alone.path, *names(1, 2, 3)):
            old.send_signal(signal.SIGKILL)
            old.wait(10)
            new = _master(alone, 2)
            try:
                threading.Event().wait(5.0)  # the old session has ended by now
                with client(zookeeper_alone.address) as other:
                    later = Epoch(EPOCH.incarnation, 2)
                    assert fleet(other, alone.path).epoch == later
                    assert children(other, alone.path) == names(1, 2, 3)
            finally:
                with client(zookeeper_alone.address) as other:
                    seen = children(other, alone.path)
        assert seen == names(1, 2, 3)
    finally:
        for process in (old, new):
            process.kill()
            process.wait(10)
            assert process.stdout is not None
            process.stdout.close()
