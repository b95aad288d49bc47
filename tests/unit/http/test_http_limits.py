"""What one caller may take from the others: streams, and patience."""

import http.client
import socket
import threading

import httpx
import pytest
from fake_master import FakeMaster

from tarn.http import api as apis
from tarn.http import body as bodies

STREAM = {"Accept": "text/event-stream"}


def _until(what: object, expected: object) -> bool:
    """Whether ``what()`` becomes *expected* within five seconds."""
    assert callable(what)
    pause = threading.Event()
    return any(what() == expected or pause.wait(0.02) for _ in range(250))


def test_a_stream_that_was_left_frees_its_place() -> None:
    """A reader that vanishes is noticed without a word from it."""
    with FakeMaster(api_token=None) as master:
        streams = lambda: master.app._api._streams  # noqa: E731
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
    monkeypatch.setattr(apis, "MOST_STREAMS", 1)
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


def test_a_body_that_never_comes_is_408(monkeypatch: pytest.MonkeyPatch) -> None:
    """A declared length without the bytes holds nothing for long."""
    monkeypatch.setattr(bodies, "BODY_WITHIN_S", 0.05)
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
