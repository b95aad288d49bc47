"""What a master remembers of the hours: history, and since when things are wrong."""

from collections.abc import Callable, Mapping

import attrs

from tarn.control.alarms import Key, onsets
from tarn.control.looks import look
from tarn.control.mailbox import Worker
from tarn.control.snapshot import Board, Snapshot
from tarn.domain.history import History
from tarn.interfaces import Clock

__all__ = ["Past", "Recorder"]

LOOK_EACH_S = 1.0


@attrs.frozen
class Past:
    """Everything remembered, as one value."""

    history: History = attrs.field(factory=History)
    since: Mapping[Key, float] = attrs.field(factory=dict, hash=False)
    """Wall seconds since which each thing is wrong that is."""

    def looked(self, snapshot: Snapshot) -> "Past":
        """Return it with one more snapshot; of a stale one only what is wrong is taken."""
        since = onsets(self.since, snapshot)
        if snapshot.stale:
            return attrs.evolve(self, since=since)
        return Past(self.history.looked(look(snapshot)), since)


class Recorder:
    """Follows the board on a thread of its own: the control thread only hands over.

    Args:
        board: Whose snapshots are looked at, once a second.
        clock: Of the worker.
    """

    def __init__(self, board: Board, clock: Clock) -> None:
        self._past = Past()
        self._looked_at: float | None = None
        self._worker: Worker[Snapshot] = Worker("history", self._look, clock, lambda: None)
        self._unsubscribe: Callable[[], None] = board.subscribe(self._hear)

    @property
    def past(self) -> Past:
        """Return what is remembered now; any thread, never blocks."""
        return self._past

    def close(self) -> None:
        """Look at nothing any more. Idempotent."""
        self._unsubscribe()
        self._worker.close(0.05)

    def _hear(self, snapshot: Snapshot) -> None:
        """Hand over at most one snapshot a second. Control thread."""
        last = self._looked_at
        if last is None or not 0 <= snapshot.at - last < LOOK_EACH_S:
            self._looked_at = snapshot.at
            self._worker.post(snapshot)

    def _look(self, snapshot: Snapshot) -> None:
        self._past = self._past.looked(snapshot)
