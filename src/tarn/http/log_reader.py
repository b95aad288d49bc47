"""Reads the ends of logs away from the event loop: who keeps them may be slow, or away."""

import functools
from collections.abc import Callable

import attrs

from tarn.errors import NotFoundError
from tarn.http.blocking_pool import BlockingPool
from tarn.http.visibility import VisibilityFilter
from tarn.interfaces import LogTail
from tarn.plain import masked
from tarn.triton.log_files import MOST_BYTES, last_lines, rotated, standard_error

__all__ = ["LogReader"]

DEADLINE_S = 8.0
"""A node of YARN that does not answer is given up after five seconds."""

Tail = Callable[[str, int], LogTail]


def own_log(lines: int) -> LogTail:
    """Return the end of what this process writes to standard error.

    Raises:
        NotFoundError: That is not a file.
    """
    path = standard_error()
    if path is None:
        raise NotFoundError(
            "the master's log is in no file",
            where="master",
            next_step="Look where its standard error goes, such as a terminal or a pipe",
        )
    return LogTail(*last_lines(rotated(path), lines, MOST_BYTES))


class LogReader:
    """Reads logs on two threads of its own. `tail` on one event loop, `close` anywhere.

    Args:
        of_instance: Returns the end of an instance's log; blocks.
        of_master: Returns the end of the master's.
        deadline_s: Seconds until nobody waits for an answer any more.
    """

    def __init__(
        self,
        of_instance: Tail,
        of_master: Callable[[int], LogTail] = own_log,
        *,
        deadline_s: float = DEADLINE_S,
    ) -> None:
        self._of_instance = of_instance
        self._of_master = of_master
        self._pool = BlockingPool(
            "the reader of the logs", threads=2, waiting=16, deadline_s=deadline_s
        )

    async def tail(self, instance_id: str, lines: int, hidden: VisibilityFilter) -> LogTail:
        """Return the last *lines* lines without secrets and *hidden* models.

        Raises:
            NotFoundError: There is no such log.
            ProviderError: It could not be read, or not in time.
        """
        return await self._pool.ask(functools.partial(self._read, instance_id, lines, hidden))

    def close(self) -> None:
        """End the threads. Idempotent."""
        self._pool.close()

    def _read(self, instance_id: str, lines: int, hidden: VisibilityFilter) -> LogTail:
        found = self._of_instance(instance_id, lines) if instance_id else self._of_master(lines)
        return attrs.evolve(found, lines=tuple(hidden.text(masked(line)) for line in found.lines))
