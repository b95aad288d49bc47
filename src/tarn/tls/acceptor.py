"""Accept on the master's port: a slot for each connection, and TLS that begins in time."""

# Why uvicorn (0.54) does not accept by itself, though it has TLS:
# - it has one TLS context for all clients; we ask only trusted proxies for a certificate;
# - a handshake has asyncio's deadline, a minute, and cannot be given another one;
# - it answers plain HTTP at a TLS port by closing the connection, without a message;
# - it limits requests, not connections, and nothing by address: a silent client holds a slot too;
# - it tells the application nothing about the client's certificate.

import asyncio
import contextlib
import json
import logging
import os
import socket
import ssl
from collections import Counter
from collections.abc import Callable

import attrs

__all__ = ["PLACE", "ConnectionSlot", "ConnectionSlots", "TlsAcceptor"]

log = logging.getLogger(__name__)


# Key in the scope of a request: the `ConnectionSlot` of its connection.
PLACE = "tarn.place"
_IDLERS = {"kind": "idle connections are closed"}
_REFUSED = {"kind": "connections are refused"}


@attrs.define(eq=False)
class ConnectionSlot:
    """One connection, from its acceptance to its end."""

    peer: str
    """Numeric address of the peer."""
    places: "ConnectionSlots"
    drop: Callable[[], None] = lambda: None
    """Closes the connection at once; does nothing until there is something to close."""
    kept: bool = False
    """Whether it is kept from unproven clients."""

    def keep(self) -> None:
        """Keep it from unproven clients, once a request on it was let in by a proof."""
        if not self.kept:
            self.places.keep(self)

    def work(self) -> None:
        """Mark it busy: a request on it is being answered."""
        self.places.work(self)

    def rest(self) -> None:
        """Mark it idle: no request on it is being answered."""
        self.places.rest(self)

    def leave(self) -> None:
        """Give the slot back. Idempotent."""
        self.places.leave(self)


class ConnectionSlots:
    """The connections of one server. Lives on one event loop.

    Connections of proven clients, and those of trusted proxies from the start, are kept. Other
    connections get at most half of the slots together, and a quarter by address. If one more would
    be too many, the connection that has been idle the longest is closed: it has sent no whole head,
    or waits between two requests. A busy connection is never closed; if no other is left, the new
    one is refused.

    Args:
        most: Connections in all.
        trusted: Returns whether connections from an address are kept from the start.
    """

    def __init__(self, most: int, trusted: Callable[[str], bool] = lambda _peer: False) -> None:
        self._most, self._trusted = most, trusted
        # At least one each, so that a very small *most* does not lock everybody out.
        self._open_most = max(1, most // 2)
        self._one_most = max(1, most // 4)
        self._all: set[ConnectionSlot] = set()
        # How many connections of each address are not kept.
        self._open: Counter[str] = Counter()
        self._open_count = 0
        # Ordered: the longest idle first.
        self._idle: dict[ConnectionSlot, None] = {}

    def __len__(self) -> int:
        return len(self._all)

    def take(self, peer: str) -> ConnectionSlot | None:
        """Return a slot for a new connection from *peer*; None if there is none."""
        kept = self._trusted(peer)
        if not self._make_room(peer, kept=kept):
            log.warning(
                "connections from %s are refused: all its connections are in use",
                peer,
                extra=_REFUSED,
            )
            return None
        place = ConnectionSlot(peer, self, kept=kept)
        self._all.add(place)
        self._idle[place] = None
        if not kept:
            self._open[peer] += 1
            self._open_count += 1
        return place

    def make_room(self) -> bool:
        """Close the longest idle connection; return False if none is idle."""
        return self._close_idle(lambda place: not place.kept) or self._close_idle(lambda _: True)

    def keep(self, place: ConnectionSlot) -> None:
        """See `ConnectionSlot.keep`."""
        if place in self._all:
            place.kept = True
            self._forget_open(place)

    def work(self, place: ConnectionSlot) -> None:
        """See `ConnectionSlot.work`."""
        self._idle.pop(place, None)

    def rest(self, place: ConnectionSlot) -> None:
        """See `ConnectionSlot.rest`."""
        if place in self._all:
            self._idle.setdefault(place, None)

    def leave(self, place: ConnectionSlot) -> None:
        """See `ConnectionSlot.leave`."""
        if place not in self._all:
            return
        self._all.discard(place)
        self._idle.pop(place, None)
        if not place.kept:
            self._forget_open(place)

    def _forget_open(self, place: ConnectionSlot) -> None:
        self._open_count -= 1
        self._open[place.peer] -= 1
        if not self._open[place.peer]:
            del self._open[place.peer]

    def _make_room(self, peer: str, *, kept: bool) -> bool:
        """Return whether there is room for one more; close an idle connection if need be."""
        if not kept and self._open[peer] >= self._one_most:
            return self._close_idle(lambda place: not place.kept and place.peer == peer)
        if not kept and self._open_count >= self._open_most:
            return self._close_idle(lambda place: not place.kept)
        return len(self._all) < self._most or self.make_room()

    def _close_idle(self, of: Callable[[ConnectionSlot], bool]) -> bool:
        """Close the longest idle connection for which *of* is true; return whether there is one."""
        place = next((one for one in self._idle if of(one)), None)
        if place is None:
            return False
        log.warning(
            "idle connections are closed to make room, this one from %s: %d are open",
            place.peer,
            len(self._all),
            extra=_IDLERS,
        )
        self.leave(place)
        place.drop()
        return True


# The first byte of every TLS connection: a record of the type handshake.
HANDSHAKE = b"\x16"
# Connections to accept before the loop handles other events.
AT_ONCE = 16
# The pause after a failed accept, mostly for lack of file descriptors.
FULL_PAUSE_S = 0.5
# Descriptors kept in reserve, so that the master still answers when there are no others.
SPARE = 4
# For a peer to take the rest of an answer, and to end TLS.
CLOSE_WITHIN_S = 10.0
LARGEST_LEFT = 64 * 1024
# For a task to notice that its connection was shut down.
HANG_UP_WITHIN_S = 0.5
_FAILED = {"kind": "no connection can be accepted"}
_NO_TLS = {"kind": "no TLS"}


class TlsAcceptor:
    """Accepts connections, gives them slots, and starts TLS. On the thread of the loop.

    Args:
        listener: A listening socket that does not block.
        context: Returns the TLS context for a numeric address; None for plain HTTP.
        protocol: Makes the protocol of one connection.
        within_s: Seconds for the whole handshake.
        url: The URL to name to a client that speaks plain HTTP.
        places: The slots for connections.
    """

    def __init__(  # noqa: PLR0913, PLR0917 (the parts of a listener)
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
        self._welcomes: dict[asyncio.Task[None], socket.socket] = {}
        self._later: asyncio.TimerHandle | None = None
        self._spare: list[int] = []

    def open(self) -> None:
        """Begin to accept."""
        self._later = None
        with contextlib.suppress(OSError):
            while len(self._spare) < SPARE:
                self._spare.append(os.dup(self._listener.fileno()))
        asyncio.get_running_loop().add_reader(self._listener, self._accept)

    async def close(self) -> None:
        """Accept no more, and close connections in their handshake. Idempotent."""
        if self._later is not None:
            self._later.cancel()
        while self._spare:
            os.close(self._spare.pop())
        asyncio.get_running_loop().remove_reader(self._listener)
        # A task that is cancelled in a handshake loses its transport, which nobody closes then.
        for connection in self._welcomes.values():
            _hang_up(connection)
        if self._welcomes:
            await asyncio.wait(self._welcomes, timeout=HANG_UP_WITHIN_S)

    def _accept(self) -> None:
        """Accept waiting connections."""
        # Only some at a time: a flood must not keep the loop from the other connections.
        for number in range(AT_ONCE):
            try:
                connection, (peer, *_rest) = self._listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                # Later in the loop perhaps none waits: without a free descriptor, the kernel fails
                # before it looks.
                if number == 0:
                    self._pause(error)
                return
            self._begin(connection, str(peer))

    def _pause(self, error: OSError) -> None:
        """Free a spare descriptor, or else the longest idle connection."""
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
        self._welcomes[task] = connection

        def ended(_task: "asyncio.Task[None]") -> None:
            del self._welcomes[task]
            error = None if task.cancelled() else task.exception()
            if error is not None:
                log.error("a connection could not be set up", exc_info=error)
            if error is not None or task.cancelled():  # perhaps before it closed anything
                connection.close()
                place.leave()

        task.add_done_callback(ended)

    async def _welcome(self, connection: socket.socket, place: ConnectionSlot) -> None:
        """Do the handshake; then the protocol owns the connection, or it is closed."""
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
            why = getattr(error, "verify_message", "") or getattr(error, "reason", "") or str(error)
            said = why or "it was silent for too long"
            # One kind of record: any client can cause it without end.
            log.info("the TLS handshake with %s failed: %s", place.peer, said, extra=_NO_TLS)
            connection.close()
            place.leave()

    async def _hand_over(
        self,
        connection: socket.socket,
        place: ConnectionSlot,
        context: ssl.SSLContext | None = None,
    ) -> None:
        # An event is often smaller than a packet, and would wait for the peer's acknowledgement.
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        within = {}
        if context is not None:  # asyncio takes them only with TLS
            within = {
                "ssl_handshake_timeout": self._within_s,
                "ssl_shutdown_timeout": CLOSE_WITHIN_S,
            }
        await asyncio.get_running_loop().connect_accepted_socket(
            lambda: self._protocol(place), connection, ssl=context, **within
        )

    async def _turn_away(self, connection: socket.socket, first: bytes) -> None:
        """Answer a client that speaks plain HTTP at this TLS port, and close."""
        loop = asyncio.get_running_loop()
        with contextlib.closing(connection), contextlib.suppress(TimeoutError):
            async with asyncio.timeout(1.0):
                if first.isalpha():
                    await loop.sock_sendall(connection, _plain_answer(self._url))
                    connection.shutdown(socket.SHUT_WR)
                    # Closing a socket with unread data resets it, and the peer loses the answer.
                    left = LARGEST_LEFT
                    while left > 0 and (read := await loop.sock_recv(connection, 4096)):
                        left -= len(read)


def _hang_up(connection: socket.socket) -> None:
    """Shut *connection* down; its task notices that, and closes it."""
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


async def _first_byte(connection: socket.socket) -> bytes:
    """Return the first byte from the peer without consuming it; empty if the peer closed."""
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
