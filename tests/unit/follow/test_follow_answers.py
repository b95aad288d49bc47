"""Whoever answers a client cannot fill its memory."""

import gzip
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from raw_server import server

from tarn.errors import UnreachableError
from tarn.follow import MasterApi, answers

HEAD = b"HTTP/1.1 %s\r\nContent-Type: application/json\r\n"
ENDLESS = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
CHUNK = b"10000\r\n" + b" " * 65536 + b"\r\n"


@contextmanager
def stranger(head: bytes, part: bytes) -> Iterator[str]:
    """Answer each request with *head*, then with *part* again and again; yield the URL."""

    def answer(connection: socket.socket) -> None:
        connection.recv(65536)
        connection.sendall(head)
        while part:  # until the client has had enough
            connection.sendall(part)

    with server(answer) as endpoint:
        yield f"http://{endpoint.http}"


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "MOST_BYTES", 2**20)


@pytest.mark.parametrize("status", [b"200 OK", b"401 Unauthorized", b"503 Service Unavailable"])
def test_an_answer_without_end_ends_in_an_error(status: bytes) -> None:
    """Whatever its status."""
    with (
        stranger(ENDLESS % status, CHUNK) as url,
        MasterApi(url, None) as api,
        pytest.raises(UnreachableError, match="longer than 1 MiB"),
    ):
        api.status()


def test_neither_does_one_before_the_proof() -> None:
    """It gives a nonce as a master does, and goes on for ever."""
    nonce = b'HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: TARN nonce="1-abc"\r\n'
    with (
        stranger(nonce + b"Transfer-Encoding: chunked\r\n\r\n", CHUNK) as url,
        MasterApi(url, "correct-horse") as api,
        pytest.raises(UnreachableError, match="longer than 1 MiB"),
    ):
        api.status()


def test_a_message_without_end_ends_the_stream() -> None:
    """A stream may be as long as it likes; what one message may take is bounded."""
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
    with stranger(head + b"data: ", b"x" * 65536) as url, MasterApi(url, None) as api:
        with pytest.raises(UnreachableError, match="longer than 1 MiB"):
            next(api.stream(give_up_s=0))


def test_many_messages_are_no_long_one() -> None:
    """Far beyond the bound together."""
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
    message = b'id: 1\ndata: {"a": "%s"}\n\n' % (b"x" * 65536)
    with stranger(head, message) as url, MasterApi(url, None) as api:
        read = api.stream(give_up_s=0)
        assert [next(read).id for _ in range(64)] == ["1"] * 64
        read.close()


def test_a_compressed_answer_is_refused() -> None:
    """A bomb: a thousandth of it travels."""
    bomb = gzip.compress(b" " * 2**20)
    head = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(bomb)
    with stranger(head + bomb, b"") as url, MasterApi(url, None) as api:
        with pytest.raises(UnreachableError, match="compressed"):
            api.status()
