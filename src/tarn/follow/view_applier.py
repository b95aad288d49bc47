"""Bringing a discovery to the newest view, and trying again what failed."""

import logging
import threading
from collections.abc import Callable

import attrs

from tarn.domain import DiscoveryView
from tarn.errors import Superseded, TarnError
from tarn.interfaces import Clock, Discovery

__all__ = ["ApplyFailure", "ViewApplier"]

log = logging.getLogger(__name__)

FIRST_BACK_OFF_S, LONGEST_BACK_OFF_S = 0.2, 5.0
CLOSE_WITHIN_S = 10.0


@attrs.frozen
class ApplyFailure:
    """A view that could not be applied, and why."""

    view: DiscoveryView
    why: str
    at: float
    """Wall time of the first attempt that failed so, Unix seconds."""


class ViewApplier:
    """One thread with a mailbox of one: posting never blocks, and the newest view wins.

    A view in work is never cut. One that failed is tried again with back-off until it is done or
    a newer one has come. One that was superseded is left: a newer master's views will come.

    Args:
        discovery: Only its `sync` is called, and only on this thread.
        clock: Wall time.
        changed: Called after each attempt, on this thread; never blocks.
        back_off_s: Seconds after the first failure, and at most.
    """

    def __init__(
        self,
        discovery: Discovery,
        clock: Clock,
        changed: Callable[[], None],
        back_off_s: tuple[float, float] = (FIRST_BACK_OFF_S, LONGEST_BACK_OFF_S),
    ) -> None:
        self._discovery, self._clock, self._changed = discovery, clock, changed
        self._first_s, self._longest_s = back_off_s
        self._news = threading.Condition()
        self._slot: DiscoveryView | None = None
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="tarn-apply", daemon=True)
        self.done: DiscoveryView | None = None
        """The last view that was applied."""
        self.failure: ApplyFailure | None = None
        """Why the newest one is not; None: it is, or it is in work for the first time."""

    def start(self) -> None:
        """Begin to work."""
        self._thread.start()

    def post(self, view: DiscoveryView) -> None:
        """Leave *view* in place of one that has not been taken. Any thread."""
        with self._news:
            self._slot = view
            self._news.notify()

    def close(self) -> bool:
        """End after the view in work; False when it did not end in time. Idempotent."""
        with self._news:
            self._closing = True
            self._news.notify()
        if self._thread.is_alive():
            self._thread.join(CLOSE_WITHIN_S)
        return not self._thread.is_alive()

    def _run(self) -> None:
        again: DiscoveryView | None = None
        back_off_s = self._first_s
        while (view := self._next(again, back_off_s)) is not None:
            back_off_s = self._first_s if again is None else min(2 * back_off_s, self._longest_s)
            again = self._applied(view)
            self._changed()

    def _next(self, again: DiscoveryView | None, back_off_s: float) -> DiscoveryView | None:
        """Wait for a view; without a newer one, return *again* after the back-off. None: over."""
        with self._news:
            patience_s = None if again is None else back_off_s
            self._news.wait_for(lambda: self._slot is not None or self._closing, patience_s)
            if self._closing:
                return None
            view, self._slot = self._slot or again, None
            return view

    def _applied(self, view: DiscoveryView) -> DiscoveryView | None:
        """Apply *view*; return it when it shall be tried again."""
        try:
            self._discovery.sync(view)
        except Superseded as newer:
            self._failed(view, str(newer))
            return None
        except TarnError as error:
            self._failed(view, str(error))
            return view
        except Exception as error:  # a bug must not end the following: it is shown, and kept
            log.exception("revision %d could not be applied", view.revision)
            self._failed(view, f"{type(error).__name__}: {error}")
            return view
        self.done, self.failure = view, None
        return None

    def _failed(self, view: DiscoveryView, why: str) -> None:
        """Keep why, with the time at which it was first so."""
        old = self.failure
        if old is None or (old.view, old.why) != (view, why):
            self.failure = ApplyFailure(view, why, self._clock.at())
