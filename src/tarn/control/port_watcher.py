"""One port of one instance, looked at again and again over one kept connection."""

import asyncio
import math
import socket
from collections.abc import Awaitable, Callable

import attrs

from tarn.control.http1 import (
    LONGEST_BODY,
    ConnectionEnded,
    MalformedReply,
    ProbeConnection,
    Reply,
    TooLong,
    connect,
)
from tarn.descriptors import shortage
from tarn.domain.address import host_port

__all__ = ["CancellableWait", "PortWatcher", "ProbeFailure", "ProbeSchedule", "attempt"]

_NAME_SERVICE = frozenset({socket.EAI_AGAIN, socket.EAI_MEMORY, socket.EAI_SYSTEM})
"""What the resolver says when it could not ask, as against a name that does not exist."""


@attrs.frozen
class ProbeSchedule:
    """When to look, and how long to wait; all on the loop's clock."""

    interval_s: float
    """Between two looks."""
    timeout_s: float
    """For one look: connect, ask, answer."""
    phase_s: float = 0.0
    """Where in the interval; spreads a thousand lines over it."""

    def next_s(self, now_s: float) -> float:
        """Return the next moment to look, at least a quarter of an interval away."""
        intervals = (now_s + self.interval_s / 4 - self.phase_s) / self.interval_s
        return self.phase_s + math.ceil(intervals) * self.interval_s


@attrs.frozen
class ProbeFailure:
    """Why a look brought nothing."""

    reason: str
    gone: bool = False
    """It is certain that nothing serves there any more."""
    own: bool = False
    """We lacked something of our own, so it says nothing about who was asked."""


class CancellableWait:
    """A wait that can be cut short; rings on the loop's thread only."""

    def __init__(self) -> None:
        self._waiter: asyncio.Future[None] | None = None
        self._rung = False

    def ring(self) -> None:
        """End the wait of now, or else the next one at once."""
        self._rung = True
        self._end()

    async def wait_until(self, when_s: float) -> bool:
        """Wait until the loop's clock shows *when_s*; True when it rang before."""
        if not self._rung:
            loop = asyncio.get_running_loop()
            self._waiter = loop.create_future()
            timer = loop.call_at(when_s, self._end)
            try:
                await self._waiter
            finally:
                timer.cancel()
                self._waiter = None
        rung, self._rung = self._rung, False
        return rung

    def _end(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class PortWatcher:
    """Looks at one port, forever, one look at a time.

    Args:
        host: A name or an address.
        port: Where it listens.
        pace: How often.
        look: Asks what it wants to know with `PortWatcher.ask`; its own errors end `run`.
        failed: Hears why a look brought nothing.
        lost: Hears that the idle connection ended; the next look comes at once, but only once in
            an interval: some servers close after each answer.
        renew_after: Looks over one connection; 0: any number. A Triton that got SIGTERM goes on
            answering old connections while it closes new ones: who never opens one never knows.
            Where we lack what a new one takes, the old one is kept.
    """

    def __init__(  # noqa: PLR0913 (all by keyword)
        self,
        *,
        host: str,
        port: int,
        pace: ProbeSchedule,
        look: Callable[["PortWatcher"], Awaitable[None]],
        failed: Callable[[ProbeFailure], None],
        lost: Callable[[], None],
        renew_after: int = 0,
    ) -> None:
        self._renew_after, self._looks, self._due = renew_after, 0, False
        self._host, self._port, self._pace = host, port, pace
        self._look, self._failed, self._lost = look, failed, lost
        self._connection: ProbeConnection | None = None
        self.alarm = CancellableWait()
        self.lack = ""
        """What we lacked when the kept connection was to be renewed; empty when nothing."""

    async def run(self) -> None:
        """Look until cancelled; the connection is closed then."""
        loop = asyncio.get_running_loop()
        hurried = False
        try:
            while True:
                await self._once()
                due_s = self._pace.next_s(loop.time())
                rung = await self.alarm.wait_until(due_s)
                if rung and hurried:
                    await asyncio.sleep(max(0.0, due_s - loop.time()))
                hurried = rung and not hurried
        finally:
            self.close()

    async def ask(self, question: bytes, longest_body: int = LONGEST_BODY) -> Reply:
        """Ask over the kept connection; when it has ended meanwhile, over a new one, once."""
        if self._due:
            await self._renew()
        kept = self._connection
        if kept is not None and kept.usable:
            try:
                return await kept.ask(question, longest_body)
            except ConnectionEnded:
                self.close()
        self._connection = await connect(self._host, self._port, self._lost)
        return await self._connection.ask(question, longest_body)

    async def _renew(self) -> None:
        """Open a connection in place of the kept one, which ends only then."""
        kept, self._due, self.lack = self._connection, False, ""
        if kept is None or not kept.usable:
            return
        try:
            self._connection = await connect(self._host, self._port, self._lost)
        except OSError as error:
            failure = _unreachable("", error)
            if not failure.own:
                raise
            self.lack = failure.reason
        else:
            kept.close()

    def close(self) -> None:
        """End the connection; the next question opens a new one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    async def _once(self) -> None:
        self._looks += 1
        self._due = bool(self._renew_after) and self._looks % self._renew_after == 0
        where = host_port(self._host, self._port)
        failure = await attempt(where, self._pace.timeout_s, self._look(self))
        if failure is not None:
            self.close()
            self._failed(failure)


async def attempt(where: str, timeout_s: float, work: Awaitable[None]) -> ProbeFailure | None:
    """Do *work*, which talks to *where*, and return why it failed; None when it did not."""
    try:
        async with asyncio.timeout(timeout_s):
            await work
    except TimeoutError:
        return ProbeFailure(f"no answer for {timeout_s:.1f} s from {where}")
    except ConnectionRefusedError:
        return ProbeFailure(f"connection refused by {where}", gone=True)
    except (ConnectionEnded, ConnectionResetError, BrokenPipeError):
        # A new connection was taken and closed: so does a Triton that ends.
        return ProbeFailure(f"{where} closed the connection without an answer", gone=True)
    except MalformedReply as error:
        what = "answers with" if isinstance(error, TooLong) else "does not speak HTTP:"
        return ProbeFailure(f"{where} {what} {error}")
    except OSError as error:
        return _unreachable(where, error)
    return None


def _unreachable(where: str, error: OSError) -> ProbeFailure:
    """Return why *where* could not be reached, and whether that was for a lack of our own."""
    if isinstance(error, socket.gaierror) and error.errno in _NAME_SERVICE:
        return ProbeFailure("the name service does not answer", own=True)
    lack = shortage(error)
    return ProbeFailure(lack, own=True) if lack else ProbeFailure(f"cannot reach {where}: {error}")
