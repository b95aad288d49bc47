"""The discovery ``zookeeper`` keeps every promise of a discovery, over a real server."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from servers.zookeeper import Ensemble, client
from zookeeper_masters import EPOCH, Masters, children, masters

from tarn.domain import Endpoint, Epoch
from tarn.interfaces import Discovery
from tarn.testing.contracts.discovery import DiscoveryContract
from tarn.zk.nodes import InstanceNode
from tarn_plugins.discovery.zookeeper import tarn_discoveries
from tarn_plugins.discovery.zookeeper.discovery import ZooKeeper

pytestmark = pytest.mark.discovery


class TestZooKeeper(DiscoveryContract):
    """One server; each test has a path of its own."""

    factory = tarn_discoveries()["zookeeper"]
    answer_within_s = 1.2

    @pytest.fixture(autouse=True)
    def _stage(self, zookeeper: Ensemble, tmp_path: Path) -> Iterator[None]:
        with masters(tmp_path, zookeeper.address) as some, client(zookeeper.address) as other:
            self._masters: Masters = some
            self._client: KazooClient = other
            yield

    def make(self, tmp_path: Path, epoch: Epoch = EPOCH) -> Discovery:
        return self._masters.make(epoch=epoch, payload="json", session_timeout_s=10.0)

    def published(self) -> Mapping[str, Endpoint]:
        path = self._masters.path
        data = [self._client.get(f"{path}/{name}")[0] for name in children(self._client, path)]
        nodes = [InstanceNode.parse(one) for one in data]
        return {node.instance: node.endpoint for node in nodes}

    def break_down(self, discovery: Discovery) -> None:
        assert isinstance(discovery, ZooKeeper)
        discovery._session._line.cut()
