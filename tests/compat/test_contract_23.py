"""23: placeholders declared `disabled` looked wrong to the Java TARN's updater for ever."""

import pytest
from haproxy_tritons import member, view
from servers.haproxy import ThreeBackendHaproxy

from tarn.clock import SystemClock
from tarn_plugins.discovery.haproxy.servers import HAProxyServers
from tarn_plugins.discovery.haproxy.settings import HaproxyTarget

pytestmark = pytest.mark.discovery


def test_placeholders_that_are_as_they_should_be_are_told_nothing(
    haproxy: ThreeBackendHaproxy,
) -> None:
    """Their administrative state is 4 and not 0 once they serve: that is as it should be."""
    target = HaproxyTarget(haproxy.socket, backend="slots_backend", slots="triton-")
    engine = HAProxyServers(target, SystemClock())
    try:
        now = view(1, member(1, 4001), member(2, 4002))
        engine.sync(now)
        used = [s for s in haproxy.servers("slots_backend").values() if s.serves]
        assert {s.admin for s in used} == {4}
        given = engine.orders_given
        for _ in range(3):
            engine.sync(now)
        assert engine.orders_given == given
    finally:
        engine.close(withdraw=False)
