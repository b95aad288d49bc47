"""Save the fleet's state on a thread of its own, often enough and no more."""

from collections.abc import Callable

from tarn.control.mailbox import Worker
from tarn.domain import Epoch, SavedState
from tarn.errors import Superseded, TarnError
from tarn.interfaces import Clock, StateStore

__all__ = ["Saver"]

LEAST_GAP_S = 1.0


class Saver:
    """Owns the state thread. `save` is for the control thread."""

    def __init__(
        self, store: StateStore, epoch: Epoch, clock: Clock, wake: Callable[[], None], below: int
    ) -> None:
        self._store = store
        self._epoch = epoch
        self._clock = clock
        self._posted: SavedState | None = None
        self._posted_s = float("-inf")
        self.below = below
        """Instance numbers under this one are safe to use: saved, or known not to be savable."""
        self.trouble = ""
        """Why the state could not be written; empty when it could."""
        self._worker = Worker("state", self._save, clock, wake)

    @property
    def superseded(self) -> Superseded | None:
        """The newer master that was met while saving; None."""
        return self._worker.superseded

    def save(self, state: SavedState) -> None:
        """Save *state* if it differs: at once when people or ids depend on it, else soon."""
        last = self._posted
        if state == last:
            return
        urgent = last is None or (
            (state.next_number, state.spec_revision, state.drains, state.stops)
            != (last.next_number, last.spec_revision, last.drains, last.stops)
        )
        now_s = self._clock.now_s()
        if urgent or now_s - self._posted_s >= LEAST_GAP_S:
            self._posted, self._posted_s = state, now_s
            self._worker.post(state)

    def close(self, within_s: float) -> None:
        """Finish the save in work."""
        self._worker.close(within_s)

    def _save(self, state: SavedState) -> None:
        try:
            self._store.save(state, self._epoch)
        except Superseded:
            raise
        except TarnError as error:
            self.trouble = str(error)
            raise
        else:
            self.trouble = ""
        finally:
            # a state that cannot be written must not stop the fleet: the next master rebuilds
            self.below = max(self.below, state.next_number)
