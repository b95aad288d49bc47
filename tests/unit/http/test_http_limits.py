"""What one caller may take from the others: streams, and patience."""

import contextlib
import http.client
import socket
import threading

import httpx
import pytest
from fake_master import FakeMaster, PolicyAuthorizer

from tarn.domain import Principal
from tarn.http import answers
from tarn.http import feed as feeds
from tarn.http.authenticator import KnownProxy, Proofs
from tarn.http.blocking_pool import DirectAuthorizer
from tarn.http.feed import StreamPlaces
from tarn.tls.contexts import network

pytestmark = pytest.mark.usefixtures("each_way")

STREAM = {"Accept": "text/event-stream"}


def _until(what: object, expected: object) -> bool:
    """Whether ``what()`` becomes *expected* within five seconds."""
    assert callable(what)
    pause = threading.Event()
    return any(what() == expected or pause.wait(0.02) for _ in range(250))


def test_a_stream_that_was_left_frees_its_place() -> None:
    """A reader that vanishes is noticed without a word from it."""
    with FakeMaster(api_token=None) as master:
        streams = lambda: len(master.app._api._places)  # noqa: E731
        connection = http.client.HTTPConnection("127.0.0.1", master.server.port, timeout=5)
        connection.request("GET", "/api/v1/stream", headers=STREAM)
        answer = connection.getresponse()
        answer.readline()
        assert _until(streams, 1)
        answer.close()
        connection.close()
        assert _until(streams, 0)


def test_too_many_streams_are_503_and_the_rest_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Streams never take the connections that commands need."""
    monkeypatch.setattr(feeds, "MOST_STREAMS", 1)
    monkeypatch.setattr(feeds, "KEPT_FOR_FEW", 0)
    with (
        FakeMaster(api_token=None) as master,
        httpx.Client(trust_env=False) as web,
        web.stream("GET", f"{master.url}/api/v1/stream", headers=STREAM) as first,
    ):
        parts = first.iter_raw()  # held: dropping it would close the stream
        assert next(parts)
        second = web.get(f"{master.url}/api/v1/events", headers=STREAM)
        assert (second.status_code, second.headers["Retry-After"]) == (503, "10")
        assert web.get(f"{master.url}/api/v1/status").status_code == 200


def test_who_may_only_look_leaves_streams_to_who_follows(monkeypatch: pytest.MonkeyPatch) -> None:
    """A share each; a follower that comes again gets its stream, whoever looks meanwhile."""
    monkeypatch.setattr(feeds, "MOST_STREAMS", 6)
    monkeypatch.setattr(feeds, "KEPT_FOR_FOLLOWERS", 2)
    monkeypatch.setattr(feeds, "KEPT_FOR_FEW", 1)
    monkeypatch.setattr(feeds, "EACH_VIEWER", 3)
    own = b"the-own-token-of-one-load-balancer"
    lb = KnownProxy("lb1", network("127.0.0.1"), "token", own, users=frozenset({"*"}))
    rights = {(user, "view", "") for user in ("alice", "bob")}
    with (
        FakeMaster(
            proofs=Proofs((lb,)), gate=DirectAuthorizer(PolicyAuthorizer(rights=rights))
        ) as one,
        httpx.Client(base_url=one.url, trust_env=False) as web,
        contextlib.ExitStack() as open_ones,
    ):

        def read(user: str) -> int:
            proof = {"X-TARN-Token": own.decode(), **({"X-TARN-User": user} if user else {})}
            stream = web.stream("GET", "/api/v1/stream", headers={**STREAM, **proof})
            return open_ones.enter_context(stream).status_code

        assert [read("alice") for _ in range(4)] == [200, 200, 200, 503]
        assert [read("bob") for _ in range(2)] == [200, 503]
        assert [read(""), read("")] == [200, 200]
        assert read("bob") == 503


def test_a_follower_with_many_streams_leaves_some_to_the_others() -> None:
    """As many as there are, less those for load balancers that look again."""
    places, owner, lb = StreamPlaces(), Principal("owner", via="token"), Principal("lb1", via="x")
    taken = 0
    while not places.take(owner, follows=True):
        taken += 1
    assert taken == feeds.MOST_STREAMS - feeds.KEPT_FOR_FEW
    assert places.take(Principal("alice", via="spnego"), follows=False)
    assert not any(places.take(lb, follows=True) for _ in range(feeds.FEW))
    assert places.take(lb, follows=True)
    for _ in range(taken):
        places.give_back(owner)
    assert len(places) == feeds.FEW


def test_a_body_that_never_comes_is_408(monkeypatch: pytest.MonkeyPatch) -> None:
    """A declared length without the bytes holds nothing for long."""
    monkeypatch.setattr(answers, "BODY_WITHIN_S", 0.05)
    with (
        FakeMaster(api_token=None) as master,
        socket.create_connection(("127.0.0.1", master.server.port), timeout=5) as raw,
    ):
        raw.sendall(
            b"PUT /api/v1/scale HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"Content-Length: 100\r\n\r\n{"
        )
        assert raw.recv(100).startswith(b"HTTP/1.1 408 ")
        assert master.commands == []


def test_a_web_socket_is_refused() -> None:
    """There is none; the answer is a refusal, not a crash."""
    with FakeMaster(api_token=None) as master:
        headers = {
            "Upgrade": "websocket",
            "Connection": "Upgrade",
            "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
            "Sec-WebSocket-Version": "13",
        }
        answer = httpx.get(f"{master.url}/ws", headers=headers, trust_env=False)
    assert answer.status_code == 404
