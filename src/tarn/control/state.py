"""Load the fleet's state, and save it on a thread of its own."""

import logging
import threading
from collections.abc import Callable

from tarn.control.mailbox import Worker
from tarn.domain import Epoch, SavedState
from tarn.errors import ProviderError, Superseded
from tarn.interfaces import Clock, StateStore

__all__ = ["Memory", "Saver", "load_state"]

log = logging.getLogger(__name__)

Memory = tuple[SavedState | None, tuple[str, ...]]
"""The saved state, and an alert about each older one that could not be read."""

# How long to wait for a state store that does not answer. To end instead would cost one of the few
# attempts that a runtime gives a master.
PATIENCE_S = 240.0
LEAST_GAP_S = 1.0
# A save that takes longer counts as failed, until it succeeds after all.
HANGS_S = 10.0


class Saver:
    """Owns the state thread. The control thread uses the rest."""

    def __init__(
        self, store: StateStore, epoch: Epoch, clock: Clock, wake: Callable[[], None], below: int
    ) -> None:
        self._store = store
        self._epoch = epoch
        self._clock = clock
        self._posted: SavedState | None = None
        self._posted_s = float("-inf")
        self._below = below
        self._revision = 0
        self.trouble = ""
        """Why the state could not be saved; empty if it could."""
        self.worker = Worker("state", self._save, clock, wake)

    @property
    def below(self) -> int:
        """Instance numbers below this one may be used: they are saved, or saving has failed."""
        # A state that cannot be saved must not stop the fleet; the next master rebuilds it.
        posted = self._posted
        if posted is None or self.worker.working_s() <= HANGS_S:
            return self._below
        return max(self._below, posted.next_number)

    def has(self, spec_revision: int) -> bool:
        """Return whether a new master would know the command that made *spec_revision*."""
        return spec_revision <= self._revision

    def save(self, state: SavedState, *, at_once: bool = False) -> None:
        """Save *state* if it changed: at once if ids or users depend on it, else soon."""
        last = self._posted
        if state == last:
            return
        urgent = at_once or last is None or _urgent(state) != _urgent(last)
        now_s = self._clock.now_s()
        if urgent or now_s - self._posted_s >= LEAST_GAP_S:
            self._posted, self._posted_s = state, now_s
            self.worker.post(state)

    def close(self, within_s: float, *, finish: bool) -> None:
        """End the thread; with *finish* the last state is saved first."""
        self.worker.close(within_s, finish=finish)

    def _save(self, state: SavedState) -> None:
        try:
            self._store.save(state, self._epoch)
        except Superseded:
            raise
        except Exception as error:
            self.trouble = str(error) or type(error).__name__
            self._below = max(self._below, state.next_number)
            raise
        self.trouble = ""
        self._revision = state.spec_revision
        self._below = max(self._below, state.next_number)


def load_state(store: StateStore, clock: Clock, stop: threading.Event) -> Memory:
    """Read the saved state; wait for a store that does not answer, until *stop* is set."""
    give_up_s = clock.now_s() + PATIENCE_S
    while True:
        try:
            memory = store.load()
        except ProviderError as error:
            if error.retry_after_s is None or clock.now_s() >= give_up_s:
                raise
            log.warning("the saved state is waited for: %s", error)
            if stop.wait(error.retry_after_s):
                raise
        else:
            for alert in memory[1]:
                log.warning("%s", alert)
            return memory


def _urgent(state: SavedState) -> tuple[object, ...]:
    """Return the part whose loss would repeat an id, or lose a command or a request."""
    counters = state.next_number, state.spec_revision
    calls = state.call_number, state.calls, state.calls_had, state.calls_complete
    return *counters, state.drains, state.stops, state.followers, calls
