"""For how long an instance that leaves is kept until another one works."""

import contextlib

import pytest
from haproxy_tritons import Triton, member, served_by, view
from servers.haproxy import ThreeBackendHaproxy
from servers.process import free_port

from tarn.clock import SystemClock
from tarn.testing.wait import until
from tarn_plugins.discovery.haproxy.servers import HAProxyServers
from tarn_plugins.discovery.haproxy.settings import HaproxyTarget

pytestmark = pytest.mark.discovery


def test_views_that_keep_coming_do_not_keep_one_that_leaves(haproxy: ThreeBackendHaproxy) -> None:
    """Two seconds from the first: else a fleet whose new instances fail is never out of the old."""
    engine = HAProxyServers(HaproxyTarget(haproxy.socket, fleet="fleet"), SystemClock())
    revisions = iter(range(2, 1000))

    def is_out() -> bool:
        number = next(revisions)
        engine.sync(view(number, member(1000 + number, free_port())))
        return "fleet-0001" not in haproxy.serving()

    with contextlib.closing(Triton(1)) as old:
        engine.sync(view(1, old.member))
        until(lambda: served_by(haproxy) == "1", 5)
        until(is_out, 5)
    engine.close(withdraw=True)
