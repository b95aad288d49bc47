"""The api token over plain HTTP: both sides prove that they hold it, and nobody sends it."""

import contextlib
import socket
import socketserver
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from fake_master import TOKEN, FakeMaster

from tarn.domain import Scale
from tarn.errors import (
    NotAuthorizedError,
    NotFoundError,
    RefusedError,
    TarnError,
    UnreachableError,
)
from tarn.follow import MasterApi
from tarn.http.authenticator import KnownProxy, Proofs
from tarn.http.request import Hosts
from tarn.plain.credentials import RequestProof, SignedParts, proof_key
from tarn.tls.contexts import network

UNPROVEN = "TARN-3703"


class Listener(socketserver.ThreadingTCPServer):
    """Somebody else's program at a port; keeps every byte that it gets."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, answer: bytes = b"", relay: tuple[str, int] | None = None) -> None:
        self.got = bytearray()
        self.answer, self.relay = answer, relay
        super().__init__(("127.0.0.1", 0), _Heard)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Heard(socketserver.BaseRequestHandler):
    server: Listener

    def handle(self) -> None:
        with contextlib.suppress(OSError):
            while data := message(self.request):
                self.server.got += data
                answer = self._answer(data)
                self.request.sendall(answer)
                if not answer.startswith(b"HTTP/"):
                    return  # what speaks another protocol hangs up on this one

    def _answer(self, data: bytes) -> bytes:
        if self.server.relay is None:
            return self.server.answer
        with socket.create_connection(self.server.relay, timeout=5) as master:
            master.sendall(data)
            return message(master)


def message(line: socket.socket) -> bytes:
    """Return one request or answer; empty: there is none any more."""
    data = b""
    while b"\r\n\r\n" not in data:
        if not (more := line.recv(65536)):
            return data
        data += more
    head, _, body = data.partition(b"\r\n\r\n")
    length = head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0]
    while len(body) < int(length or 0) and (more := line.recv(65536)):
        body += more
    return head + b"\r\n\r\n" + body


@contextlib.contextmanager
def listening(**how: Any) -> Iterator[Listener]:
    with Listener(**how) as listener:
        thread = threading.Thread(target=listener.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield listener
        finally:
            listener.shutdown()
            thread.join(5)


def answer(status: str, body: str = "{}", *headers: str) -> bytes:
    lines = "".join(f"{line}\r\n" for line in headers)
    head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    return f"{head}{lines}\r\n{body}".encode()


@pytest.mark.parametrize(
    "said",
    [
        answer("200 OK", '{"name": "llama"}'),
        answer("401 Unauthorized", "{}", 'WWW-Authenticate: Bearer realm="tarn"'),
        answer("401 Unauthorized", "{}", 'WWW-Authenticate: TARN nonce=""'),
        answer("404 Not Found"),
        answer("302 Found", "", "Location: http://127.0.0.1:1/"),
        answer("503 Service Unavailable"),
        answer("429 Too Many Requests"),
        b"SSH-2.0-OpenSSH_9.2\r\n",
    ],
)
def test_no_token_reaches_who_does_not_prove_to_hold_it(said: bytes) -> None:
    """Whatever it answers, whatever is asked."""
    with listening(answer=said) as stranger, MasterApi(stranger.url, TOKEN.decode()) as api:
        for ask in (api.status, api.down, lambda: next(api.stream(give_up_s=0))):
            with pytest.raises(TarnError):
                ask()
    assert stranger.got
    assert TOKEN not in stranger.got


@pytest.mark.parametrize("status", ["200 OK", "401 Unauthorized", "404 Not Found"])
def test_who_answers_unproven_is_said_in_a_sentence(status: str) -> None:
    """It is unreachable by its own code, so that the master is looked for elsewhere."""
    with (
        listening(answer=answer(status)) as stranger,
        MasterApi(stranger.url, TOKEN.decode()) as api,
        pytest.raises(
            UnreachableError, match="did not prove that it is the cluster's master"
        ) as caught,
    ):
        api.status()
    assert caught.value.code == UNPROVEN
    assert stranger.url in str(caught.value)


def test_a_stranger_that_plays_the_game_gets_a_signature_and_is_not_believed() -> None:
    """It gives a nonce as a master does, then answers what it likes."""
    nonce = answer("401 Unauthorized", "{}", 'WWW-Authenticate: TARN nonce="1-abc"')
    with listening(answer=nonce) as stranger, MasterApi(stranger.url, TOKEN.decode()) as api:
        with pytest.raises(UnreachableError):
            api.status()
        stranger.answer = answer("200 OK", '{"name": "llama"}', f"X-TARN-Proof: {'0' * 64}")
        with pytest.raises(UnreachableError) as caught:
            api.status()
    assert caught.value.code == UNPROVEN
    assert b"TARN p1.1-abc." in stranger.got
    assert TOKEN not in stranger.got


@pytest.mark.parametrize("status", ["200 OK", "204 No Content", "404 Not Found", "409 Conflict"])
def test_no_answer_counts_without_the_masters_proof(status: str) -> None:
    """Not even that there is no such thing: a stranger would end a wait, or a drain."""
    nonce = answer("401 Unauthorized", "{}", 'WWW-Authenticate: TARN nonce="1-abc"')
    said = '{"error": {"code": "TARN-4000", "found": "it ended long ago"}}'
    with listening(answer=nonce) as stranger, MasterApi(stranger.url, TOKEN.decode()) as api:
        with pytest.raises(UnreachableError):
            api.status()
        stranger.answer = answer(status, said)
        with pytest.raises(UnreachableError) as caught:
            api.status()
    assert caught.value.code == UNPROVEN
    assert "long ago" not in str(caught.value)


def test_the_masters_own_refusals_are_believed() -> None:
    """They carry its proof, too."""
    with FakeMaster() as master, MasterApi(master.url, TOKEN.decode()) as api:
        with pytest.raises(RefusedError, match="above"):
            api.scale(9)
        with pytest.raises(NotFoundError):
            api.drain("nobody")
        with pytest.raises(NotFoundError):
            api.get("/nowhere")


def test_who_passes_everything_on_to_the_master_is_found_out() -> None:
    """The signature names the address that the client reached, which is not the master's."""
    with FakeMaster() as master:
        there = ("127.0.0.1", master.server.port)
        with listening(relay=there) as between, MasterApi(between.url, TOKEN.decode()) as api:
            with pytest.raises(UnreachableError, match="passed it on") as caught:
                api.scale(3)
            assert caught.value.code == "TARN-3713"
        assert TOKEN not in between.got
        assert master.commands == []


def test_a_tunnel_that_the_owner_knows_is_written_into_the_spec() -> None:
    """`api.hosts` names the address at its other end."""
    with listening() as between:
        tunnel = between.url.removeprefix("http://")
        with FakeMaster(hosts=Hosts.of((), (tunnel,))) as master:
            between.relay = ("127.0.0.1", master.server.port)
            with MasterApi(between.url, TOKEN.decode()) as api:
                assert api.status()["name"] == "llama"


def test_one_more_round_for_a_client_and_none_for_a_request() -> None:
    """The nonce is asked for once, and again when another master took over."""
    with FakeMaster() as master:
        there = ("127.0.0.1", master.server.port)
        with listening(relay=there) as between:
            master.app._admission._identity._hosts = Hosts.of((), (between.url[7:],))
            with MasterApi(between.url, TOKEN.decode()) as api:
                for _ in range(5):
                    api.status()
                assert between.got.count(b"GET ") == 6
                assert between.got.count(b"GET /api/v1/me ") == 1
                with FakeMaster(hosts=Hosts.of((), (between.url[7:],))) as later:
                    between.relay = ("127.0.0.1", later.server.port)
                    api.scale(2)
                    assert later.commands == [Scale(2)]
                assert between.got.count(b"GET /api/v1/me ") == 1


def sent(master: FakeMaster, data: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", master.server.port), timeout=5) as line:
        line.sendall(data)
        return message(line)


def nonce_of(master: FakeMaster) -> str:
    hello = b"GET /api/v1/me HTTP/1.1\r\nHost: localhost\r\nAuthorization: TARN\r\n\r\n"
    said = sent(master, hello).lower()
    return said.partition(b'tarn nonce="')[2].partition(b'"')[0].decode()


def signed(
    nonce: str,
    count: int,
    host: str,
    body: bytes,
    sends: bytes | None = None,
    *,
    token: bytes = TOKEN,
) -> bytes:
    parts = SignedParts("PUT", host, "/api/v1/scale")
    proof = RequestProof.of(proof_key(token), nonce, count, body, parts)
    content = body if sends is None else sends
    return (
        f"PUT /api/v1/scale HTTP/1.1\r\nHost: {host}\r\nAuthorization: TARN {proof}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
    ).encode() + content


def test_a_signed_request_counts_once_for_one_master_and_as_it_was_signed() -> None:
    """Whoever overheard it can do nothing with it."""
    body = b'{"replicas": 2}'
    with FakeMaster() as master, FakeMaster() as other:
        host = f"127.0.0.1:{master.server.port}"
        nonce = nonce_of(master)
        good = signed(nonce, 1, host, body)
        changed = signed(nonce, 2, host, body, b'{"replicas": 7}')
        assert sent(master, good).startswith(b"HTTP/1.1 200 ")
        assert sent(master, good).startswith(b"HTTP/1.1 401 ")
        assert sent(master, changed).startswith(b"HTTP/1.1 401 ")
        assert sent(master, good.replace(b"scale", b"pause")).startswith(b"HTTP/1.1 401 ")
        elsewhere = signed(nonce, 3, f"127.0.0.1:{other.server.port}", body)
        assert sent(master, elsewhere).startswith(b"HTTP/1.1 421 ")
        assert sent(other, elsewhere).startswith(b"HTTP/1.1 401 ")
        assert master.commands == [Scale(2)]
        assert other.commands == []


def test_a_signature_beside_a_token_is_refused() -> None:
    """Two proofs in one request are one too many."""
    with FakeMaster() as master:
        host = f"127.0.0.1:{master.server.port}"
        twice = signed(nonce_of(master), 1, host, b"{}").replace(
            b"Content-Type", b"X-TARN-Token: %s\r\nContent-Type" % TOKEN
        )
        assert sent(master, twice).startswith(b"HTTP/1.1 400 ")


def test_another_token_signs_nothing() -> None:
    """The master says what it always said."""
    with (
        FakeMaster() as master,
        MasterApi(master.url, "another-token") as api,
        pytest.raises(NotAuthorizedError, match="missing or wrong"),
    ):
        api.status()


def test_a_trusted_proxys_token_signs_from_its_own_address_only() -> None:
    """As it proves the proxy where it is sent."""
    here, away = (
        KnownProxy(name, network(at), "token", f"{name}-token-of-24-letters".encode())
        for name, at in (("here", "127.0.0.1"), ("away", "10.0.0.7"))
    )
    with FakeMaster(proofs=Proofs((here, away))) as master:
        with MasterApi(master.url, "here-token-of-24-letters") as api:
            assert api.get("/api/v1/me")["via"] == "trusted-proxy"
        with (
            MasterApi(master.url, "away-token-of-24-letters") as api,
            pytest.raises(NotAuthorizedError),
        ):
            api.get("/api/v1/me")


def test_a_signature_vouches_for_no_name_that_it_does_not_cover() -> None:
    """Whoever passes a proxy's request on could write another one."""
    token = b"the-token-of-the-proxy-lb1"
    proxy = KnownProxy("lb1", network("127.0.0.1"), "token", token, users=frozenset({"*"}))
    with FakeMaster(proofs=Proofs((proxy,))) as master:
        host = f"127.0.0.1:{master.server.port}"
        nonce, body = nonce_of(master), b'{"replicas": 2}'
        named = signed(nonce, 1, host, body, token=token).replace(
            b"Content-Type", b"X-TARN-User: alice\r\nContent-Type"
        )
        assert sent(master, named).startswith(b"HTTP/1.1 400 ")
        assert master.commands == []
        assert sent(master, signed(nonce, 2, host, body, token=token)).startswith(b"HTTP/1.1 200 ")


def test_a_token_for_a_master_that_asks_for_none_is_kept_back() -> None:
    """It cannot prove anything, as it holds nothing."""
    with (
        FakeMaster(api_token=None) as master,
        MasterApi(master.url, TOKEN.decode()) as api,
        pytest.raises(UnreachableError, match="leave the token out") as caught,
    ):
        api.status()
    assert caught.value.code == UNPROVEN
