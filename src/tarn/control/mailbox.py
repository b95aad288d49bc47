"""Mailboxes with which threads ask one another without waiting.

A worker gets whole states, in one slot, where the newest replaces the one before. The control
thread gets requests in an inbox, and answers each of them.
"""

import logging
import queue
import re
import threading
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from typing import Generic, TypeVar

import attrs

from tarn.domain import Command, Done, Requester
from tarn.errors import ProviderError, Superseded, TarnError
from tarn.interfaces import Clock

__all__ = ["Inbox", "Request", "Worker"]

T = TypeVar("T")
log = logging.getLogger(__name__)

RETRY_S = 1.0
# Numbers change from one attempt to the next; without them, texts of one kind are equal.
_NUMBER = re.compile(r"\d+")


class Worker(Generic[T]):
    """One thread that handles the newest item; posting never blocks.

    An item in work is never interrupted. An item that failed is handled again after a second,
    unless a newer one has come. ``Superseded`` ends the worker, which keeps it in ``superseded``.
    """

    def __init__(
        self, name: str, work: Callable[[T], None], clock: Clock, wake: Callable[[], None]
    ) -> None:
        self.name = name
        self._work = work
        self._clock = clock
        self._wake = wake
        self._changed = threading.Condition()
        self._slot: list[T] = []
        self._closing = False
        self._since_s: float | None = None
        self.error: str = ""
        """Why the newest item could not be handled; empty if it could."""
        self.superseded: Superseded | None = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def post(self, item: T) -> None:
        """Leave *item* for the worker in place of one that it has not yet taken."""
        with self._changed:
            if not self._closing:
                self._slot[:] = [item]
                self._changed.notify()

    def working_s(self) -> float:
        """Return for how long the present item has been in work; 0 if there is none."""
        since_s = self._since_s
        return 0.0 if since_s is None else self._clock.now_s() - since_s

    def close(self, within_s: float, *, finish: bool = False) -> bool:
        """Take no more items, and wait; return whether the thread ended in time.

        An item that was not yet taken is dropped; with *finish* it is handled first, once.
        """
        with self._changed:
            self._closing = True
            if not finish:
                self._slot.clear()
            self._changed.notify()
        self._thread.join(within_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while (taken := self._take()) is not None:
            if not self._do(taken[0]):
                return

    def _take(self) -> list[T] | None:
        with self._changed:
            self._changed.wait_for(lambda: self._slot or self._closing)
            if not self._slot:
                return None
            taken, self._slot = self._slot, []
            return taken

    def _do(self, item: T) -> bool:
        self._since_s = self._clock.now_s()
        error: Exception | None = None
        try:
            self._work(item)
        except Superseded as newer:
            self.superseded = newer
        except Exception as failure:  # noqa: BLE001 (kept, shown and tried again)
            error = failure
        self._since_s = None
        if error is None:
            self.error = ""
        else:
            self._failed(error)
        self._wake()
        if error is not None:
            with self._changed:
                self._changed.wait_for(lambda: self._slot or self._closing, RETRY_S)
                if not self._slot and not self._closing:
                    self._slot[:] = [item]
        return self.superseded is None

    def _failed(self, error: Exception) -> None:
        """Keep the reason, and log it once, even if the item fails again and again."""
        ours = isinstance(error, TarnError)
        text = str(error) if ours else f"{type(error).__name__}: {error}"
        if text != self.error:
            kind = {"kind": _NUMBER.sub("#", f"{self.name}: {text}")}
            log.warning("%s: %s", self.name, text, exc_info=None if ours else error, extra=kind)
        self.error = text


@attrs.frozen
class Request:
    """A command, the revision it is meant for, the future of its answer, and its requester."""

    command: Command
    if_match: int | None
    answer: "Future[Done]"
    asker: Requester | None = None

    def reply(self, answer: Done | Exception) -> None:
        """Set the answer, unless the asker has given up meanwhile."""
        try:
            if isinstance(answer, Done):
                self.answer.set_result(answer)
            else:
                self.answer.set_exception(answer)
        except InvalidStateError:
            log.debug("an answer came after its caller had given up")


class Inbox:
    """A bounded queue of requests; `ask` never blocks."""

    def __init__(self, wake: Callable[[], None], size: int = 1000) -> None:
        self._queue: queue.Queue[Request] = queue.Queue(size)
        self._wake = wake

    def ask(
        self, command: Command, if_match: int | None = None, asker: Requester | None = None
    ) -> "Future[Done]":
        """Queue *command*; the future holds `Done`, or `RefusedError`, `ConflictError`, ….

        *if_match* is the spec revision that the asker saw; None: any revision is right. The events
        that follow name the *asker*.
        """
        answer: Future[Done] = Future()
        try:
            self._queue.put_nowait(Request(command, if_match, answer, asker))
        except queue.Full:
            answer.set_exception(
                ProviderError("master", "too many requests wait for an answer", retry_after_s=1.0)
            )
        else:
            self._wake()
        return answer

    def drain(self) -> tuple[Request, ...]:
        """Return all waiting requests, and remove them. Control thread only."""
        taken = []
        while True:
            try:
                taken.append(self._queue.get_nowait())
            except queue.Empty:
                return tuple(taken)
