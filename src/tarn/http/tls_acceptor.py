"""Accept on the master's port: a slot for each connection, and TLS that begins in time.

uvicorn counts requests and not connections, would let one that says nothing stay for a minute
before it counts it, and hangs up on a plain HTTP request to a TLS port without a message.
"""

import asyncio
import contextlib
import json
import logging
import os
import socket
import ssl
from collections.abc import Callable

from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from tarn.domain.certificate import common_name
from tarn.http.connection_slots import PLACE, ConnectionSlot, ConnectionSlots
from tarn.http.idle_timeout import is_idle
from tarn.http.tls import HSTS

__all__ = ["ServerConnection", "TlsAcceptor"]

log = logging.getLogger(__name__)

HANDSHAKE = b"\x16"
"""The first byte of every TLS connection: a record of the type handshake."""
AT_ONCE = 16
"""Connections accepted before the loop goes on with the others."""
FULL_PAUSE_S = 0.5
"""After an accept failed: mostly there are no more file descriptors."""
SPARE = 4
"""Descriptors held for the time when there are no others: what is wrong can be asked then, too."""
CLOSE_WITHIN_S = 10.0
"""For a peer to take what is left of an answer, and to say goodbye."""
LARGEST_LEFT = 64 * 1024
_FAILED = {"kind": "no connection can be accepted"}
_NO_TLS = {"kind": "no TLS"}


class ServerConnection(H11Protocol):
    """HTTP/1.1 of one connection, which says when it works and when it rests.

    Behind TLS the application learns what the peer proved.
    """

    place: ConnectionSlot

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin; after the handshake, where there is one."""
        super().connection_made(transport)
        self.place.drop = transport.abort
        self.app = _Placed(self.app, self.place)
        if transport.get_extra_info("ssl_object") is not None:
            proven = common_name(transport.get_extra_info("peercert"))
            self.app = _Secured(self.app, proven)

    def connection_lost(self, exc: Exception | None) -> None:
        """Give the place back."""
        self.place.leave()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take a piece of a request; the place is busy once its head is whole."""
        super().data_received(data)
        self._settle()

    def on_response_complete(self) -> None:
        """Rest, or go on with the next request where one has come already."""
        super().on_response_complete()
        self._settle()

    def _settle(self) -> None:
        if is_idle(self):
            self.place.rest()
        else:
            self.place.work()


class _Placed:
    """The application, which finds the connection's place in the scope."""

    def __init__(self, app: ASGIApp, place: ConnectionSlot) -> None:
        self._app, self._place = app, place

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope[PLACE] = self._place
        await self._app(scope, receive, send)


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


class TlsAcceptor:
    """Accepts on one listening socket, gives places, and lets TLS begin. The loop's thread.

    Args:
        listener: Listens, and does not block.
        context: Returns what is shown to a peer, by its numeric address; None: plain HTTP.
        protocol: Makes the protocol of one connection.
        within_s: Seconds for the whole handshake.
        url: Where clients should ask, for one that spoke plain HTTP.
        places: How many there may be, and who leaves when one more comes.
    """

    def __init__(  # noqa: PLR0913, PLR0917 (what a listener is made of)
        self,
        listener: socket.socket,
        context: Callable[[str], ssl.SSLContext] | None,
        protocol: Callable[[ConnectionSlot], asyncio.Protocol],
        within_s: float,
        url: str,
        places: ConnectionSlots,
    ) -> None:
        self._listener, self._context, self._protocol = listener, context, protocol
        self._within_s, self._url, self._places = within_s, url, places
        self._tasks: set[asyncio.Task[None]] = set()
        self._later: asyncio.TimerHandle | None = None
        self._spare: list[int] = []

    def open(self) -> None:
        """Begin to accept."""
        self._later = None
        with contextlib.suppress(OSError):
            while len(self._spare) < SPARE:
                self._spare.append(os.dup(self._listener.fileno()))
        asyncio.get_running_loop().add_reader(self._listener, self._accept)

    def close(self) -> None:
        """Accept no more, and drop who has not shaken hands yet. Idempotent."""
        if self._later is not None:
            self._later.cancel()
        while self._spare:
            os.close(self._spare.pop())
        asyncio.get_running_loop().remove_reader(self._listener)
        for task in self._tasks:
            task.cancel()

    def _accept(self) -> None:
        """Accept those who wait, some at a time: a flood must not keep the loop from the others."""
        for number in range(AT_ONCE):
            try:
                connection, (peer, *_rest) = self._listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if number == 0:  # else nobody may wait: the kernel looks for a descriptor first
                    self._pause(error)
                return
            self._begin(connection, str(peer))

    def _pause(self, error: OSError) -> None:
        """Make room by a spare descriptor; without one the longest idle connection goes."""
        log.warning("no connection can be accepted: %s", error.strerror, extra=_FAILED)
        if self._spare:
            os.close(self._spare.pop())  # the listener is still readable: it is accepted at once
        else:
            self._places.make_room()
            asyncio.get_running_loop().remove_reader(self._listener)
        if self._later is None:
            self._later = asyncio.get_running_loop().call_later(FULL_PAUSE_S, self.open)

    def _begin(self, connection: socket.socket, peer: str) -> None:
        place = self._places.take(peer)
        if place is None:
            connection.close()
            return
        connection.setblocking(False)  # noqa: FBT003 (the standard library's signature)
        welcome = self._welcome(connection, place)
        task = asyncio.get_running_loop().create_task(welcome)
        place.drop = lambda: _hang_up(connection)
        self._tasks.add(task)

        def ended(_task: "asyncio.Task[None]") -> None:
            self._tasks.discard(task)
            error = None if task.cancelled() else task.exception()
            if error is not None:
                log.error("a connection could not be set up", exc_info=error)
            if error is not None or task.cancelled():  # perhaps before it closed anything
                connection.close()
                place.leave()

        task.add_done_callback(ended)

    async def _welcome(self, connection: socket.socket, place: ConnectionSlot) -> None:
        """Shake hands; the connection is the protocol's afterwards, or closed."""
        try:
            if self._context is None:
                await self._hand_over(connection, place)
                return
            async with asyncio.timeout(self._within_s):
                first = await _first_byte(connection)
            if first == HANDSHAKE:
                await self._hand_over(connection, place, self._context(place.peer))
            else:
                await self._turn_away(connection, first)
                place.leave()
        except (OSError, TimeoutError) as error:  # ssl.SSLError is an OSError
            self._tell(place.peer, error)
            connection.close()
            place.leave()

    async def _hand_over(
        self,
        connection: socket.socket,
        place: ConnectionSlot,
        context: ssl.SSLContext | None = None,
    ) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        within = (
            {}
            if context is None
            else {
                "ssl_handshake_timeout": self._within_s,
                "ssl_shutdown_timeout": CLOSE_WITHIN_S,
            }
        )
        await asyncio.get_running_loop().connect_accepted_socket(
            lambda: self._protocol(place), connection, ssl=context, **within
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
        """Write down who did not get in; anybody may cause it."""
        why = getattr(error, "verify_message", "") or getattr(error, "reason", "") or str(error)
        said = why or "it was silent for too long"
        log.info("the TLS handshake with %s failed: %s", peer, said, extra=_NO_TLS)


def _hang_up(connection: socket.socket) -> None:
    """End *connection*; who holds it sees that, and closes it.

    Its task is not cancelled: in the middle of a handshake asyncio would lose the transport.
    """
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


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
        "right": f"Expected {url}.",
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
