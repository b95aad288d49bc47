"""21: the Java TARN gave host names to HAProxy, which takes addresses only."""

import pytest
from haproxy_tritons import member, view
from servers.haproxy import ThreeBackendHaproxy

from tarn.clock import SystemClock
from tarn_plugins.discovery.haproxy.servers import HAProxyServers
from tarn_plugins.discovery.haproxy.settings import HaproxyTarget

pytestmark = pytest.mark.discovery


def test_an_instance_with_a_host_name_gets_a_placeholder_by_its_address(
    haproxy: ThreeBackendHaproxy,
) -> None:
    """One that has none leaves its placeholder in maintenance, and the word says why."""
    target = HaproxyTarget(haproxy.socket, backend="slots_backend", slots="triton-")
    engine = HAProxyServers(target, SystemClock())
    try:
        unknown = member(2, 4000, "no-such-host.invalid")
        engine.sync(view(1, member(1, 4000, "localhost"), unknown))
        assert list(haproxy.serving("slots_backend").values()) == [("127.0.0.1", 4000)]
        said = engine.applied()
        assert said is not None
        assert "fleet-0002: host 'no-such-host.invalid' has no address" in said.error
    finally:
        engine.close(withdraw=False)
