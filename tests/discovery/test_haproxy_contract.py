"""The promises of `Discovery`, on a real HAProxy."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from servers.haproxy import ThreeBackendHaproxy

from tarn.clock import SystemClock
from tarn.domain import DiscoveryView, Endpoint, Epoch
from tarn.hookspecs import Factory
from tarn.interfaces import Discovery
from tarn.testing.contracts import DiscoveryContract
from tarn_plugins.discovery.haproxy import tarn_discoveries
from tarn_plugins.discovery.haproxy.host_resolver import HostResolver
from tarn_plugins.discovery.haproxy.servers import HAProxyServers

pytestmark = pytest.mark.discovery
_HOSTS = {"nm-1": "127.0.0.3"}
_EPOCH = Epoch(1_700_000_000_000, 2)


class TestHAProxyContract(DiscoveryContract):
    """Publishes servers."""

    factory: Factory[Discovery] = tarn_discoveries()["haproxy"]

    @pytest.fixture(autouse=True)
    def _stage(self, haproxy: ThreeBackendHaproxy) -> Iterator[None]:
        self.stage = haproxy
        self.made: list[HAProxyServers] = []
        self.seen: dict[str, set[Endpoint]] = {}
        self.settings = {"socket": str(haproxy.socket), "grpc_backend": "triton_grpc"}
        yield
        for one in self.made:
            one.close(withdraw=False)

    def make(self, tmp_path: Path, epoch: Epoch = _EPOCH) -> Discovery:
        made: Any = super().make(tmp_path, epoch)
        made._names = HostResolver(SystemClock(), lambda host: (_HOSTS[host],))
        sync = made.sync

        def recorded(view: DiscoveryView) -> None:
            for member in view.members:
                self.seen.setdefault(member.instance_id, set()).add(member.endpoint)
            sync(view)

        made.sync = recorded
        self.made.append(made)
        return made

    def published(self) -> Mapping[str, Endpoint]:
        """Read HAProxy; what it does not know of an endpoint comes from the views."""
        http, grpc = self.stage.serving(), self.stage.serving("triton_grpc")
        assert http.keys() == grpc.keys()
        found = {}
        for name, (address, port) in http.items():
            [found[name]] = [
                one
                for one in self.seen[name]
                if (_HOSTS.get(one.host, one.host), one.http_port) == (address, port)
                and (address, one.grpc_port) == grpc[name]
            ]
        return found

    def break_down(self, discovery: Discovery) -> None:
        self.stage.stop()
