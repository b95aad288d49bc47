"""Putting replies together."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarn.control.http1 import MalformedReply, Reply, ReplyParser, request

FIXED = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
CHUNKED = (
    b"HTTP/1.1 200 OK\r\ntransfer-encoding: Chunked\r\n\r\n"
    b"2\r\nhe\r\n3;x=y\r\nllo\r\n0\r\nTrailer: x\r\n\r\n"
)
INTERIM = b"HTTP/1.1 100 Continue\r\n\r\n" + FIXED


def whole(text: bytes, cuts: list[int]) -> Reply | None:
    parser = ReplyParser()
    edges = [0, *sorted(cut % (len(text) + 1) for cut in cuts), len(text)]
    reply = None
    for start, end in itertools.pairwise(edges):
        if start < end:
            assert reply is None
            reply = parser.feed(text[start:end])
    return reply


@given(st.sampled_from((FIXED, CHUNKED, INTERIM)), st.lists(st.integers(0, 200), max_size=6))
def test_wherever_a_reply_is_cut_it_is_the_same(text: bytes, cuts: list[int]) -> None:
    """By length, in chunks, after an interim answer."""
    assert whole(text, cuts) == Reply(200, b"hello")


def test_a_body_may_end_with_the_stream() -> None:
    """HTTP/1.0 without a length; such a connection is not asked again."""
    parser = ReplyParser()
    assert parser.feed(b"HTTP/1.0 200 OK\r\n\r\nhel") is None
    assert parser.feed(b"lo") is None
    assert parser.eof() == Reply(200, b"hello", keep=False)


def test_an_end_in_the_middle_is_no_reply() -> None:
    """Cut bodies are never taken for whole ones."""
    for text in (FIXED[:-1], CHUNKED[:-1], b"HTTP/1.1 2", b""):
        parser = ReplyParser()
        assert not parser.feed(text)
        assert parser.eof() is None


def test_connection_close_is_heard() -> None:
    """The next question needs a new connection."""
    text = b"HTTP/1.1 400 Bad\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
    assert ReplyParser().feed(text) == Reply(400, b"", keep=False)


def test_an_answer_without_body_needs_no_length() -> None:
    """204 has none by definition."""
    assert ReplyParser().feed(b"HTTP/1.1 204 No Content\r\n\r\n") == Reply(204, b"")


@pytest.mark.parametrize(
    "text",
    [
        b"SSH-2.0-OpenSSH\r\n",
        b"\x15\x03\x01\x00\x02\x02",
        b"HTTP/1.1\r\n\r\n",
        b"HTTP/1.1 abc\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 101\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n65\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n40\r\n" + b"x" * 64 + b"\r\n"
        b"40\r\n" + b"x" * 64 + b"\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nabcd",
        b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 101,
        b"HTTP/1.1 200 OK\r\n" + b"x" * 70_000,
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"0" * 70_000,
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n" + b"x" * 70_000,
        FIXED + b"x",
    ],
)
def test_what_is_no_reply_is_garbage(text: bytes) -> None:
    """Another protocol, nonsense sizes, too much: bounded and named."""
    with pytest.raises(MalformedReply):
        ReplyParser(longest_body=100).feed(text)


def test_a_question_says_what_it_sends() -> None:
    """A GET has no body; anything else says how long it is."""
    assert request("GET", "/x", "h:1") == b"GET /x HTTP/1.1\r\nHost: h:1\r\n\r\n"
    asked = request("POST", "/x", "h:1", body=b"{}")
    assert asked.endswith(b"Content-Length: 2\r\n\r\n{}")
