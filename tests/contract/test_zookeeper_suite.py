"""The discovery ``zookeeper`` keeps its promises over a ZooKeeper made of a dictionary.

tests/discovery runs the same suite over a real one.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

import attrs
import pytest
from fake_zookeeper import FakeSession, Servers

from tarn.domain import Endpoint
from tarn.errors import DiscoveryError
from tarn.interfaces import Discovery
from tarn.testing.contracts import DiscoveryContract
from tarn.testing.contracts.discovery import _view
from tarn.testing.wait import until
from tarn.zk.nodes import FleetNode, InstanceNode
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

    def test_a_withdrawal_takes_what_an_attempt_without_an_answer_published(
        self, tmp_path: Path
    ) -> None:
        """Or its count would stay, and consumers keep what is no more."""
        discovery = self.make(tmp_path)
        discovery._session.unanswered = True
        with pytest.raises(DiscoveryError):
            discovery.sync(_view(1, 1, 2))
        discovery._session.unanswered = False
        discovery.close(withdraw=True)
        (told,) = [node for path, node in self.servers.nodes.items() if "/fleets/" in path]
        assert FleetNode.parse(told.data).count == 0

    def test_a_lost_session_is_made_good_with_the_newest_view(self, tmp_path: Path) -> None:
        """Though its own attempt had no answer: what left does not come back."""
        discovery = self.make(tmp_path)
        self._sync(discovery, _view(1, 1, 2))
        discovery._session.unanswered = True
        with pytest.raises(DiscoveryError):
            discovery.sync(_view(2, 2))
        discovery._session.unanswered = False
        after = self.published()
        assert len(after) == 1
        discovery._session.lose(99)
        assert until(self.published, 5.0) == after

    def test_a_keeper_that_fails_for_long_says_so_once(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        """And tries less and less often."""
        discovery = self.make(tmp_path)
        self._sync(discovery, _view(1, 1, 2))
        tries_s = discovery._session.refused_s = []
        discovery._session.lose(99)
        until(lambda: len(tries_s) >= 4, 10.0)
        assert tries_s[3] - tries_s[2] > 1.5 * (tries_s[1] - tries_s[0])
        assert caplog.text.count("cannot be kept up") == 1
