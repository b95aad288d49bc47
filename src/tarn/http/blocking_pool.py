"""Asks what may block (an authorizer, a directory of users) away from the event loop."""

import asyncio
import contextlib
import contextvars
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar, cast

from tarn.errors import ProviderError

__all__ = ["BlockingPool"]

T = TypeVar("T")
_Question = tuple[Callable[[], Any], "Future[Any]"]
THREADS = 4
"""The same ones for good: whoever has called Java once stays a thread of Java's."""
MOST_WAITING = 256
DEADLINE_S = 5.0


class BlockingPool:
    """A few threads, a bounded queue, and a deadline. `ask` on one event loop, `close` anywhere.

    Args:
        whose: Who is asked, in the words of a sentence that begins with it; names the threads, too.
        threads: How many questions are asked at a time.
        waiting: How many more may wait.
        deadline_s: Seconds from a question until its answer comes too late.
    """

    def __init__(
        self,
        whose: str,
        *,
        threads: int = THREADS,
        waiting: int = MOST_WAITING,
        deadline_s: float = DEADLINE_S,
    ) -> None:
        self._whose = whose
        self._deadline_s = deadline_s
        self._questions: queue.Queue[_Question | None] = queue.Queue(waiting)
        self._closed = threading.Event()
        # Daemons: one that hangs inside a provider is left alone when the master leaves.
        self._threads = [
            threading.Thread(
                target=self._answer, name=f"{whose.rpartition(' ')[2]}-{number}", daemon=True
            )
            for number in range(threads)
        ]
        for thread in self._threads:
            thread.start()

    async def ask(self, question: Callable[[], T]) -> T:
        """Return the answer of *question*, or raise what it raised.

        Raises:
            ProviderError: It came too late, too many wait already, or the pool is closed.
        """
        answer: Future[Any] = Future()
        if self._closed.is_set():
            raise self._no("takes no more questions: the master is leaving")
        try:
            # what is logged about it carries the id of the request
            asking = contextvars.copy_context()
            self._questions.put_nowait((lambda: asking.run(question), answer))
        except queue.Full as error:
            raise self._no("has too many requests waiting") from error
        try:
            async with asyncio.timeout(self._deadline_s):
                return cast("T", await asyncio.wrap_future(answer))
        except TimeoutError as error:
            raise self._no(f"did not answer within {self._deadline_s:g} s") from error

    def close(self) -> None:
        """End the threads; one that hangs is left alone after a second. Idempotent."""
        self._closed.set()
        for _ in self._threads:
            with contextlib.suppress(queue.Full):
                self._questions.put_nowait(None)
        for thread in self._threads:
            thread.join(timeout=1.0 / len(self._threads))

    def _no(self, why: str) -> ProviderError:
        return ProviderError("http", f"{self._whose} {why}", retry_after_s=1)

    def _answer(self) -> None:
        while not self._closed.is_set():
            try:
                waiting = self._questions.get(timeout=1.0)
            except queue.Empty:
                continue
            # One that is late already was cancelled, and is not asked.
            if waiting is not None and waiting[1].set_running_or_notify_cancel():
                _settle(*waiting)


def _settle(question: Callable[[], Any], answer: "Future[Any]") -> None:
    try:
        found = question()
    except BaseException as error:  # noqa: BLE001 (whatever it raises belongs to who asked)
        answer.set_exception(error)
    else:
        answer.set_result(found)
