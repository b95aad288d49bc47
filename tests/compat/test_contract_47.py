"""47: the Java TARN sent a herd to one instance: it went by queues of 15 s ago, and by name."""

import http.client
import threading
from collections import Counter
from collections.abc import Iterator

import pytest
from haproxy_tritons import Triton, served_by, view
from servers.haproxy import ThreeBackendHaproxy

from tarn.clock import SystemClock
from tarn.testing.wait import until
from tarn_plugins.discovery.haproxy.servers import HAProxyServers
from tarn_plugins.discovery.haproxy.settings import HaproxyTarget

pytestmark = pytest.mark.discovery


@pytest.fixture
def three(haproxy: ThreeBackendHaproxy) -> Iterator[list[Triton]]:
    tritons = [Triton(number) for number in (1, 2, 3)]
    engine = HAProxyServers(HaproxyTarget(haproxy.socket, fleet="fleet"), SystemClock())
    engine.sync(view(1, *(one.member for one in tritons)))
    until(lambda: {served_by(haproxy) for _ in range(6)} == {"1", "2", "3"}, 10)
    yield tritons
    engine.close(withdraw=False)
    for one in tritons:
        one.close()


def test_thirty_at_once_are_shared(haproxy: ThreeBackendHaproxy, three: list[Triton]) -> None:
    """Ten each, two more or less."""
    answers: list[bytes] = []

    def ask() -> None:
        answers.append(haproxy.get("/slow", timeout_s=30)[1])

    asking = [threading.Thread(target=ask) for _ in range(30)]
    for one in asking:
        one.start()
    until(lambda: int(haproxy.column("BACKEND", "scur")) == 30, 10)
    for triton in three:
        triton.go_on.set()
    for one in asking:
        one.join(30)
    shares = Counter(answers)
    assert set(shares) == {b"1", b"2", b"3"}
    assert all(8 <= share <= 12 for share in shares.values()), shares


def test_one_connection_of_a_client_is_shared_too(
    haproxy: ThreeBackendHaproxy, three: list[Triton]
) -> None:
    """Each request goes its own way: keep-alive binds a client to the load balancer only."""
    shares: Counter[bytes] = Counter()
    connection = http.client.HTTPConnection("127.0.0.1", haproxy.http_port, timeout=10)
    for _ in range(300):
        connection.request("GET", "/v2")
        shares[connection.getresponse().read()] += 1
    connection.close()
    assert all(95 <= share <= 105 for share in shares.values()), shares
    assert len(shares) == 3
