"""Asks what may block (a ticket's check, a directory of users) away from the event loop."""

import asyncio
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from tarn.interfaces import Names

__all__ = ["Desk", "People"]

T = TypeVar("T")
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
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="identity")
        self._free = threading.BoundedSemaphore(MOST_WAITING)
        self._deadline_s = deadline_s

    async def ask(self, question: Callable[[], T]) -> T:
        """Return the answer of *question*, or raise what it raised.

        Raises:
            TimeoutError: It came too late, or too many wait already.
        """
        if not self._free.acquire(blocking=False):
            raise TimeoutError("too many wait")
        try:
            asked = self._pool.submit(question)
        except RuntimeError as error:  # it was closed
            self._free.release()
            raise TimeoutError("the master leaves") from error
        asked.add_done_callback(lambda _: self._free.release())
        async with asyncio.timeout(self._deadline_s):
            return await asyncio.wrap_future(asked)

    def close(self) -> None:
        """Take no more questions; one that hangs is left alone. Idempotent."""
        self._pool.shutdown(wait=False, cancel_futures=True)


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
        """Return the groups of *user*; ``TimeoutError`` when nobody knows in time."""
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
