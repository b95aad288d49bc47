"""How anything that may block is asked for a whole state: one slot, the newest wins."""

import logging
import re
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from tarn.errors import Superseded, TarnError
from tarn.interfaces import Clock

__all__ = ["Worker"]

T = TypeVar("T")
log = logging.getLogger(__name__)

RETRY_S = 1.0
_NUMBER = re.compile(r"\d+")
"""What changes in one text from one attempt to the next."""


class Worker(Generic[T]):
    """One thread that does one thing with the newest item; posting never blocks.

    An item in work is never cut. An item that failed is done again after a second, unless a newer
    one has come. ``Superseded`` ends the worker, and is kept for the control thread to see.
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
        """Why the newest item could not be done; empty when it could."""
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
        """Return for how long the item in work has been in work; 0 when there is none."""
        since_s = self._since_s
        return 0.0 if since_s is None else self._clock.now_s() - since_s

    def close(self, within_s: float, *, finish: bool = False) -> bool:
        """Take no more items, and wait; False when the item in work did not end in time.

        An item that was not yet taken is dropped; with *finish* it is done first, once.
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
            self._rest_and_retry(item)
        return self.superseded is None

    def _failed(self, error: Exception) -> None:
        """Keep why, and log it once however often it is tried again."""
        ours = isinstance(error, TarnError)
        text = str(error) if ours else f"{type(error).__name__}: {error}"
        if text != self.error:
            kind = {"kind": _NUMBER.sub("#", f"{self.name}: {text}")}
            log.warning("%s: %s", self.name, text, exc_info=None if ours else error, extra=kind)
        self.error = text

    def _rest_and_retry(self, item: T) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._slot or self._closing, RETRY_S)
            if not self._slot and not self._closing:
                self._slot[:] = [item]
