"""Look at one port of one instance over one kept connection, whenever its turn comes."""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from types import TracebackType

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

__all__ = ["CancellableWait", "PortWatcher", "ProbeFailure", "ask_once"]

# Errors of the resolver when it could not ask; a name that does not exist is another error.
_NAME_SERVICE = frozenset({socket.EAI_AGAIN, socket.EAI_MEMORY, socket.EAI_SYSTEM})


# A time limit counts in this many parts: see `TimeLimit`.
_PARTS = 20


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


class TimeLimit:
    """Ends the block with ``TimeoutError`` after a time, as `asyncio.timeout` does.

    A late loop takes nothing of the time: the limit counts in parts, and however late the loop ends
    a part, because the master was starved or stopped, it is one part. So an answer that lies there
    already is read first.
    """

    def __init__(self, timeout_s: float) -> None:
        self._part_s, self._left, self._expired = timeout_s / _PARTS, _PARTS, False
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.Handle = self._loop.call_later(self._part_s, self._end)

    def __enter__(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._task, self._cancels = task, task.cancelling()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._timer.cancel()
        if not self._expired or self._task.uncancel() > self._cancels:
            return
        if isinstance(error, asyncio.CancelledError):
            raise TimeoutError from error

    def _end(self) -> None:
        self._left -= 1
        if self._left:
            self._timer = self._loop.call_later(self._part_s, self._end)
        else:  # in the next turn of the loop, when what came in this one was read
            self._timer = self._loop.call_soon(self._expire)

    def _expire(self) -> None:
        self._expired = True
        self._task.cancel()


class PortWatcher:
    """Looks at one port, one look at a time.

    Args:
        host: A name or an address.
        port: The port.
        timeout_s: Time limit of one look: connect, ask, answer.
        look: Does one look with `PortWatcher.ask`.
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
        timeout_s: float,
        look: Callable[["PortWatcher"], Awaitable[None]],
        failed: Callable[[ProbeFailure], None],
        lost: Callable[[], None],
        renew_after: int = 0,
    ) -> None:
        self._renew_after, self._looks, self._due = renew_after, 0, False
        self._host, self._port, self._timeout_s = host, port, timeout_s
        self._look, self.failed, self._lost = look, failed, lost
        self._connection: ProbeConnection | None = None
        self.lack = ""
        """What the master lacked when it was to open a new connection; empty: nothing."""

    async def once(self) -> None:
        """Look once; an error of the look itself is raised."""
        self._looks += 1
        self._due = bool(self._renew_after) and self._looks % self._renew_after == 0
        where = host_port(self._host, self._port)
        try:
            failure = await attempt(where, self._timeout_s, self._look(self))
        except BaseException:
            self.close()
            raise
        if failure is not None:
            self.close()
            self.failed(failure)

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


async def attempt(where: str, timeout_s: float, work: Awaitable[None]) -> ProbeFailure | None:
    """Do *work*, which talks to *where*, and return why it failed; None when it did not."""
    try:
        with TimeLimit(timeout_s):
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
