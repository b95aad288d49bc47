"""HTTP/1.1 over plain sockets: one request at a time, whole answers, and exact failures.

tritonclient's own transport belongs to one thread, and does not distinguish a request that was
never sent from one that was cut. Connections of this module may be passed between threads. How an
answer is read is the same for threads and for asyncio: `reading` does no I/O.
"""

import contextlib
import re
import select
import socket
import ssl
from collections.abc import Generator
from typing import Self

from tarn.client.targets import ServiceAddress

__all__ = [
    "ClientConnection",
    "CutError",
    "HttpResponse",
    "LateError",
    "NotConnectedError",
    "NotHttpError",
    "WireError",
    "reading",
    "said",
]

BLOCK = 65536
# A larger body is read in such blocks.
LARGE_BLOCK = 262144
LARGEST_HEAD = 65536
# A smaller body is sent together with its head, in one system call.
JOINED_BELOW = 65536
# Answers without a body, whatever their head says.
_WITHOUT_BODY = frozenset({204, 304})
_STATUS = re.compile(r"[1-9][0-9]{2}(?![0-9])")
_LENGTH = re.compile(r"[0-9]{1,18}")
_CHUNK = re.compile(rb"[0-9A-Fa-f]{1,15}")


class WireError(Exception):
    """A request got no answer; the subclass says how far it came."""


class NotConnectedError(WireError):
    """There was no connection, so nothing was sent."""


class CutError(WireError):
    """The connection ended before the whole answer: the request may have been executed."""


class LateError(WireError):
    """The answer did not come within the time limit."""


class NotHttpError(WireError):
    """The answer is not HTTP."""


class HttpResponse:
    """One whole answer, with the methods that tritonclient calls."""

    __slots__ = ("_at", "body", "headers", "keeps", "status_code")

    def __init__(
        self, status_code: int, headers: dict[str, str], body: bytes, *, keeps: bool = False
    ) -> None:
        self.status_code, self.headers, self.body = status_code, headers, body
        # Whether the server keeps the connection open for another request.
        self.keeps = keeps
        self._at = 0

    def get(self, name: str, default: str | None = None) -> str | None:
        """Return the value of the header *name*, ignoring case."""
        return self.headers.get(name.lower(), default)

    def read(self, length: int = -1) -> bytes:
        """Return the next *length* bytes of the body, or the rest if it is negative."""
        begin = self._at
        end = len(self.body) if length < 0 else begin + length
        self._at = end
        return self.body if begin == 0 and end == len(self.body) else self.body[begin:end]


class ClientConnection:
    """One connection to one target.

    Args:
        target: The service to connect to.
        connect_within_s: Seconds for the connection, with the TLS handshake.
        answer_within_s: Seconds for each part of the answer.
        tls: The context for a target with TLS; None for the system's certificates.

    Raises:
        NotConnectedError: There was no connection.
    """

    __slots__ = ("_answer_within_s", "_look", "_sock", "keeps")

    def __init__(
        self,
        target: ServiceAddress,
        connect_within_s: float,
        answer_within_s: float,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._answer_within_s = answer_within_s
        # Whether the server keeps it open for another request.
        self.keeps = True
        try:
            self._sock = _connected(target, connect_within_s, tls)
            self._sock.settimeout(answer_within_s)
        except TimeoutError as error:
            raise NotConnectedError(f"no connection within {connect_within_s:g} s") from error
        except (OSError, ValueError) as error:  # ValueError: an impossible host name
            raise NotConnectedError(said(error)) from error
        self._look: select.poll | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    @property
    def fresh(self) -> bool:
        """Whether it is open and silent, so that it can carry a request."""
        if self._look is None:
            self._look = select.poll()
            self._look.register(self._sock, select.POLLIN | select.POLLRDHUP)
        return not self._look.poll(0)

    def cut(self) -> None:
        """End it while another thread waits for an answer, which then gets a `CutError`."""
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close it; idempotent."""
        with contextlib.suppress(OSError):
            self._sock.close()

    def ask(self, head: bytes, body: bytes) -> HttpResponse:
        """Send a request, and return its whole answer.

        Raises:
            CutError: The connection ended first.
            LateError: The answer did not come within the time limit.
            NotHttpError: The answer is not HTTP.
        """
        try:
            if len(body) < JOINED_BELOW:
                self._sock.sendall(head + body)
            else:
                self._sock.sendall(head)
                self._sock.sendall(body)
            return self._read()
        except TimeoutError as error:
            found = f"no answer for {self._answer_within_s:g} s"
            raise LateError(found) from error
        except OSError as error:
            raise CutError(said(error)) from error

    def _read(self) -> HttpResponse:
        reader = reading()
        size = next(reader)
        try:
            while True:
                size = reader.send(self._sock.recv(size))
        except StopIteration as end:
            answer: HttpResponse = end.value
            self.keeps = answer.keeps
            return answer


_Reader = Generator[int, bytes, HttpResponse]
_Body = Generator[int, bytes, tuple[bytes, bool]]


def reading() -> _Reader:
    """Read one whole answer from the blocks that are sent in.

    Yields:
        How many bytes to read next; a block may have fewer. An empty one is the end of the
        connection.

    Raises:
        CutError: The connection ended first.
        NotHttpError: The answer is not HTTP.
    """
    data = b""
    while True:
        end = data.find(b"\r\n\r\n")
        if end >= 0:
            status, headers = _parsed(data[:end])
            data = data[end + 4 :]
            if status >= 200:  # noqa: PLR2004 (the final answer follows an interim one)
                body, whole = yield from _body(status, headers, data)
                keeps = whole and headers.get("connection", "").lower() != "close"
                return HttpResponse(status, headers, body, keeps=keeps)
            continue
        if len(data) > LARGEST_HEAD:
            raise NotHttpError("sends an HTTP head without an end")
        data += yield from _more()


def _body(status: int, headers: dict[str, str], data: bytes) -> _Body:
    """Read the body, which begins with *data*; return it, and whether the answer ended there."""
    if status in _WITHOUT_BODY:
        return b"", not data
    if "chunked" in headers.get("transfer-encoding", "").lower():
        return (yield from _chunks(data))
    length = headers.get("content-length")
    if length is None:  # the body ends with the connection
        parts = [data]
        while block := (yield LARGE_BLOCK):
            parts.append(block)
        return b"".join(parts), False
    if not _LENGTH.fullmatch(length):
        raise NotHttpError(f"sends Content-Length = '{length[:40]}'")
    return (yield from _exactly(int(length), data))


def _exactly(length: int, data: bytes) -> _Body:
    if len(data) < length:
        parts, at = [data], len(data)
        while at < length:
            block = yield min(length - at, LARGE_BLOCK)
            if not block:
                raise CutError(f"the answer ended after {at} of {length} bytes")
            parts.append(block)
            at += len(block)
        data = b"".join(parts)
    return (data, True) if len(data) == length else (data[:length], False)


def _chunks(data: bytes) -> _Body:
    parts: list[bytes] = []
    at = 0
    while True:
        line, data, at = yield from _line(data, at)
        digits = line.partition(b";")[0].strip()
        if not _CHUNK.fullmatch(digits):
            raise NotHttpError("sends a chunk without a size")
        size = int(digits, 16)
        if size == 0:
            break
        end = at + size + 2
        if len(data) < end:  # a bytearray grows in place, without a copy for each block
            grown = bytearray(data[at:])
            while len(grown) < size + 2:
                grown += yield from _more()
            data, at, end = bytes(grown), 0, size + 2
        parts.append(data[at : end - 2])
        at = end
    while True:  # trailers, and the empty line after them
        line, data, at = yield from _line(data, at)
        if not line:
            return b"".join(parts), at == len(data)


def _line(data: bytes, at: int) -> Generator[int, bytes, tuple[bytes, bytes, int]]:
    """Return the line at *at*, the data that contains it, and the end of it there."""
    while (end := data.find(b"\r\n", at)) < 0:
        if len(data) - at > LARGEST_HEAD:
            raise NotHttpError("sends a line without an end")
        data, at = data[at:] + (yield from _more()), 0
    return data[at:end], data, end + 2


def _more() -> Generator[int, bytes, bytes]:
    block = yield BLOCK
    if not block:
        raise CutError("the connection was closed before the answer was whole")
    return block


def _connected(
    target: ServiceAddress, within_s: float, tls: ssl.SSLContext | None
) -> socket.socket:
    sock = socket.create_connection((target.host, target.port), timeout=within_s)
    try:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if target.tls:
            context = tls or ssl.create_default_context()
            return context.wrap_socket(sock, server_hostname=target.host)
    except BaseException:
        sock.close()
        raise
    return sock


def _parsed(head: bytes) -> tuple[int, dict[str, str]]:
    first, *lines = head.decode("latin-1").split("\r\n")
    version, _, rest = first.partition(" ")
    if not version.startswith("HTTP/1.") or not _STATUS.match(rest):
        raise NotHttpError(f"answers '{first[:40]}', which is not HTTP/1")
    headers = {}
    for line in lines:
        name, _, value = line.partition(":")
        headers[name.lower()] = value.strip()
    if version == "HTTP/1.0":
        headers.setdefault("connection", "close")
    return int(rest[:3]), headers


def said(error: Exception) -> str:
    """Return what an error of the system says, without its number."""
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
