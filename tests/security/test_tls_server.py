"""A master's port that speaks TLS: who gets in, what is said to the others, and how fast it is."""

import asyncio
import contextlib
import gc
import http.client
import json
import socket
import ssl
import statistics
import threading
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from certificates import Authority, Issued
from fake_master import TOKEN, FakeMaster
from starlette.types import Receive, Scope, Send

from tarn.http.server import HttpServer
from tarn.testing.wait import until
from tarn.tls.contexts import MasterTls, server_context

pytestmark = pytest.mark.usefixtures("each_way")

AUTH = {"X-TARN-Token": TOKEN.decode()}


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def context(authority: Authority) -> ssl.SSLContext:
    """What a master listens with: it asks clients for a certificate, and does without."""
    return server_context(whole(authority.issue("master")), authority.ca)


def whole(issued: Issued) -> Path:
    """Return the file that a master has: key and certificate in one."""
    path = issued.cert.with_suffix(".pem")
    path.write_bytes(issued.key.read_bytes() + issued.cert.read_bytes())
    return path


@pytest.fixture
def master(context: ssl.SSLContext) -> Iterator[FakeMaster]:
    with FakeMaster(tls=context) as one:
        yield one


def knowing(authority: Authority, own: Issued | None = None) -> ssl.SSLContext:
    """Return a client's context."""
    made = ssl.create_default_context(cafile=str(authority.ca))
    if own is not None:
        made.load_cert_chain(own.cert, own.key)
    return made


def asking(master: FakeMaster, client: ssl.SSLContext) -> httpx.Client:
    return httpx.Client(base_url=master.url, verify=client, trust_env=False, headers=AUTH)


def test_every_answer_is_https_and_says_so(master: FakeMaster, authority: Authority) -> None:
    """Good answers and errors carry HSTS; the url is the one that clients are told."""
    assert master.url.startswith("https://127.0.0.1:")
    with asking(master, knowing(authority)) as web:
        for path, status in (("/api/v1/status", 200), ("/health", 200), ("/nowhere", 404)):
            answer = web.get(path)
            assert answer.status_code == status
            assert answer.headers["Strict-Transport-Security"].startswith("max-age=")
        refused = web.get("/api/v1/status", headers={"X-TARN-Token": "wrong"})
        assert (refused.status_code, len(refused.headers.get_list("date"))) == (401, 1)
        assert "Strict-Transport-Security" in refused.headers


def test_prometheus_may_bring_the_token_in_the_query(
    master: FakeMaster, authority: Authority
) -> None:
    """`/metrics?token=` over HTTPS, as the first documents promise; nowhere else."""
    with httpx.Client(base_url=master.url, verify=knowing(authority), trust_env=False) as web:
        query = {"token": TOKEN.decode()}
        assert web.get("/metrics", params=query).status_code == 200
        assert web.get("/metrics", params={"token": "wrong"}).status_code == 401
        assert web.get("/config", params=query).status_code == 401


class Told:
    """An application that answers with what the scope tells of the peer's certificate."""

    def close(self) -> None:
        """Nothing is open."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            while True:
                kind = (await receive())["type"]
                await send({"type": f"{kind}.complete"})
                if kind == "lifespan.shutdown":
                    return
        said = {"tls": scope.get("extensions", {}).get("tls", "none"), "scheme": scope["scheme"]}
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": json.dumps(said).encode()})


LARGE = 4 * 2**20


class Large(Told):
    """An application whose answers are larger than what the kernel takes."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            return await super().__call__(scope, receive, send)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        return await send({"type": "http.response.body", "body": bytes(LARGE)})


@pytest.fixture
def told(context: ssl.SSLContext) -> Iterator[HttpServer]:
    server = HttpServer(tls=context)
    server.start(Told())
    yield server
    server.close()


def heard_on(server: HttpServer, client: ssl.SSLContext) -> httpx.Client:
    return httpx.Client(verify=client, trust_env=False)


def heard(server: HttpServer, client: ssl.SSLContext) -> Any:
    with httpx.Client(verify=client, trust_env=False) as web:
        return web.get(server.url).json()["tls"]


def test_the_peers_name_is_what_it_has_proven(told: HttpServer, authority: Authority) -> None:
    """A certificate of the right authority for a client's use; without one there is no name."""
    proxy = authority.issue("knox1", (), client=True)
    assert heard(told, knowing(authority, proxy)) == {"client_cert_name": "knox1"}
    assert heard(told, knowing(authority)) == {"client_cert_name": None}


def test_without_tls_there_is_no_such_thing() -> None:
    """Nobody takes an empty name of a plain connection for a proof."""
    server = HttpServer()
    server.start(Told())
    try:
        assert httpx.get(server.url, trust_env=False).json() == {"tls": "none", "scheme": "http"}
    finally:
        server.close()


def test_a_certificate_that_proves_nothing_is_refused(
    told: HttpServer, authority: Authority, tmp_path: Path
) -> None:
    """Of another authority with the same name, expired, or meant for a server."""
    impostor = Authority(tmp_path / "other", "authority").issue("knox1", (), client=True)
    late = authority.issue("knox1", (), client=True, days=(-9, -1), file="late")
    server = authority.issue("knox1", (), file="server")
    for own in (impostor, late, server):
        with pytest.raises(httpx.TransportError):
            heard(told, knowing(authority, own))
    assert heard(told, knowing(authority)) == {"client_cert_name": None}


def test_only_who_proves_itself_by_a_certificate_is_asked_for_one(
    authority: Authority, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """What others show, which YARN's proxy does, is not looked at; nobody is proven by it."""
    own = whole(authority.issue("master"))
    asks = "127.0.0.2".__eq__
    tls = MasterTls(server_context(own), server_context(own, authority.ca), asks)
    stranger = Authority(tmp_path, "stranger").issue("knox1", (), client=True)
    proxy = authority.issue("knox1", (), client=True)
    server = HttpServer(tls=tls)
    server.start(Told())

    def heard_from(address: str, own: Issued) -> Any:
        way = httpx.HTTPTransport(local_address=address, verify=knowing(authority, own))
        with httpx.Client(transport=way, trust_env=False) as web:
            return web.get(server.url).json()["tls"]

    try:
        for shown in (stranger, proxy):
            assert heard_from("127.0.0.1", shown) == {"client_cert_name": None}
        assert heard_from("127.0.0.2", proxy) == {"client_cert_name": "knox1"}
        with caplog.at_level("INFO"):
            with pytest.raises(httpx.TransportError):
                heard_from("127.0.0.2", stranger)
            until(lambda: "the TLS handshake with 127.0.0.2 failed: " in caplog.text)
    finally:
        server.close()


def test_a_resumed_session_proves_nothing_by_itself(told: HttpServer, authority: Authority) -> None:
    """There is none: a certificate would not be looked at again."""
    client = knowing(authority, authority.issue("knox1", (), client=True))
    with (
        socket.create_connection(("127.0.0.1", told.port), timeout=5) as raw,
        client.wrap_socket(raw, server_hostname="localhost") as first,
    ):
        first.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        while first.recv(4096):
            pass
        assert first.session is None or not first.session.has_ticket


@pytest.mark.parametrize(
    ("version", "gets_in"),
    [
        (ssl.TLSVersion.TLSv1_1, False),
        (ssl.TLSVersion.TLSv1_2, True),
        (ssl.TLSVersion.TLSv1_3, True),
    ],
)
def test_tls_1_2_or_newer(
    told: HttpServer, authority: Authority, version: ssl.TLSVersion, gets_in: bool
) -> None:
    """Older clients are refused in the handshake."""
    client = knowing(authority)
    client.set_ciphers("DEFAULT:@SECLEVEL=0")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of versions that nobody should use
        client.minimum_version = client.maximum_version = version
    if gets_in:
        assert heard(told, client)
        return
    with pytest.raises(httpx.ConnectError):
        heard(told, client)


def test_plain_http_is_told_what_the_port_speaks(told: HttpServer) -> None:
    """In JSON, with the right address; and a client of ours says it in words."""
    answer = httpx.get(f"http://127.0.0.1:{told.port}/health", trust_env=False)
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert error["found"] == "this port speaks HTTPS only"
    assert told.url in error["right"]


def test_a_long_plain_request_hears_it_too(told: HttpServer) -> None:
    """The answer is not lost in what was not read."""
    answer = httpx.put(
        f"http://127.0.0.1:{told.port}/api/v1/scale", content=bytes(50_000), trust_env=False
    )
    assert answer.status_code == 400


def test_who_says_nothing_is_hung_up_on_and_takes_no_place(context: ssl.SSLContext) -> None:
    """Before the handshake, within it, and after it, each for as long as a head may take."""
    server = HttpServer(tls=context, head_within_s=0.4)
    server.start(Told())
    try:
        lines = [socket.create_connection(("127.0.0.1", server.port), timeout=5) for _ in range(3)]
        lines[1].sendall(b"\x16\x03\x01\x02\x00")  # a hello that never ends
        lines[2].sendall(b"\x16\x03\x01\x00\x05hello")  # one that is none
        for line in lines:
            start_s = time.monotonic()
            while line.recv(100):
                pass
            assert time.monotonic() - start_s < 3
            line.close()
    finally:
        server.close()


def test_nobody_takes_all_places_by_saying_nothing(
    context: ssl.SSLContext, authority: Authority
) -> None:
    """Before the handshake, in the middle of it and after it: the longest silent one goes."""
    server = HttpServer(tls=context, most=16)
    server.start(Told())
    place = ("127.0.0.1", server.port)
    try:
        with contextlib.ExitStack() as held, heard_on(server, knowing(authority)) as web:
            assert web.get(server.url).status_code == 200
            for number in range(60):
                line = held.enter_context(socket.create_connection(place, timeout=5))
                if number % 3 == 1:
                    line.sendall(b"\x16\x03\x01")
                elif number % 3 == 2:
                    line = knowing(authority).wrap_socket(line, server_hostname="localhost")
                    held.enter_context(line)
                assert heard(server, knowing(authority)) == {"client_cert_name": None}
            assert len(server._places) <= 8
    finally:
        server.close()


def test_a_slow_head_over_tls_is_hung_up_on(context: ssl.SSLContext, authority: Authority) -> None:
    """As over plain HTTP: a byte a minute holds no connection."""
    server = HttpServer(tls=context, head_within_s=0.4)
    server.start(Told())
    try:
        with (
            socket.create_connection(("127.0.0.1", server.port), timeout=5) as raw,
            knowing(authority).wrap_socket(raw, server_hostname="localhost") as line,
        ):
            line.sendall(b"GET / HTTP/1.1\r\nHost:")
            assert line.recv(100) == b""
    finally:
        server.close()


def test_closing_takes_less_than_a_second_with_clients_at_rest(
    context: ssl.SSLContext, authority: Authority
) -> None:
    """Nobody's goodbye is waited for; a stream ends properly."""
    with FakeMaster(tls=context) as master, asking(master, knowing(authority)) as web:
        assert web.get("/health").status_code == 200  # its connection rests in the pool
        line = http.client.HTTPSConnection(
            "127.0.0.1", master.server.port, timeout=5, context=knowing(authority)
        )
        line.request("GET", "/api/v1/stream", headers={**AUTH, "Accept": "text/event-stream"})
        answer = line.getresponse()
        start_s = time.monotonic()
        master.server.close()
        assert time.monotonic() - start_s < 3.0
        answer.read()  # a proper end, not a cut
        line.close()


def test_an_ended_server_leaves_no_connection_behind(
    context: ssl.SSLContext,
    authority: Authority,
    monkeypatch: pytest.MonkeyPatch,
    recwarn: pytest.WarningsRecorder,
) -> None:
    """Before, within and after the handshake, in the middle of a head, and of an answer."""

    class Endless(Large):
        async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] == "lifespan":
                return await super().__call__(scope, receive, send)
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": bytes(LARGE), "more_body": True})
            return await asyncio.get_running_loop().create_future()

    monkeypatch.setenv("PYTHONASYNCIODEBUG", "1")  # a loop tells what it still had when it closed
    server = HttpServer(tls=context)
    server.start(Endless())
    place = ("127.0.0.1", server.port)
    with contextlib.ExitStack() as held:
        for sent in (b"", b"\x16\x03\x01\x02"):
            held.enter_context(socket.create_connection(place, timeout=5)).sendall(sent)
        for sent in (b"", b"GET /hea", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"):
            raw = held.enter_context(socket.create_connection(place, timeout=5))
            line = knowing(authority).wrap_socket(raw, server_hostname="localhost")
            held.enter_context(line).sendall(sent)
        assert line.recv(1)
        start_s = time.monotonic()
        server.close()
        assert time.monotonic() - start_s < 3.0
        gc.collect()
    assert not [str(told.message) for told in recwarn]


def test_a_large_answer_is_whole_for_a_slow_reader(
    context: ssl.SSLContext, authority: Authority
) -> None:
    """Closing after the answer waits until it was taken."""
    server = HttpServer(tls=context)
    server.start(Large())
    try:
        with (
            socket.create_connection(("127.0.0.1", server.port), timeout=5) as raw,
            knowing(authority).wrap_socket(raw, server_hostname="localhost") as line,
        ):
            line.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            got, pause = 0, threading.Event()
            while part := line.recv(2**16):
                got += len(part)
                pause.wait(0.01)
            assert got > LARGE
    finally:
        server.close()


def test_one_connection_is_as_fast_as_promised(master: FakeMaster, authority: Authority) -> None:
    """p50 under 5 ms: nothing waits for an acknowledgement (Nagle, 44 ms) behind TLS either.

    On a machine that is too busy for that, it takes not much more than without TLS.
    """
    with FakeMaster() as plain:
        usual_s = _median_s(plain, knowing(authority))
        assert _median_s(master, knowing(authority)) < max(0.005, 3 * usual_s)


def _median_s(master: FakeMaster, client: ssl.SSLContext) -> float:
    with asking(master, client) as web:
        web.get("/api/v1/status")
        times = []
        for _ in range(100):
            start_s = time.perf_counter()
            assert web.get("/api/v1/status").status_code == 200
            times.append(time.perf_counter() - start_s)
    return statistics.median(times)
