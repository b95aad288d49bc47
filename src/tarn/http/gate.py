"""May they: how the event loop asks an authorizer without ever waiting for it too long."""

import asyncio
import contextlib
import logging
import queue
import threading
from collections.abc import Sequence
from typing import Protocol

import attrs

from tarn.domain import Principal, Verdict
from tarn.interfaces import Authorizer

__all__ = ["DirectGate", "Gate", "PooledGate"]

_LOG = logging.getLogger(__name__)


class Gate(Protocol):
    """Asked once for each request that is not to an open route."""

    async def allow(self, principal: Principal, action: str, model: str) -> Verdict:
        """Return the verdict; never raises, and never takes longer than its deadline."""
        ...

    async def allow_each(
        self, principal: Principal, action: str, models: Sequence[str]
    ) -> tuple[Verdict, ...]:
        """Return the verdict for each of *models*, asked as one question."""
        ...


@attrs.frozen
class DirectGate:
    """Asks on the event loop: for authorizers that answer from memory, like ``none``."""

    authorizer: Authorizer

    async def allow(self, principal: Principal, action: str, model: str) -> Verdict:
        """Return the authorizer's verdict."""
        return _ask(self.authorizer, principal, action, (model,))[0]

    async def allow_each(
        self, principal: Principal, action: str, models: Sequence[str]
    ) -> tuple[Verdict, ...]:
        """Return the authorizer's verdicts."""
        return _ask(self.authorizer, principal, action, models)


@attrs.frozen(eq=False)
class _Question:
    principal: Principal
    action: str
    models: tuple[str, ...]
    loop: asyncio.AbstractEventLoop
    answer: "asyncio.Future[tuple[Verdict, ...]]"


class PooledGate:
    """Asks on a few threads; a full queue, a late answer and an exception are all a no.

    Args:
        authorizer: Must be thread-safe.
        threads: How many questions are asked at a time.
        waiting: How many more may wait; the next one is denied.
        deadline_s: Seconds from the question to its answer.
    """

    def __init__(
        self,
        authorizer: Authorizer,
        *,
        threads: int = 4,
        waiting: int = 256,
        deadline_s: float = 2.0,
    ) -> None:
        self._authorizer = authorizer
        self._deadline_s = deadline_s
        self._questions: queue.Queue[_Question | None] = queue.Queue(waiting)
        self._closed = threading.Event()
        # Daemons: one that hangs inside a provider is left alone when the master leaves.
        self._threads = [
            threading.Thread(target=self._answer, name=f"authorizer-{number}", daemon=True)
            for number in range(threads)
        ]
        for thread in self._threads:
            thread.start()

    async def allow(self, principal: Principal, action: str, model: str) -> Verdict:
        """Return the authorizer's verdict, or a no with the reason why there is none."""
        return (await self.allow_each(principal, action, (model,)))[0]

    async def allow_each(
        self, principal: Principal, action: str, models: Sequence[str]
    ) -> tuple[Verdict, ...]:
        """Return the authorizer's verdicts, or as many times no with the reason."""
        loop = asyncio.get_running_loop()
        question = _Question(principal, action, tuple(models), loop, loop.create_future())
        try:
            self._questions.put_nowait(question)
        except queue.Full:
            return _no("the authorizer has too many questions waiting", models)
        try:
            async with asyncio.timeout(self._deadline_s):
                return await question.answer
        except TimeoutError:
            return _no(f"the authorizer did not answer within {self._deadline_s:g} s", models)

    def close(self) -> None:
        """End the threads; one that hangs is left alone after a second. Idempotent."""
        self._closed.set()
        for _ in self._threads:
            with contextlib.suppress(queue.Full):
                self._questions.put_nowait(None)
        for thread in self._threads:
            thread.join(timeout=1.0 / len(self._threads))

    def _answer(self) -> None:
        while not self._closed.is_set():
            try:
                question = self._questions.get(timeout=1.0)
            except queue.Empty:
                continue
            if question is None or question.answer.done():
                continue
            asked = question.principal, question.action, question.models
            verdicts = _ask(self._authorizer, *asked)
            with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
                question.loop.call_soon_threadsafe(_settle, question.answer, verdicts)


def _settle(answer: "asyncio.Future[tuple[Verdict, ...]]", verdicts: tuple[Verdict, ...]) -> None:
    if not answer.done():
        answer.set_result(verdicts)


def _ask(
    authorizer: Authorizer, principal: Principal, action: str, models: Sequence[str]
) -> tuple[Verdict, ...]:
    try:
        verdicts: tuple[Verdict, ...]
        if len(models) == 1:
            verdicts = (authorizer.check(principal, action, models[0]),)
        else:
            verdicts = tuple(authorizer.check_each(principal, action, models))
    except Exception:  # noqa: BLE001 (whatever it raises is a no, and stands in the log)
        _LOG.exception("the authorizer raised")
        return _no("the authorizer failed", models)
    if len(verdicts) != len(models) or not all(isinstance(one, Verdict) for one in verdicts):
        return _no("the authorizer gave no verdict", models)
    return verdicts


def _no(reason: str, models: Sequence[str]) -> tuple[Verdict, ...]:
    return (Verdict(allowed=False, reason=reason),) * len(models)
