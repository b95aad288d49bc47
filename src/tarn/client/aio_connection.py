"""HTTP/1.1 for asyncio: one request at a time, whole answers, and exact failures."""

import asyncio
import select
import ssl
from collections.abc import Generator
from typing import Self, cast

from tarn.client.http_connection import (
    JOINED_BELOW,
    CutError,
    HttpResponse,
    LateError,
    NotConnectedError,
    WireError,
    reading,
    said,
)
from tarn.client.targets import ClientOptions, ServiceAddress

__all__ = ["AioConnection"]


class AioConnection(asyncio.Protocol):
    """One connection to one target, for the event loop that runs when it is made; see `open`."""

    def __init__(self, answer_within_s: float) -> None:
        self._within_s = answer_within_s
        self._loop = asyncio.get_running_loop()
        self._reader: Generator[int, bytes, HttpResponse] | None = None
        self._waiter: asyncio.Future[HttpResponse] | None = None
        # One timer serves many requests: when it is due, it looks when the last byte came.
        self._timer: asyncio.TimerHandle | None = None
        self._late_s = 0.0
        self.lost: asyncio.Future[None] = self._loop.create_future()
        """Done when the connection has ended."""

    @classmethod
    async def open(
        cls, target: ServiceAddress, options: ClientOptions, tls: ssl.SSLContext | None
    ) -> Self:
        """Connect to *target*, with *tls* if its address has https.

        Raises:
            NotConnectedError: There was no connection.
        """
        within_s = options.connect_within_s
        try:
            async with asyncio.timeout(within_s):
                _, connection = await asyncio.get_running_loop().create_connection(
                    lambda: cls(options.answer_within_s),
                    target.host,
                    target.port,
                    ssl=tls if target.tls else None,
                )
        except TimeoutError as error:
            raise NotConnectedError(f"no connection within {within_s:g} s") from error
        except (OSError, ValueError) as error:  # ValueError: an impossible host name
            raise NotConnectedError(said(error)) from error
        return connection

    @property
    def fresh(self) -> bool:
        """Whether it is open and silent, so that it can carry a request."""
        # The event loop may not have seen yet that the server has closed it.
        return not self._transport.is_closing() and not self._look.poll(0)

    async def ask(self, head: bytes, body: bytes) -> HttpResponse:
        """Send a request, and return its whole answer. A failure or a cancellation closes it.

        Raises:
            CutError: The connection ended first.
            LateError: The answer did not come within the time limit.
            NotHttpError: The answer is not HTTP.
        """
        if self._transport.is_closing():
            raise CutError("the connection was closed")
        self._waiter, self._reader = self._loop.create_future(), reading()
        next(self._reader)
        self._late_s = self._loop.time() + self._within_s
        if self._timer is None:
            self._timer = self._loop.call_at(self._late_s, self._check_time)
        if len(body) < JOINED_BELOW:
            self._transport.write(head + body)
        else:
            self._transport.write(head)
            self._transport.write(body)
        try:
            return await self._waiter
        except asyncio.CancelledError:
            self._reader = None
            self.close()
            raise

    def close(self) -> None:
        """Close it at once; idempotent. A request that waits for its answer gets a `CutError`."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._transport.abort()

    # --- called by the event loop ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        self._transport = cast("asyncio.Transport", transport)
        self._look = select.poll()
        socket = transport.get_extra_info("socket")
        self._look.register(socket.fileno(), select.POLLIN | select.POLLRDHUP)

    def data_received(self, data: bytes) -> None:
        """Read a part of the answer; without a request, it is none."""
        if self._reader is None:
            self.close()
            return
        self._late_s = self._loop.time() + self._within_s
        self._read(self._reader, data)

    def connection_lost(self, error: Exception | None) -> None:
        """End the request that waits, if any."""
        if self._reader is not None and error is not None:
            self._fail(CutError(said(error)))
        elif self._reader is not None:
            self._read(self._reader, b"")
        if not self.lost.done():
            self.lost.set_result(None)

    def _read(self, reader: Generator[int, bytes, HttpResponse], data: bytes) -> None:
        try:
            reader.send(data)
        except StopIteration as end:
            self._reader = None
            if self._waiter is not None and not self._waiter.done():
                self._waiter.set_result(end.value)
        except WireError as error:
            self._fail(error)

    def _fail(self, error: WireError) -> None:
        self._reader = None
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(error)
        self.close()

    def _check_time(self) -> None:
        self._timer = None
        if self._reader is None:
            return
        if self._loop.time() < self._late_s:
            self._timer = self._loop.call_at(self._late_s, self._check_time)
        else:
            self._fail(LateError(f"no answer for {self._within_s:g} s"))
