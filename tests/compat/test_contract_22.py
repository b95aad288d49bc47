"""22: the Java TARN's updater took an empty list for an error, and asked YARN in a hot loop."""

import pytest
from haproxy_tritons import member, view
from servers.haproxy import ThreeBackendHaproxy

from tarn.clock import SystemClock
from tarn.testing.wait import until
from tarn_plugins.discovery.haproxy.servers import HAProxyServers
from tarn_plugins.discovery.haproxy.settings import HaproxyTarget

pytestmark = pytest.mark.discovery


def test_no_instances_means_no_servers_within_a_second(haproxy: ThreeBackendHaproxy) -> None:
    """Every placeholder is in maintenance; nobody is asked for anything, and nothing repeats."""
    target = HaproxyTarget(haproxy.socket, backend="slots_backend", slots="triton-")
    engine = HAProxyServers(target, SystemClock())
    try:
        engine.sync(view(1, *(member(n, 4000 + n) for n in (1, 2, 3))))
        assert len(haproxy.serving("slots_backend")) == 3
        engine.sync(view(2))
        slots = haproxy.servers("slots_backend")
        until(lambda: all(s.in_maintenance for s in haproxy.servers("slots_backend").values()), 3)
        assert len(slots) == 4
        given = engine.orders_given
        engine.sync(view(2))
        assert engine.orders_given == given
    finally:
        engine.close(withdraw=False)
