"""How the cluster calls people, remembered for a minute."""

import time
from collections import OrderedDict
from collections.abc import Callable

from tarn.http.blocking_pool import BlockingPool
from tarn.interfaces import UserDirectory

__all__ = ["People"]

REMEMBERED_S = 60.0
"""How long somebody's groups are kept: as long as somebody who was thrown out of one stays in."""
MOST_REMEMBERED = 4096


class People:
    """How the cluster calls people, remembered for a minute. On one event loop.

    Args:
        names: Who knows.
        pool: Where it is asked.
        now_s: Monotonic seconds.
    """

    def __init__(
        self, names: UserDirectory, pool: BlockingPool, now_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._names = names
        self._pool = pool
        self._now_s = now_s
        self._kept: OrderedDict[str, tuple[float, frozenset[str]]] = OrderedDict()

    async def short(self, principal: str) -> str:
        """Return the user's name of a Kerberos *principal*; empty: no rule makes one."""
        return await self._pool.ask(lambda: self._names.short(principal))

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
        found = await self._pool.ask(lambda: self._names.groups(user))
        self._kept[user] = asked_s, found
        self._kept.move_to_end(user)
        while len(self._kept) > MOST_REMEMBERED:
            self._kept.popitem(last=False)
        return found
