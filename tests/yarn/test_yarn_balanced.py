"""A fleet on YARN behind a real HAProxy, and in a real ZooKeeper: from up to down."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from house import ids, until
from servers.haproxy import OneBackendHaproxy
from servers.lb_agent import agent
from servers.zookeeper import Ensemble, client, standalone
from yarn_fleet import Fleet, SteadyLoad

pytestmark = [pytest.mark.yarn, pytest.mark.triton]

PATH = "/services/triton/instances"


@pytest.fixture
def ensemble(tmp_path: Path) -> Iterator[Ensemble]:
    directory = tmp_path / "zookeeper"
    directory.mkdir()
    one = standalone(directory)
    one.start()
    yield one
    one.stop()


@pytest.mark.timeout(300)
def test_a_fleet_behind_haproxy_and_in_zookeeper(yarn_house, hadoop, tmp_path, ensemble) -> None:
    """Scaled, and its master killed and found again through YARN: no request fails.

    The next master listens somewhere else; until it does, nobody is missed in either place.
    """
    fleet = Fleet(yarn_house, hadoop, "balanced")
    discovery = [
        {"use": "haproxy", "options": {"followers": ["lb1"]}, "required": True},
        {
            "use": "zookeeper",
            # longer than the next master takes to start, on a slow machine, too
            "options": {"ensemble": ensemble.address, "session_timeout": "40s"},
            "required": True,
        },
    ]
    size = {"min": 1, "max": 3, "initial": 1}
    fleet.up(yarn_house.spec("balanced", replicas=size, discovery=discovery))
    with contextlib.ExitStack() as stack:
        proxy = stack.enter_context(OneBackendHaproxy(tmp_path))
        follows = ("-c", "balanced", "--socket", str(proxy.socket), "--name", "lb1")
        stack.enter_context(agent(yarn_house, *follows))
        consumer = stack.enter_context(client(ensemble.address))

        def everywhere(count: int) -> set[str] | None:
            """Return the instances once HAProxy and ZooKeeper have exactly those that serve."""
            serving = ids(fleet.settled(count))
            return serving if serving == set(proxy.servers()) == _found(consumer, fleet) else None

        until(lambda: everywhere(1), 60, "one server")
        door = {"id": "door", "http": f"127.0.0.1:{proxy.port}"}
        with SteadyLoad(fleet, [door]) as load:
            fleet.tarn("scale", "3")
            three = until(lambda: everywhere(3), 60, "three servers")
            url, epoch = fleet.url, fleet.kill_master()
            for _ in fleet.without_master():
                assert set(proxy.servers()) == three
                assert len(consumer.get_children(PATH)) == 3
            fleet.after(epoch)
            assert fleet.url != url
            assert until(lambda: everywhere(3), 60, "the same three") == three
            fleet.tarn("scale", "1")
            assert until(lambda: everywhere(1), 60, "one server left") < three
        assert not load.failed, load.failed[:5]
        assert load.answered > 50
        fleet.down()
        until(lambda: not proxy.servers(), 10, "no server left")
        assert consumer.get_children(PATH) == []


def _found(consumer, fleet: Fleet) -> set[str]:
    """Return the ids of the instances whose containers have a node in ZooKeeper."""
    nodes = set(consumer.get_children(PATH))
    return {i["id"] for i in fleet.status()["instances"] if i["container_id"] in nodes}
