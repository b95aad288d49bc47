"""A real master with real Tritons that publishes in ZooKeeper."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from house import House, clear, kill, until
from kazoo.client import KazooClient
from servers.zookeeper import Ensemble, client, watched
from zookeeper_masters import children, fleet, fresh_path

from tarn.domain import Epoch
from tarn.zk.nodes import FleetNode, fleet_path

pytestmark = [pytest.mark.discovery, pytest.mark.triton, pytest.mark.timeout(180)]


@pytest.fixture
def home(tmp_path: Path) -> Iterator[House]:
    one = House(tmp_path)
    yield one
    clear(one)


@pytest.fixture
def other(zookeeper: Ensemble) -> Iterator[KazooClient]:
    with client(zookeeper.address) as one:
        yield one


def test_a_cluster_is_found_from_up_to_down(
    home: House, zookeeper: Ensemble, other: KazooClient
) -> None:
    """Also while its master is killed (-9) and comes back: nobody misses an instance."""
    path = fresh_path()
    options = {"ensemble": zookeeper.address, "path": path, "session_timeout": "10s"}
    spec = home.spec("echo", discovery=[{"use": "zookeeper", "required": True, "options": options}])
    done = home.tarn("up", "-f", spec)
    assert done.returncode == 0, done.stderr
    until(lambda: len(children(other, path)) == 2, 10, "two nodes")
    names = children(other, path)
    listed = {other.get(f"{path}/{name}")[0].decode() for name in names}
    assert listed == {one["http"] for one in home.status("echo")["instances"]}
    first = fleet(other, path, "echo").epoch
    assert fleet(other, path, "echo").api_url == home.ref("echo")["url"]
    with watched(zookeeper.address, path, *names):
        kill(int(home.ref("echo")["pid"]), signal.SIGKILL)
        until(lambda: fleet(other, path, "echo").epoch > first, 30, "the next master")
        until(lambda: fleet(other, path, "echo").nodes == tuple(sorted(names)), 30, "its view")
        home.tarn("status", "-c", "echo")
    done = home.tarn("down", "-c", "echo")
    assert done.returncode == 0, done.stderr
    assert children(other, path) == set()
    assert fleet(other, path, "echo").count == 0


def test_a_name_of_somebody_else_stops_a_start_that_requires_it(
    home: House, zookeeper: Ensemble, other: KazooClient
) -> None:
    """With whose it is, and before anything runs; their node stays as it is."""
    path = fresh_path()
    theirs = FleetNode(Epoch(1, 1), 4, 2, "http://node-1:1", ("a", "b"), "somebody-else")
    other.create(fleet_path(path, "echo"), theirs.render(), makepath=True)
    options = {"ensemble": zookeeper.address, "path": path}
    spec = home.spec("echo", discovery=[{"use": "zookeeper", "required": True, "options": options}])
    done = home.tarn("up", "-f", spec)
    assert done.returncode == 1
    assert "a cluster 'echo' of somebody-else" in done.stderr
    assert "TARN-3304" in done.stderr
    assert not home.processes("echo")
    assert fleet(other, path, "echo") == theirs


def test_a_start_without_zookeeper(home: House) -> None:
    """Not required: the fleet serves, and `status` warns. `down` is not held up."""
    options = {"ensemble": "127.0.0.1:1"}
    spec = home.spec("echo", discovery=[{"use": "zookeeper", "options": options}])
    done = home.tarn("up", "-f", spec)
    assert done.returncode == 0, done.stderr
    until(lambda: "127.0.0.1:1" in home.tarn("status", "-c", "echo").stdout, 20, "the warning")
    done = home.tarn("down", "-c", "echo")
    assert done.returncode == 0, done.stderr
