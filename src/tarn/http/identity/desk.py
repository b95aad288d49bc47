"""Asks what may block (a ticket's check, a directory of users) away from the event loop."""

import asyncio
import contextlib
import queue
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar, cast

from tarn.errors import ProviderError
from tarn.interfaces import Names

__all__ = ["Desk", "People"]

T = TypeVar("T")
_Question = tuple[Callable[[], Any], "Future[Any]"]
THREADS = 4
"""The same ones for good: whoever has called Java once stays a thread of Java's."""
MOST_WAITING = 256
DEADLINE_S = 5.0
REMEMBERED_S = 60.0
"""How long somebody's groups are kept: as long as somebody who was thrown out of one stays in."""
MOST_REMEMBERED = 4096


class Desk:
    """A few threads, a bounded queue, and a deadline. `ask` on one event loop, `close` anywhere.

    Args:
        deadline_s: Seconds until an answer comes too late.
    """

    def __init__(self, *, deadline_s: float = DEADLINE_S) -> None:
        self._deadline_s = deadline_s
        self._questions: queue.Queue[_Question | None] = queue.Queue(MOST_WAITING)
        self._closed = threading.Event()
        # Daemons: one that hangs in a directory of users is left alone when the master leaves.
        self._threads = [
            threading.Thread(target=self._answer, name=f"identity-{number}", daemon=True)
            for number in range(THREADS)
        ]
        for thread in self._threads:
            thread.start()

    async def ask(self, question: Callable[[], T]) -> T:
        """Return the answer of *question*, or raise what it raised.

        Raises:
            ProviderError: It came too late, too many wait already, or the desk is closed.
        """
        answer: Future[Any] = Future()
        if self._closed.is_set():
            raise _late("the master leaves")
        try:
            self._questions.put_nowait((question, answer))
        except queue.Full as error:
            raise _late("too many wait for an answer") from error
        try:
            async with asyncio.timeout(self._deadline_s):
                return cast("T", await asyncio.wrap_future(answer))
        except TimeoutError as error:
            raise _late(f"there was no answer within {self._deadline_s:g} s") from error

    def close(self) -> None:
        """End the threads; one that hangs is left alone after a second. Idempotent."""
        self._closed.set()
        for _ in self._threads:
            with contextlib.suppress(queue.Full):
                self._questions.put_nowait(None)
        for thread in self._threads:
            thread.join(timeout=1.0 / THREADS)

    def _answer(self) -> None:
        while not self._closed.is_set():
            try:
                waiting = self._questions.get(timeout=1.0)
            except queue.Empty:
                continue
            # One that is late already was cancelled, and is not asked.
            if waiting is not None and waiting[1].set_running_or_notify_cancel():
                _settle(*waiting)


def _late(why: str) -> ProviderError:
    return ProviderError(
        "identity", f"who somebody is could not be looked up: {why}", retry_after_s=1
    )


def _settle(question: Callable[[], Any], answer: "Future[Any]") -> None:
    try:
        found = question()
    except BaseException as error:  # noqa: BLE001 (whatever it raises belongs to who asked)
        answer.set_exception(error)
    else:
        answer.set_result(found)


class People:
    """How the cluster calls people, remembered for a minute. On one event loop.

    Args:
        names: Who knows.
        desk: Where it is asked.
        now_s: Monotonic seconds.
    """

    def __init__(
        self, names: Names, desk: Desk, now_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._names = names
        self._desk = desk
        self._now_s = now_s
        self._kept: OrderedDict[str, tuple[float, frozenset[str]]] = OrderedDict()

    async def short(self, principal: str) -> str:
        """Return the user's name of a Kerberos *principal*; empty: no rule makes one."""
        return await self._desk.ask(lambda: self._names.short(principal))

    async def groups(self, user: str) -> frozenset[str]:
        """Return the groups of *user*; ``ProviderError`` when nobody knows in time.

        A name like an option is nobody's: some directories are asked by a program (``id -Gn``).
        """
        if user.startswith("-"):
            return frozenset()
        kept = self._kept.get(user)
        if kept is not None and self._now_s() - kept[0] < REMEMBERED_S:
            return kept[1]
        asked_s = self._now_s()
        found = await self._desk.ask(lambda: self._names.groups(user))
        self._kept[user] = asked_s, found
        self._kept.move_to_end(user)
        while len(self._kept) > MOST_REMEMBERED:
            self._kept.popitem(last=False)
        return found
