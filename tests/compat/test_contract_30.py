"""30: the Java TARN drained for as long as its load balancer went on sending."""

import threading

import pytest
from haproxy_tritons import Triton, view
from servers.haproxy import ThreeBackendHaproxy

from tarn.clock import SystemClock
from tarn.testing.wait import until
from tarn_plugins.discovery.haproxy.servers import HAProxyServers
from tarn_plugins.discovery.haproxy.settings import HaproxyTarget

pytestmark = pytest.mark.discovery


def test_a_drain_under_load_costs_no_request(haproxy: ThreeBackendHaproxy) -> None:
    """Some 50 requests a second; a server that was acknowledged as out is closed at once."""
    tritons = [Triton(1), Triton(2)]
    engine = HAProxyServers(HaproxyTarget(haproxy.socket, fleet="fleet"), SystemClock())
    stop, answers = threading.Event(), []

    def ask() -> None:
        while not stop.wait(0.02):
            answers.append(haproxy.get())

    asking = threading.Thread(target=ask)
    try:
        engine.sync(view(1, *(one.member for one in tritons)))
        until(lambda: {haproxy.get() for _ in range(4)} == {(200, b"1"), (200, b"2")}, 5)
        asking.start()
        until(lambda: len(answers) >= 20, 10)
        engine.sync(view(2, tritons[1].member))
        until(lambda: set(haproxy.servers()) == {"fleet-0002"}, 5)
        tritons[0].close()
        before = len(answers)
        until(lambda: len(answers) >= before + 20, 10)
    finally:
        stop.set()
        asking.join(10)
        engine.close(withdraw=False)
        for one in tritons:
            one.close()
    assert {status for status, _ in answers} == {200}
    assert {text for _, text in answers[before:]} == {b"2"}
