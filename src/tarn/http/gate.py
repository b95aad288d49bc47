"""May they: how the event loop asks an authorizer without ever waiting for it too long."""

import asyncio
import contextlib
import logging
import queue
import threading
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


@attrs.frozen
class DirectGate:
    """Asks on the event loop: for authorizers that answer from memory, like ``none``."""

    authorizer: Authorizer

    async def allow(self, principal: Principal, action: str, model: str) -> Verdict:
        """Return the authorizer's verdict."""
        return _ask(self.authorizer, principal, action, model)


@attrs.frozen(eq=False)
class _Question:
    principal: Principal
    action: str
    model: str
    loop: asyncio.AbstractEventLoop
    answer: "asyncio.Future[Verdict]"


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
        loop = asyncio.get_running_loop()
        question = _Question(principal, action, model, loop, loop.create_future())
        try:
            self._questions.put_nowait(question)
        except queue.Full:
            return Verdict(allowed=False, reason="the authorizer has too many questions waiting")
        try:
            async with asyncio.timeout(self._deadline_s):
                return await question.answer
        except TimeoutError:
            reason = f"the authorizer did not answer within {self._deadline_s:g} s"
            return Verdict(allowed=False, reason=reason)

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
            verdict = _ask(self._authorizer, question.principal, question.action, question.model)
            with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
                question.loop.call_soon_threadsafe(_settle, question.answer, verdict)


def _settle(answer: "asyncio.Future[Verdict]", verdict: Verdict) -> None:
    if not answer.done():
        answer.set_result(verdict)


def _ask(authorizer: Authorizer, principal: Principal, action: str, model: str) -> Verdict:
    try:
        verdict = authorizer.check(principal, action, model)
    except Exception:  # noqa: BLE001 (whatever it raises is a no, and stands in the log)
        _LOG.exception("the authorizer raised")
        return Verdict(allowed=False, reason="the authorizer failed")
    if not isinstance(verdict, Verdict):
        return Verdict(allowed=False, reason="the authorizer gave no verdict")
    return verdict
