"""Calls that may block (an authorizer, a directory of users, a log), away from the event loop."""

import asyncio
import contextlib
import contextvars
import logging
import queue
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, Protocol, TypeVar, cast

import attrs

from tarn.domain import Principal, Verdict
from tarn.errors import NotFoundError, ProviderError
from tarn.http.visibility import VisibilityFilter
from tarn.interfaces import Authorizer, LogTail
from tarn.plain import masked
from tarn.triton.log_files import MOST_BYTES, last_lines, rotated, standard_error

__all__ = ["AccessGate", "AuthorizerPool", "BlockingPool", "DirectAuthorizer", "LogReader"]

_LOG = logging.getLogger(__name__)

T = TypeVar("T")
_Question = tuple[Callable[[], Any], "Future[Any]"]
# They live as long as the pool: a thread that has called Java once stays attached to the JVM.
THREADS = 4
MOST_WAITING = 256
DEADLINE_S = 5.0


class BlockingPool:
    """A few threads, a bounded queue, and a deadline. `ask` on one event loop, `close` anywhere.

    Args:
        whose: The subject of its error texts, such as "the authorizer"; also names the threads.
        threads: How many questions are answered at a time.
        waiting: How many more may wait.
        deadline_s: Seconds from a question until its answer is too late.
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
        # Daemons: a thread that hangs inside a provider must not keep the master alive.
        self._threads = [
            threading.Thread(target=self._answer, name=f"{whose}, {number}", daemon=True)
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
            # With the context, what the question logs carries the id of the request.
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
            if waiting is None:  # it only wakes the thread, to be closed
                continue
            question, answer = waiting
            # A question that is late already was cancelled, and is not asked.
            if not answer.set_running_or_notify_cancel():
                continue
            try:
                found = question()
            except BaseException as error:  # noqa: BLE001 (it is raised where the question came from)
                answer.set_exception(error)
            else:
                answer.set_result(found)


class AccessGate(Protocol):
    """Asks the authorizer without blocking the event loop."""

    async def allow_each(
        self, principal: Principal, action: str, models: Sequence[str]
    ) -> tuple[Verdict, ...]:
        """Return the verdict on each of *models*, asked as one question.

        Never raises, and never takes longer than its deadline.
        """
        ...


@attrs.frozen
class DirectAuthorizer:
    """Asks on the event loop; for authorizers that answer from memory, like ``none``."""

    authorizer: Authorizer

    async def allow_each(
        self, principal: Principal, action: str, models: Sequence[str]
    ) -> tuple[Verdict, ...]:
        """Return the authorizer's verdicts."""
        return _ask(self.authorizer, principal, action, models)


class AuthorizerPool:
    """Asks on a few threads; a full queue, a late answer or an exception denies.

    Args:
        authorizer: Must be thread-safe.
        threads: How many questions are asked at a time.
        waiting: How many more may wait; the next one is denied.
        deadline_s: Seconds from a question to its answer.
    """

    def __init__(
        self,
        authorizer: Authorizer,
        *,
        threads: int = THREADS,
        waiting: int = MOST_WAITING,
        deadline_s: float = 2.0,
    ) -> None:
        self._authorizer = authorizer
        self._pool = BlockingPool(
            "the authorizer", threads=threads, waiting=waiting, deadline_s=deadline_s
        )

    async def allow_each(
        self, principal: Principal, action: str, models: Sequence[str]
    ) -> tuple[Verdict, ...]:
        """Return the authorizer's verdicts, or denials with the reason."""
        try:
            return await self._pool.ask(lambda: _ask(self._authorizer, principal, action, models))
        except ProviderError as error:
            return _no(error.found, models)

    def close(self) -> None:
        """End the threads; one that hangs is left alone after a second. Idempotent."""
        self._pool.close()


def _ask(
    authorizer: Authorizer, principal: Principal, action: str, models: Sequence[str]
) -> tuple[Verdict, ...]:
    try:
        verdicts: tuple[Verdict, ...]
        if len(models) == 1:
            verdicts = (authorizer.check(principal, action, models[0]),)
        else:
            verdicts = tuple(authorizer.check_each(principal, action, models))
    except Exception:  # noqa: BLE001 (anything that it raises denies, and is logged)
        _LOG.exception("the authorizer raised")
        return _no("the authorizer failed", models)
    if len(verdicts) != len(models) or not all(isinstance(one, Verdict) for one in verdicts):
        return _no("the authorizer returned no verdict", models)
    return verdicts


def _no(reason: str, models: Sequence[str]) -> tuple[Verdict, ...]:
    return (Verdict(allowed=False, reason=reason),) * len(models)


# A YARN NodeManager that does not answer is given up after five seconds; this is a little more.
LOG_WITHIN_S = 8.0

Tail = Callable[[str, int], LogTail]


def own_log(lines: int) -> LogTail:
    """Return the last *lines* lines that this process wrote to standard error.

    Raises:
        NotFoundError: Standard error is not a file.
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
    """Reads logs on two threads. `tail` on one event loop, `close` anywhere.

    Args:
        of_instance: Returns the end of an instance's log; may block.
        of_master: Returns the end of the master's log; may block.
        deadline_s: Seconds until an answer is too late.
    """

    def __init__(
        self,
        of_instance: Tail,
        of_master: Callable[[int], LogTail] = own_log,
        *,
        deadline_s: float = LOG_WITHIN_S,
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
            ProviderError: It could not be read in time.
        """

        def read() -> LogTail:
            log = self._of_instance(instance_id, lines) if instance_id else self._of_master(lines)
            return attrs.evolve(log, lines=tuple(hidden.text(masked(line)) for line in log.lines))

        return await self._pool.ask(read)

    def close(self) -> None:
        """End the threads. Idempotent."""
        self._pool.close()
