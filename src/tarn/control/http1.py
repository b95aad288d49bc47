"""A minimal HTTP/1.1 client for asking Triton often: one kept connection, one request at a time.

A general client costs ten times the CPU for each request. This one also notices at once when its
connection ends between two requests, which shows that a Triton was killed.
"""

import asyncio
import ipaddress
import socket
from collections.abc import Callable, Iterable

import attrs

from tarn.descriptors import shortage

__all__ = [
    "LONGEST_BODY",
    "ConnectionEnded",
    "MalformedReply",
    "ProbeConnection",
    "Reply",
    "ReplyParser",
    "TooLong",
    "connect",
    "request",
]

LONGEST_BODY = 64 << 20
"""Most bytes of a body; ten times the metrics text of a Triton with thousands of models."""

# Bytes of status line and headers, and of one chunk's size line.
LONGEST_HEAD = 64 << 10

_NO_BODY = frozenset({204, 304})


class MalformedReply(ValueError):  # noqa: N818 (what came, not a fault of ours)
    """The answer is not an HTTP/1.1 reply, or is longer than allowed."""


class TooLong(MalformedReply):
    """The body has more bytes than the caller allows."""


class ConnectionEnded(ConnectionError):  # noqa: N818 (a state of affairs)
    """The connection ended before the answer was complete."""


@attrs.frozen
class Reply:
    """One complete answer."""

    status: int
    body: bytes
    keep: bool = True
    """Whether the connection can be used again."""


class ReplyParser:
    """Assembles one reply from its pieces; sans I/O.

    Raises:
        MalformedReply: From `feed` and `eof`; the parser cannot be used afterwards.
    """

    def __init__(self, longest_body: int = LONGEST_BODY) -> None:
        self._longest = longest_body
        self._data = bytearray()
        self._step: Callable[[], Reply | None] = self._head
        self._status = 0
        self._keep = True
        self._length = 0
        self._body = bytearray()
        self._scanned = 0

    def feed(self, piece: bytes) -> Reply | None:
        """Return the reply if *piece* completes it, else None."""
        self._data += piece
        reply = self._step()
        if reply is not None and self._data:
            raise MalformedReply("more than one answer to one question")
        return reply

    def eof(self) -> Reply | None:
        """Return the reply if the end of the stream completes it, else None."""
        if self._step == self._until_eof:
            return Reply(self._status, bytes(self._data), keep=False)
        return None

    def _head(self) -> Reply | None:
        end = self._data.find(b"\r\n\r\n", max(0, self._scanned - 3))
        self._scanned = len(self._data)
        if (end if end >= 0 else self._scanned) > LONGEST_HEAD:
            raise MalformedReply(f"a head of more than {LONGEST_HEAD} bytes")
        if end < 0:
            if self._scanned >= 5 and not self._data.startswith(b"HTTP/"):  # noqa: PLR2004
                raise MalformedReply(f"not HTTP: {bytes(self._data[:40])!r}")
            return None
        lines = bytes(self._data[:end]).split(b"\r\n")
        del self._data[: end + 4]
        self._scanned = 0
        self._status = _status(lines[0])
        if self._status < 200:  # noqa: PLR2004 (interim: the answer follows)
            return self._head()
        self._step = self._choose(lines[0], _headers(lines[1:]))
        return self._step()

    def _choose(self, first: bytes, headers: dict[bytes, bytes]) -> Callable[[], Reply | None]:
        connection = headers.get(b"connection", b"").lower()
        self._keep = first.startswith(b"HTTP/1.1") and b"close" not in connection
        if self._status in _NO_BODY:
            return self._fixed
        if b"chunked" in headers.get(b"transfer-encoding", b"").lower():
            return self._chunk
        if (length := headers.get(b"content-length")) is not None:
            self._length = self._bounded(length, 10)
            return self._fixed
        return self._until_eof

    def _fixed(self) -> Reply | None:
        if len(self._data) < self._length:
            return None
        body = bytes(self._data[: self._length])
        del self._data[: self._length]
        return Reply(self._status, body, self._keep)

    def _until_eof(self) -> Reply | None:
        if len(self._data) > self._longest:
            raise TooLong(f"more than the {self._longest} bytes that are read")
        return None

    def _chunk(self) -> Reply | None:
        start = 0
        while (end := self._data.find(b"\r\n", start)) >= 0:
            size = self._bounded(bytes(self._data[start:end]).partition(b";")[0], 16)
            if size == 0:
                del self._data[:start]
                self._step = self._trailer
                return self._trailer()
            if len(self._data) < end + 2 + size + 2:
                break
            self._body += self._data[end + 2 : end + 2 + size]
            if self._data[end + 2 + size : end + 4 + size] != b"\r\n":
                raise MalformedReply("a chunk without its end")
            start = end + 4 + size
            if len(self._body) > self._longest:
                raise TooLong(f"more than the {self._longest} bytes that are read")
        del self._data[:start]
        if self._data.find(b"\r\n") < 0 and len(self._data) > LONGEST_HEAD:
            raise MalformedReply("a chunk without a size")
        return None

    def _trailer(self) -> Reply | None:
        first_line = self._data.find(b"\r\n")
        end = self._data.find(b"\r\n\r\n", first_line)
        if end < 0:
            if len(self._data) > LONGEST_HEAD:
                raise MalformedReply(f"a trailer of more than {LONGEST_HEAD} bytes")
            return None
        del self._data[: end + 4]
        return Reply(self._status, bytes(self._body), self._keep)

    def _bounded(self, digits: bytes, base: int) -> int:
        try:
            size = int(digits.strip(), base)
        except ValueError as error:
            raise MalformedReply(f"not a size: {digits[:40]!r}") from error
        if size > self._longest:
            raise TooLong(f"{size} bytes, more than the {self._longest} that are read")
        if size < 0:
            raise MalformedReply(f"a body of {size} bytes")
        return size


def _status(line: bytes) -> int:
    words = line.split(None, 2)
    if len(words) < 2 or not words[0].startswith(b"HTTP/1.") or not words[1].isdigit():  # noqa: PLR2004
        raise MalformedReply(f"not a status line: {line[:40]!r}")
    return int(words[1])


def _headers(lines: list[bytes]) -> dict[bytes, bytes]:
    pairs = (line.partition(b":") for line in lines)
    return {name.strip().lower(): value.strip() for name, _, value in pairs}


def request(  # noqa: PLR0913 (the parts of a request)
    method: str,
    path: str,
    host: str,
    *,
    body: bytes = b"",
    content_type: str = "application/json",
    headers: Iterable[tuple[str, str]] = (),
) -> bytes:
    """Return the bytes of one request with *host* in its ``Host`` header.

    Raises:
        ValueError: A name or value of *headers* has a character that would end its line.
    """
    head = f"{method} {path} HTTP/1.1\r\nHost: {host}\r\n"
    for name, value in headers:
        if not f"{name}{value}".isprintable():
            raise ValueError(f"the header {name!r} cannot be sent")
        head += f"{name}: {value}\r\n"
    if method != "GET":
        head += f"Content-Type: {content_type}\r\nContent-Length: {len(body)}\r\n"
    return head.encode("latin-1") + b"\r\n" + body


class ProbeConnection(asyncio.Protocol):
    """One connection to one server, for one request after the other.

    Args:
        lost: Called on the loop when an idle connection ends; not after `close`.
    """

    _transport: asyncio.Transport

    def __init__(self, lost: Callable[[], None]) -> None:
        self._lost = lost
        self._parser = ReplyParser()
        self._answer: asyncio.Future[Reply] | None = None
        self.usable = False

    async def ask(self, question: bytes, longest_body: int = LONGEST_BODY) -> Reply:
        """Send the request *question*, and return its reply of at most *longest_body* bytes.

        The caller sets the deadline (`asyncio.timeout`). A time-out or an error closes the
        connection.

        Raises:
            ConnectionEnded: The connection ended before the answer was complete.
            MalformedReply: The answer is not an HTTP reply, or is too long.
        """
        if not self.usable:
            raise ConnectionEnded("the connection is closed")
        self._parser = ReplyParser(longest_body)
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(question)
        try:
            reply = await self._answer
        except BaseException:
            self.close()  # a late answer would be taken for that of the next request
            raise
        finally:
            self._answer = None
        if not reply.keep:
            self.close()
        return reply

    def close(self) -> None:
        """Close the connection at once; idempotent."""
        self.usable = False
        self._lost = lambda: None  # the caller knows of this end
        self._transport.abort()

    # uvloop's transports are not subclasses of asyncio's.
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Keep *transport*; called by asyncio."""
        self._transport = transport
        self.usable = True

    def data_received(self, data: bytes) -> None:
        """Take a piece of the answer; called by asyncio."""
        if self._answer is None or self._answer.done():
            self.connection_lost(None)  # data without a request
            return
        try:
            reply = self._parser.feed(data)
        except MalformedReply as error:
            self._answer.set_exception(error)
        else:
            if reply is not None:
                self._answer.set_result(reply)

    def eof_received(self) -> bool:
        """Take the end of the stream; called by asyncio. False: close our side, too."""
        if self._answer is not None and not self._answer.done():
            reply = self._parser.eof()
            if reply is not None:
                self._answer.set_result(reply)
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """Take the end of the connection; called by asyncio."""
        was_usable, self.usable = self.usable, False
        self._transport.abort()
        if self._answer is not None and not self._answer.done():
            closed = ConnectionEnded("closed the connection without an answer")
            closed.__cause__ = exc
            self._answer.set_exception(closed)
        elif was_usable and self._answer is None:
            self._lost()


async def connect(host: str, port: int, lost: Callable[[], None]) -> ProbeConnection:
    """Connect to the first address of *host* that accepts; the caller sets the deadline.

    Raises:
        ConnectionRefusedError: Nothing listens, at any address.
        OSError: No route, no such host.
    """
    loop = asyncio.get_running_loop()
    errors: list[OSError] = []
    for address in await _addresses(host, port):
        try:
            _, connection = await loop.create_connection(
                lambda: ProbeConnection(lost), address, port
            )
        except OSError as error:
            errors.append(error)
        else:
            return connection
    # A lack of our own comes first. A refusal, which would count as certain, comes last.
    errors.sort(key=lambda e: (not shortage(e), isinstance(e, ConnectionRefusedError)))
    raise errors[0]


async def _addresses(host: str, port: int) -> list[str]:
    try:
        return [str(ipaddress.ip_address(host))]
    except ValueError:  # a name
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        return list(dict.fromkeys(str(info[4][0]) for info in found))
