"""How other threads ask the control thread for something, and get its answer."""

import logging
import queue
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError

import attrs

from tarn.domain import Command, Done, Requester
from tarn.errors import ProviderError

__all__ = ["Inbox", "Request"]

log = logging.getLogger(__name__)


@attrs.frozen
class Request:
    """A command, the revision it was meant for, where its answer goes, and who asks."""

    command: Command
    if_match: int | None
    answer: "Future[Done]"
    asker: Requester | None = None

    def reply(self, answer: Done | Exception) -> None:
        """Answer once; the asker may have given up meanwhile."""
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

        *if_match* is the spec revision that the asker saw; None does not care. *asker* stands in
        the events that come of it.
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
        """Take every request that waits. Control thread only."""
        taken = []
        while True:
            try:
                taken.append(self._queue.get_nowait())
            except queue.Empty:
                return tuple(taken)
