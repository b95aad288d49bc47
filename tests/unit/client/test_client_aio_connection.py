"""One HTTP connection for asyncio: whole answers, and exact failures."""

import asyncio
import contextlib
import ssl
import threading

import pytest
from certificates import Authority
from client_stage import Misbehaving, answer, says

from tarn.client.aio_connection import AioConnection
from tarn.client.http_connection import CutError, LateError, NotConnectedError, NotHttpError
from tarn.client.targets import ClientOptions, ServiceAddress, parse

HEAD = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
GOOD = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
OPTIONS = ClientOptions(answer_within_s=20.0)


def run(work, server, options=OPTIONS):
    """Run *work* with a connection to *server*; it has ended afterwards."""

    async def main():
        connection = await AioConnection.open(parse(server.address), options, None)
        try:
            return await work(connection)
        finally:
            connection.close()
            await connection.lost

    return asyncio.run(main())


async def asks(connection, body=b""):
    got = await connection.ask(HEAD, body)
    return got.status_code, got.body, got.keeps


@pytest.mark.parametrize(
    ("text", "body", "keeps"),
    [
        (GOOD, b"ok", True),
        (b"HTTP/1.1 100 Continue\r\n\r\n" + GOOD, b"ok", True),
        (CHUNKED + b"3\r\nabc\r\n2;x\r\nde\r\n0\r\nname: value\r\n\r\n", b"abcde", True),
        (b"HTTP/1.1 204 No Content\r\n\r\n", b"", True),
        (b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok", b"ok", False),
        (b"HTTP/1.1 200 OK\r\n\r\nuntil the end", b"until the end", False),
        (GOOD + b"more", b"ok", False),
    ],
)
def test_each_form_of_an_answer_is_read_whole(text, body, keeps):
    """Also one whose end is the end of the connection."""
    with Misbehaving(says(text, then_close=b"\r\n\r\nuntil" in text)) as server:
        assert run(asks, server) == (200 + 4 * (b"204" in text), body, keeps)


def test_a_large_answer_comes_in_parts_and_a_large_request_goes():
    """Three megabytes each way, twice over one connection."""
    body = bytes(3_000_000)
    text = f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body
    head = f"POST / HTTP/1.1\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    with Misbehaving(says(text)) as server:

        async def work(connection):
            for _ in range(2):
                got = await connection.ask(head, body)
                assert (got.body, got.keeps, connection.fresh) == (body, True, True)

        run(work, server)
        assert [request.endswith(body) for request in server.requests] == [True, True]


@pytest.mark.parametrize(
    ("text", "kind", "found"),
    [
        (GOOD[:-1], CutError, "after 1 of 2 bytes"),
        (GOOD[:20], CutError, "before the answer was whole"),
        (CHUNKED + b"5\r\nab", CutError, "before the answer was whole"),
        (b"", CutError, "before the answer was whole"),
        (b"SSH-2.0-OpenSSH\r\n\r\n", NotHttpError, "not HTTP/1"),
        (CHUNKED + b"x\r\n", NotHttpError, "without a size"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", NotHttpError, "Content-Length"),
        (b"HTTP/1.1 200 OK\r\nname: " + b"x" * 140_000, NotHttpError, "without an end"),
    ],
)
def test_a_failure_says_how_far_it_came(text, kind, found):
    """And the connection is closed."""
    with Misbehaving(says(text, then_close=True)) as server:

        async def work(connection):
            with pytest.raises(kind, match=found):
                await asks(connection)
            await connection.lost
            assert not connection.fresh
            with pytest.raises(CutError, match="closed"):
                await asks(connection)

        run(work, server)


def test_an_answer_that_does_not_come_is_late():
    """The time counts from the last byte, and one timer serves every request."""
    silent = threading.Event()
    with Misbehaving(says(GOOD), lambda _sock, _request: silent.wait(20)) as server:

        async def work(connection):
            assert (await asks(connection))[1] == b"ok"
            with pytest.raises(LateError, match=r"no answer for 0\.2 s"):
                await asks(connection)

        run(work, server, ClientOptions(answer_within_s=0.2))
        silent.set()


def test_a_caller_that_leaves_and_a_close_end_the_request():
    """The answer would be that of another request."""
    silent = threading.Event()
    with Misbehaving(lambda _sock, _request: silent.wait(20)) as server:

        async def leaves(connection):
            task = asyncio.create_task(asks(connection))
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await connection.lost

        async def closes(connection):
            task = asyncio.create_task(asks(connection))
            await asyncio.sleep(0)
            connection.close()
            with pytest.raises(CutError):
                await task

        run(leaves, server)
        run(closes, server)
        silent.set()


def test_an_idle_connection_that_ends_or_speaks_carries_no_request():
    """It is seen though the event loop has not run since."""
    for text in (b"", b"HTTP/1.1 408 Request Timeout\r\n\r\n"):
        go_on, done = threading.Event(), threading.Event()

        def behave(sock, _request, text=text, go_on=go_on, done=done):
            sock.sendall(GOOD)
            go_on.wait(20)
            sock.sendall(text)
            sock.close()
            done.set()

        with Misbehaving(behave) as server:

            async def work(connection, go_on=go_on, done=done):
                await asks(connection)
                assert connection.fresh
                go_on.set()
                assert done.wait(20)
                assert not connection.fresh
                await connection.lost

            run(work, server)


def test_no_connection_says_why(tmp_path):
    """Refused, and a certificate of nobody who is known."""
    with Misbehaving(says(answer(1))) as server:
        refused = parse(server.address)

    async def fails(target, tls=None):
        with pytest.raises(NotConnectedError) as caught:
            await AioConnection.open(target, OPTIONS, tls)
        return str(caught.value)

    assert "failed" in asyncio.run(fails(refused))
    assert asyncio.run(fails(ServiceAddress("impossible..name", 80)))
    authority = Authority(tmp_path)
    issued = authority.issue("triton")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(issued.cert, issued.key)

    async def encrypted():
        ended = asyncio.Event()

        async def serve(reader, writer):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(GOOD)
            with contextlib.suppress(ConnectionError):
                await reader.read()  # until the client has closed the connection
            writer.transport.abort()
            ended.set()

        server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
        async with server:
            target = ServiceAddress("127.0.0.1", server.sockets[0].getsockname()[1], tls=True)
            assert "certificate" in await fails(target, ssl.create_default_context())
            known = ssl.create_default_context(cafile=str(authority.ca))
            connection = await AioConnection.open(target, OPTIONS, known)
            assert (await asks(connection))[1] == b"ok"
            connection.close()
            await connection.lost
            await ended.wait()

    asyncio.run(encrypted())
