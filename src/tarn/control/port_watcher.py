"""Look at one port of one instance again and again, over one kept connection."""

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
from tarn.domain import Endpoint
from tarn.domain.endpoint import host_port

__all__ = ["CancellableWait", "PortWatcher", "ProbeFailure", "ProbeSchedule", "ask_once"]

# Errors of the resolver when it could not ask; a name that does not exist is another error.
_NAME_SERVICE = frozenset({socket.EAI_AGAIN, socket.EAI_MEMORY, socket.EAI_SYSTEM})


@attrs.frozen
class ProbeSchedule:
    """When to look, and how long to wait; all on the loop's clock."""

    interval_s: float
    """Between two looks."""
    timeout_s: float
    """For one look: connect, ask, answer."""
    phase_s: float = 0.0
    """Moment within the interval; it spreads the looks at a thousand ports over the interval."""

    def next_s(self, now_s: float) -> float:
        """Return the next moment to look, at least a quarter of an interval away."""
        intervals = (now_s + self.interval_s / 4 - self.phase_s) / self.interval_s
        return self.phase_s + math.ceil(intervals) * self.interval_s


@attrs.frozen
class ProbeFailure:
    """Why a look failed."""

    reason: str
    gone: bool = False
    """It is certain that nothing serves there any more."""
    own: bool = False
    """The master itself lacked something, so the failure proves nothing about the instance."""


class CancellableWait:
    """A wait that `ring` can end early; on the loop's thread only."""

    def __init__(self) -> None:
        self._waiter: asyncio.Future[None] | None = None
        self._rung = False

    def ring(self) -> None:
        """End the present wait, or else the next one."""
        self._rung = True
        self._end()

    async def wait_until(self, when_s: float) -> bool:
        """Wait until *when_s* on the loop's clock; return whether it was ended early."""
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
    """Looks at one port until it is cancelled, one look at a time.

    Args:
        host: A name or an address.
        port: The port.
        pace: How often to look.
        look: Does one look with `PortWatcher.ask`; its own errors end `run`.
        failed: Called with the reason when a look failed.
        lost: Called when the idle connection ended.
        renew_after: Looks over one connection before a new one is opened; 0: any number.
    """

    # A Triton that got SIGTERM goes on answering old connections while it closes new ones, so only
    # a new connection shows that it is ending.

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
        """What the master lacked when it was to open a new connection; empty: nothing."""

    async def run(self) -> None:
        """Look until cancelled, then close the connection."""
        loop = asyncio.get_running_loop()
        hurried = False
        try:
            while True:
                await self._once()
                due_s = self._pace.next_s(loop.time())
                rung = await self.alarm.wait_until(due_s)
                # An early look comes only once in an interval: some servers close the connection
                # after each answer.
                if rung and hurried:
                    await asyncio.sleep(max(0.0, due_s - loop.time()))
                hurried = rung and not hurried
        finally:
            self.close()

    async def ask(self, question: bytes, longest_body: int = LONGEST_BODY) -> Reply:
        """Ask over the kept connection, or over a new one if that has ended."""
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
        """Open a new connection, then close the kept one; without a new one, keep it."""
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
        """Close the connection; the next request opens a new one."""
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
        # A Triton that is ending accepts new connections and closes them.
        return ProbeFailure(f"{where} closed the connection without an answer", gone=True)
    except MalformedReply as error:
        what = "answers with" if isinstance(error, TooLong) else "does not speak HTTP:"
        return ProbeFailure(f"{where} {what} {error}")
    except OSError as error:
        return _unreachable(where, error)
    return None


async def ask_once(
    endpoint: Endpoint,
    question: bytes,
    within_s: float,
    longest_body: int = LONGEST_BODY,
    too_long: Reply | None = None,
) -> Reply | ProbeFailure:
    """Return the reply to *question* over a connection of its own, or why there is none.

    *too_long* is returned in place of a reply of more than *longest_body* bytes; None: a failure.
    """
    replies: list[Reply] = []

    async def ask() -> None:
        connection = await connect(endpoint.host, endpoint.http_port, lambda: None)
        try:
            replies.append(await connection.ask(question, longest_body))
        except TooLong:
            if too_long is None:
                raise
            replies.append(too_long)
        finally:
            connection.close()  # Triton waits for open connections when it exits

    failure = await attempt(endpoint.http, within_s, ask())
    return replies[0] if failure is None else failure


def _unreachable(where: str, error: OSError) -> ProbeFailure:
    """Return why *where* could not be reached, and whether the master itself lacked something."""
    if isinstance(error, socket.gaierror) and error.errno in _NAME_SERVICE:
        return ProbeFailure("the name service does not answer", own=True)
    lack = shortage(error)
    return ProbeFailure(lack, own=True) if lack else ProbeFailure(f"cannot reach {where}: {error}")
