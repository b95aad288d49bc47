"""Which ``Host`` is the master's: a page whose name was led here (DNS rebinding) has another."""

import http.client
import json

import pytest
from fake_master import TOKEN, FakeMaster

from tarn.domain import ProxyRule
from tarn.http.authenticator import KnownProxy, Proofs
from tarn.http.issued_tokens import WINDOW, Nonces
from tarn.http.request import Hosts
from tarn.tls.contexts import network

pytestmark = pytest.mark.usefixtures("each_way")

LOCAL = ("127.0.0.1", 40001)
AWAY = ("10.0.0.7", 40001)
NODE = Hosts.of(("node1.example.org",), ("fleet.example.org", "localhost:8080"))


@pytest.mark.parametrize(
    ("host", "local", "known", "reached"),
    [
        ("127.0.0.1:40001", LOCAL, True, True),
        ("localhost:40001", LOCAL, True, True),
        ("LOCALHOST:40001", LOCAL, True, True),
        ("localhost:9", LOCAL, True, False),
        ("localhost:8080", AWAY, True, True),
        ("localhost:40001", AWAY, False, False),
        ("10.0.0.7:40001", AWAY, True, True),
        ("10.0.0.8:40001", AWAY, False, False),
        ("node1.example.org:40001", AWAY, True, True),
        ("node1:40001", AWAY, True, True),
        ("node1.evil.example:40001", AWAY, False, False),
        ("fleet.example.org:40001", AWAY, True, True),
        ("fleet.example.org:443", AWAY, True, False),
        ("evil.example:40001", LOCAL, False, False),
        ("127.0.0.1.evil.example:40001", LOCAL, False, False),
        ("localhost.evil.example", LOCAL, False, False),
        ("localhost:40001,evil.example", LOCAL, False, False),
        ("[::1]:40001", ("::1", 40001), True, True),
        ("[::1]", ("::1", 80), True, True),
        ("", LOCAL, True, False),
        (":40001", LOCAL, False, False),
        ("localhost:x", LOCAL, False, False),
    ],
)
def test_a_host_is_known_and_reached(
    host: str, local: tuple[str, int], known: bool, reached: bool
) -> None:
    """Known: no page of somebody else's. Reached: nobody stands between."""
    assert NODE.known(host, local) is known
    assert NODE.reached(host, local) is reached


def test_the_short_form_of_an_address_is_none() -> None:
    """``10`` would be anybody's."""
    assert Hosts.of(("10.0.0.7",)).names == {"10.0.0.7"}


def ask(
    master: FakeMaster, method: str, path: str, host: str | None, **headers: str
) -> tuple[int, str]:
    line = http.client.HTTPConnection("127.0.0.1", master.server.port, timeout=5)
    line.putrequest(method, path, skip_host=True)
    if host is not None:
        line.putheader("Host", host)
    body = b"{}" if method == "PUT" else b""
    every = {"Content-Type": "application/json", "Content-Length": str(len(body)), **headers}
    for name, value in every.items():
        line.putheader(name.replace("_", "-"), value)
    line.endheaders(body)
    answer = line.getresponse()
    text = answer.read().decode()
    line.close()
    return answer.status, text


def test_a_page_whose_name_was_led_here_scales_nothing() -> None:
    """Its Origin is its Host, so only the name tells."""
    with FakeMaster(api_token=None) as master:
        page = f"rebound.example:{master.server.port}"
        for path in ("/api/v1/down", "/api/v1/resume"):
            status, text = ask(master, "PUT", path, page, Origin=f"http://{page}")
            assert status == 421
            error = json.loads(text)["error"]
            assert error["code"] == "TARN-3713"
            assert "rebound.example" in error["found"]
            assert "api.hosts" in error["next_step"]
            assert "127.0.0.1" in error["right"]
        for path in ("/api/v1/status", "/instances", "/config", "/metrics", "/", "/api/v1/events"):
            assert ask(master, "GET", path, page)[0] == 421, path
        assert master.commands == []
        own = f"localhost:{master.server.port}"
        assert ask(master, "PUT", "/api/v1/resume", own, Origin=f"http://{own}")[0] == 200


def test_what_a_page_cannot_send_may_name_any_host() -> None:
    """A balancer's check, a Prometheus or a tunnel with a token, a proxy with a proof."""
    proxy = KnownProxy(
        "lb1", network("127.0.0.1"), "token", b"the-token-of-a-proxy", frozenset("*")
    )
    with FakeMaster(proofs=Proofs((proxy,))) as master:
        for path in ("/health", "/livez", "/readyz"):
            assert ask(master, "GET", path, "lb.example.org")[0] == 200
        token = {"X_TARN_Token": TOKEN.decode()}
        assert ask(master, "GET", "/metrics", "tarn.example.org", **token)[0] == 200
        assert ask(master, "GET", f"/metrics?token={TOKEN.decode()}", "tarn.example.org")[0] == 200
        for_alice = {"X_TARN_Token": "the-token-of-a-proxy", "X_TARN_User": "alice"}
        assert ask(master, "GET", "/api/v1/status", "lb.example.org", **for_alice)[0] == 200
        for_nobody = {**for_alice, "X_TARN_User": "anonymous"}
        assert ask(master, "GET", "/api/v1/status", "lb.example.org", **for_nobody)[0] == 200


def test_the_cookie_of_yarns_proxy_counts_for_the_masters_own_name_only() -> None:
    """A page on the proxy's own machine can write such a cookie itself."""
    rule = ProxyRule(frozenset({"127.0.0.1"}), "alice", proves=True)
    with FakeMaster(proxy=rule, hosts=Hosts.of(("node1.example.org",))) as master:
        alice = {"Cookie": "proxy-user=alice"}
        port = master.server.port
        assert ask(master, "GET", "/api/v1/me", f"node1.example.org:{port}", **alice)[0] == 200
        assert ask(master, "GET", "/api/v1/me", f"evil.example:{port}", **alice)[0] == 421


def test_each_count_of_a_nonce_is_taken_once_in_any_order() -> None:
    """Requests of one client may overtake one another."""
    nonces = Nonces()
    nonce = nonces.give()
    taken = [nonces.take(nonce, count) for count in (2, 1, 5, 3, 4, 2, 5, 1, 0, -1)]
    assert taken == [True] * 5 + [False] * 5
    assert nonces.take(nonce, 10**14)
    assert not nonces.take(nonce, 6)
    assert nonces.take(nonce, 10**14 - WINDOW)
    assert not nonces.take(nonce, 10**14 - WINDOW - 1)


def test_a_nonce_of_nobody_or_of_another_master_is_not_taken() -> None:
    """Only a master knows what it gave."""
    nonces, other = Nonces(), Nonces()
    nonce = nonces.give()
    other.give()
    for wrong in ("", "1", "1-", "0-", "-1-aa", nonce.replace("1-", "2-"), "9" * 30 + "-a", "²-a"):
        assert not nonces.take(wrong, 1)
    assert not other.take(nonce, 1)
    assert nonces.take(nonce, 1)


def test_of_too_many_nonces_the_one_that_rested_longest_is_void() -> None:
    """And with it each as old that was never used: what is forgotten must not count again."""
    nonces = Nonces(most=2)
    first, unused, second, third = (nonces.give() for _ in range(4))
    assert nonces.take(second, 1)
    assert nonces.take(first, 1)
    assert nonces.take(second, 2)
    assert nonces.take(third, 1)  # forgets the first
    assert not nonces.take(first, 1)
    assert nonces.take(unused, 1)  # younger than the forgotten one; forgets the second
    assert not nonces.take(second, 1)
