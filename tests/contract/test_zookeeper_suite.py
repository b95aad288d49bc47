"""The discovery ``zookeeper`` keeps its promises over a ZooKeeper made of a dictionary.

tests/discovery runs the same suite over a real one.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

import attrs
import pytest
from fake_zookeeper import FakeSession, Servers

from tarn.domain import Endpoint
from tarn.interfaces import Discovery
from tarn.testing.contracts import DiscoveryContract
from tarn.testing.contracts.discovery import _view
from tarn.testing.wait import until
from tarn.zk.nodes import InstanceNode
from tarn_plugins.discovery.zookeeper import tarn_discoveries
from tarn_plugins.discovery.zookeeper.discovery import ZooKeeper

PATH = "/services/triton/instances"


class TestZooKeeperOverAFake(DiscoveryContract):
    """Its factory but for the session."""

    offered = tarn_discoveries()["zookeeper"]
    settings = {"ensemble": "zk:2181", "payload": "json"}

    @pytest.fixture(autouse=True)
    def _stage(self) -> Iterator[None]:
        self.servers = Servers()
        made: list[ZooKeeper] = []

        def create(settings, context):
            made.append(ZooKeeper(settings, context, session=self.servers.session))
            return made[-1]

        self.factory = attrs.evolve(self.offered, create=create)
        yield
        for one in made:
            one.close(withdraw=False)

    def published(self) -> Mapping[str, Endpoint]:
        there = self.servers.nodes
        nodes = [InstanceNode.parse(there[f"{PATH}/{n}"].data) for n in self.servers.children(PATH)]
        return {node.instance: node.endpoint for node in nodes}

    def break_down(self, discovery: Discovery) -> None:
        assert isinstance(discovery, ZooKeeper)
        assert isinstance(discovery._session, FakeSession)
        discovery._session.broken = True

    def test_a_lost_session_is_made_good(self, tmp_path: Path) -> None:
        """By the keeper, who is the only one who knows."""
        discovery = self.make(tmp_path)
        self._sync(discovery, _view(1, 1, 2))
        before = self.published()
        session = discovery._session
        session.lose(99)
        until(lambda: self.published() == before, 5.0)
        assert {self.servers.nodes[f"{PATH}/{n}"].owner for n in self.servers.children(PATH)} == {
            99
        }
