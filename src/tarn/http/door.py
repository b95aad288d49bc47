"""The door of a TLS port: who connects must begin to shake hands in time, and in TLS.

uvicorn would let a connection that says nothing stay for a minute before it counts it, and hang up
on a plain HTTP request without a word.
"""

import asyncio
import contextlib
import json
import logging
import socket
import ssl
from collections import Counter
from collections.abc import Callable
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from tarn.domain.certificate import common_name
from tarn.http.tls import HSTS

__all__ = ["Connection", "Door"]

log = logging.getLogger(__name__)

HANDSHAKE = b"\x16"
"""The first byte of every TLS connection: a record of the type handshake."""
MOST_WAITING = 512
"""Connections that have not shaken hands yet; one more is closed at once."""
MOST_OF_ONE = 128
"""Of these from one address, so that nobody takes all places by saying nothing."""
FULL_PAUSE_S = 0.5
"""After an accept failed: mostly there are no more file descriptors."""
CLOSE_WITHIN_S = 10.0
"""For a peer to take what is left of an answer, and to say goodbye."""
SAY_EVERY_S = 1.0
LARGEST_LEFT = 64 * 1024


class Connection(H11Protocol):
    """HTTP/1.1 of one connection; behind a `Door` the application learns what the peer proved."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin; after the handshake, where there is one."""
        super().connection_made(transport)
        if transport.get_extra_info("ssl_object") is not None:
            proven = common_name(transport.get_extra_info("peercert"))
            self.app = _Secured(self.app, proven)


class _Secured:
    """The application behind TLS: ASGI's extension ``tls`` in the scope, HSTS in the answer."""

    def __init__(self, app: ASGIApp, proven: str) -> None:
        self._app, self._proven = app, proven

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def secured(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), HSTS]
            await send(message)

        tls = {"client_cert_name": self._proven or None}
        scope["extensions"] = {**scope.get("extensions", {}), "tls": tls}
        await self._app(scope, receive, secured)


class Door:
    """Accepts on one listening socket, and hands on who has shaken hands. The loop's thread.

    Args:
        listener: Listens, and does not block.
        context: Returns what is shown to a peer, by its numeric address.
        protocol: Makes the protocol of one connection.
        within_s: Seconds for the whole handshake.
        url: Where clients should ask, for one that spoke plain HTTP.
    """

    def __init__(
        self,
        listener: socket.socket,
        context: Callable[[str], ssl.SSLContext],
        protocol: Callable[[], asyncio.Protocol],
        within_s: float,
        url: str,
    ) -> None:
        self._listener, self._context, self._protocol = listener, context, protocol
        self._within_s, self._url = within_s, url
        self._tasks: set[asyncio.Task[None]] = set()
        self._waiting: Counter[str] = Counter()
        self._say_s = float("-inf")

    def open(self) -> None:
        """Begin to accept."""
        self._start(self._accept())

    def close(self) -> None:
        """Accept no more, and drop who has not shaken hands yet. Idempotent."""
        for task in self._tasks:
            task.cancel()

    def _start(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, (peer, *_) = await loop.sock_accept(self._listener)
            except OSError as error:
                log.warning("no connection can be accepted: %s", error.strerror)
                await asyncio.sleep(FULL_PAUSE_S)
                continue
            if len(self._tasks) > MOST_WAITING or self._waiting[peer] >= MOST_OF_ONE:
                connection.close()
            else:
                self._waiting[peer] += 1
                self._start(self._welcome(connection, str(peer)))

    async def _welcome(self, connection: socket.socket, peer: str) -> None:
        """Shake hands; the connection is the protocol's afterwards, or closed."""
        try:
            async with asyncio.timeout(self._within_s):
                first = await _first_byte(connection)
            if first == HANDSHAKE:
                await self._shake(connection, peer)
            else:
                await self._turn_away(connection, first)
        except (OSError, TimeoutError) as error:  # ssl.SSLError is an OSError
            self._tell(peer, error)
            connection.close()
        except asyncio.CancelledError:
            connection.close()
            raise
        finally:
            self._waiting[peer] -= 1
            if not self._waiting[peer]:
                del self._waiting[peer]

    async def _shake(self, connection: socket.socket, peer: str) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        await asyncio.get_running_loop().connect_accepted_socket(
            self._protocol,
            connection,
            ssl=self._context(peer),
            ssl_handshake_timeout=self._within_s,
            ssl_shutdown_timeout=CLOSE_WITHIN_S,
        )

    async def _turn_away(self, connection: socket.socket, first: bytes) -> None:
        """Tell who speaks plain HTTP what this port speaks, and close."""
        loop = asyncio.get_running_loop()
        with contextlib.closing(connection), contextlib.suppress(TimeoutError):
            async with asyncio.timeout(1.0):
                if first.isalpha():
                    await loop.sock_sendall(connection, _plain_answer(self._url))
                    connection.shutdown(socket.SHUT_WR)
                    # What is not read when a socket closes costs the peer the answer, too.
                    left = LARGEST_LEFT
                    while left > 0 and (read := await loop.sock_recv(connection, 4096)):
                        left -= len(read)

    def _tell(self, peer: str, error: Exception) -> None:
        """Write down who did not get in, a line a second at most: anybody may cause it."""
        now_s = asyncio.get_running_loop().time()
        if now_s - self._say_s < SAY_EVERY_S:
            return
        self._say_s = now_s
        why = getattr(error, "verify_message", "") or getattr(error, "reason", "") or str(error)
        log.info("no TLS with %s: %s", peer, why or "it was silent for too long")


async def _first_byte(connection: socket.socket) -> bytes:
    """Return the first byte that the peer sends, and leave it there; empty: it left."""
    loop, readable = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(connection, readable.set)
    try:
        await readable.wait()
    finally:
        loop.remove_reader(connection)
    return connection.recv(1, socket.MSG_PEEK)


def _plain_answer(url: str) -> bytes:
    error = {
        "code": "TARN-3728",
        "where": url,
        "found": "this port speaks HTTPS only",
        "right": f"Right would be {url}.",
        "next_step": "",
    }
    body = json.dumps({"error": error}).encode() + b"\n"
    head = (
        "HTTP/1.1 400 Bad Request\r\n"
        "Content-Type: application/json\r\n"
        "X-Content-Type-Options: nosniff\r\n"
        "Cache-Control: no-store\r\n"
        "Connection: close\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body
