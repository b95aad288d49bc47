"""``tarn lb haproxy`` that finds its master through a real ZooKeeper, without a cluster there."""

import pytest
from house import House, house, kill, until
from servers.haproxy import OneBackendHaproxy
from servers.lb_agent import agent, fake_tritons

__all__ = ["house"]

pytestmark = pytest.mark.discovery
NAME, PATH = "found", "/agents/instances"


def test_a_master_is_found_through_zookeeper_and_the_next_one_too(
    house: House, zookeeper, tmp_path
):
    """Nothing but the ensemble, the path and the api token is known where HAProxy runs."""
    told = {"use": "zookeeper", "options": {"ensemble": zookeeper.address, "path": PATH}}
    spec = house.spec(NAME, **fake_tritons(house.root), discovery=[told])
    assert house.tarn("up", "-f", spec).returncode == 0
    assert house.tarn("wait", "-c", NAME, "--timeout", "60s").returncode == 0
    there = tmp_path / "there"
    there.mkdir()
    elsewhere = House(there)
    token = (house.directory(NAME) / "api_token").read_text().strip()
    with OneBackendHaproxy(there) as proxy:
        words = ["--zookeeper", zookeeper.address, "--zookeeper-path", PATH, "--name", "lb7"]
        words += ["--socket", str(proxy.socket)]
        with agent(elsewhere, *words, TARN_TOKEN=token) as one:
            one.heard("of found: 2 servers, acknowledged")
            shown = proxy.servers()
            assert len(shown) == 2
            before = house.ref(NAME)
            kill(before["pid"])
            until(lambda: house.ref(NAME)["epoch"] != before["epoch"], 30, "the next master")
            one.heard(f"follows the master {house.ref(NAME)['epoch']} of found")
            assert proxy.servers() == shown
            assert one.end() == 0
        with agent(elsewhere, *words, "-c", "nobody") as one:
            assert one.process.wait(30) == 3
            assert "no master of cluster 'nobody' has published anything" in one.said()
    with agent(elsewhere, "--zookeeper", "127.0.0.1:1", "--socket", str(proxy.socket)) as one:
        assert one.process.wait(30) == 3
        assert "Traceback" not in one.said()
