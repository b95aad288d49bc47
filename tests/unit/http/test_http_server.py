"""The listening socket and its thread."""

import asyncio
import contextlib
import http.client
import socket
import sys
import threading
import time
from importlib.util import find_spec

import httpx
import pytest
from asking import has_ipv6
from fake_master import TOKEN, FakeMaster, instance, snapshot

from tarn.errors import LaunchError, ProviderError
from tarn.follow import MasterApi
from tarn.http.rights import Sources
from tarn.http.server import HttpServer, new_loop

pytestmark = pytest.mark.usefixtures("each_way")


def test_port_zero_takes_a_free_one_before_the_start() -> None:
    """The address is known, and connections queue, before anything is served."""
    server = HttpServer()
    try:
        assert server.url == f"http://127.0.0.1:{server.port}"
        socket.create_connection(("127.0.0.1", server.port), timeout=5).close()
    finally:
        server.close()


def test_a_fixed_port_that_is_taken_fails_with_its_code() -> None:
    """Nothing was started; the message names the address and what to do."""
    first = HttpServer()
    try:
        with pytest.raises(LaunchError, match=rf"127\.0\.0\.1:{first.port}") as caught:
            HttpServer(port=first.port)
        assert caught.value.code == "TARN-3103"
    finally:
        first.close()


def test_a_restarted_master_gets_its_port_back_if_it_is_free() -> None:
    """And another one if it is not."""
    first = HttpServer()
    second = HttpServer(preferred=first.port)
    assert second.port != first.port
    first.close()
    third = HttpServer(preferred=first.port)
    assert third.port == first.port
    second.close()
    third.close()


@pytest.mark.skipif(not has_ipv6(), reason="this machine has no ::1")
def test_a_master_listens_at_an_address_of_ipv6() -> None:
    """And its URL leads there, for every client of it."""
    with FakeMaster(host="::1") as master, MasterApi(master.url, TOKEN.decode()) as api:
        assert master.url == f"http://[::1]:{master.server.port}"
        assert httpx.get(f"{master.url}/livez", trust_env=False).status_code == 200
        assert api.status()["name"] == "llama"


def test_the_advertised_host_is_in_the_url() -> None:
    """Listening on every address, found under one."""
    server = HttpServer("127.0.0.1", advertised="nm-12")
    assert server.url == f"http://nm-12:{server.port}"
    server.close()


def test_closing_ends_within_a_second_although_streams_are_open() -> None:
    """A master that leaves does not wait for its readers."""
    with FakeMaster(api_token=None) as master:
        connections = []
        for path in ("events", "decisions", "stream"):
            connection = http.client.HTTPConnection("127.0.0.1", master.server.port, timeout=5)
            connection.request("GET", f"/api/v1/{path}", headers={"Accept": "text/event-stream"})
            connections.append((connection, connection.getresponse()))
        start_s = time.monotonic()
        master.server.close()
        assert time.monotonic() - start_s < 3.0
        for connection, answer in connections:
            answer.read()  # a proper end, not a cut
            connection.close()


def test_closing_twice_or_unstarted_is_harmless() -> None:
    """Idempotent."""
    server = HttpServer()
    server.close()
    server.close()


def test_no_thread_is_left_behind() -> None:
    """The owner of the thread ends it."""
    before = set(threading.enumerate())
    with FakeMaster():
        assert "http" in {t.name for t in threading.enumerate()}
    assert set(threading.enumerate()) <= before


def test_who_never_finishes_a_head_is_hung_up_on() -> None:
    """A byte now and then does not hold a connection; a second request is timed too."""
    master = FakeMaster(api_token=None)
    master.server.close()
    master.server = HttpServer(head_within_s=0.5)
    with master:
        address = ("127.0.0.1", master.server.port)
        fresh = socket.create_connection(address, timeout=5)
        kept = socket.create_connection(address, timeout=5)
        kept.sendall(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
        answered = b""
        while not answered.endswith(b"OK\n"):
            answered += kept.recv(1000)
        for slow in (fresh, kept):
            with contextlib.suppress(ConnectionError):  # its time was over before this was sent
                slow.sendall(b"GET /livez HTTP/1.1\r\nHo")
                assert slow.recv(1000) == b""
            slow.close()


def test_uvloop_serves_where_it_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """And asyncio where it is not."""
    own = new_loop()
    own.close()
    assert type(own).__module__.startswith("uvloop") == (find_spec("uvloop") is not None)
    monkeypatch.setitem(sys.modules, "uvloop", None)
    other = new_loop()
    other.close()
    assert isinstance(other, asyncio.SelectorEventLoop)


def test_a_stream_outlives_the_time_for_a_head() -> None:
    """Only waiting for a head is timed."""
    master = FakeMaster(api_token=None)
    master.server.close()
    master.server = HttpServer(head_within_s=0.3)
    with master:
        connection = http.client.HTTPConnection("127.0.0.1", master.server.port, timeout=5)
        connection.request("GET", "/api/v1/stream", headers={"Accept": "text/event-stream"})
        answer = connection.getresponse()
        whole = [answer.readline() for _ in range(7)]
        assert whole[0] == b"event: instances\n"
        threading.Event().wait(0.9)
        master.publish(desired=6)
        change = [answer.readline() for _ in range(4)]
        assert b'"desired": 6' in change[2]
        answer.close()
        connection.close()


def test_a_silent_control_thread_is_503() -> None:
    """The command may still be obeyed later, and the answer says so; its future is not cut."""
    with FakeMaster() as master:
        master.app._api._answer_within_s = 0.05
        master.silent = True
        headers = {"X-TARN-Token": TOKEN.decode()}
        with httpx.Client(headers=headers, trust_env=False) as web:
            answer = web.put(f"{master.url}/api/v1/resume")
            assert (answer.status_code, answer.json()["error"]["code"]) == (503, "TARN-4002")
            assert "may still carry out the command" in answer.json()["error"]["next_step"]
            (request,) = master.inbox.drain()
            request.answer.set_exception(ProviderError("master", "too late"))
            master.app._api._answer_within_s = 20.0
            master.silent = False
            assert web.put(f"{master.url}/api/v1/resume").status_code == 200


def test_a_full_inbox_is_503_with_retry_after() -> None:
    """Nothing blocks; who asks is told when to come again."""
    with FakeMaster(api_token=None) as master:
        master.app._api._answer_within_s = 0.01
        master.silent = True
        while not master.inbox.ask(object()).done():  # type: ignore[arg-type]
            pass
        answer = httpx.put(f"{master.url}/api/v1/resume", trust_env=False)
        master.inbox.drain()
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "1")


def test_the_token_is_in_no_repr() -> None:
    """Neither of what is handed over, nor of who checks it."""
    with FakeMaster(snapshot(instance(1))) as master:
        sources: Sources = master.app._sources
        assert TOKEN.decode() not in repr(sources) + repr(master.app._admission._identity)
