"""Record the history of the board's snapshots, and save it for the next master."""

import logging
from collections.abc import Callable

import attrs

from tarn.control.mailbox import Worker
from tarn.domain import ClusterState
from tarn.errors import ProviderError, Superseded
from tarn.interfaces import MasterContext, StateStore
from tarn.read.retained_history import NAME, RetainedHistory, read, written
from tarn.read.snapshot import Board, Snapshot

__all__ = ["Recorder"]

log = logging.getLogger(__name__)

LOOK_EACH_S = 1.0
# A master that is killed loses at most this much of its history.
KEEP_EACH_S = 60.0
LEAVE_S = 0.5
# In these states nothing is saved, since the cluster's directory is being cleared.
_OVER = frozenset({ClusterState.STOPPING, ClusterState.STOPPED, ClusterState.FAILED})


class Recorder:
    """Records a snapshot each second, on a thread of its own.

    It reads the history of earlier masters first. While their files cannot be reached, it tries
    again and does not overwrite them. A damaged history is given up.

    Args:
        board: The board with the snapshots.
        store: Saves the history; used on this thread only.
        context: The context of the master.
    """

    def __init__(self, board: Board, store: StateStore, context: MasterContext) -> None:
        self._store, self._clock, self._epoch = store, context.clock, context.epoch
        self._gpus = context.spec.instance.resources.gpus
        self._past = RetainedHistory()
        self._begun = False
        self._handed_at: float | None = None
        self._kept_s = context.clock.now_s()
        self._worker: Worker[Snapshot] = Worker("history", self._look, self._clock, lambda: None)
        self._unsubscribe: Callable[[], None] = board.subscribe(self._hear)
        self._board = board

    def past(self) -> RetainedHistory:
        """Return the history so far; any thread, never blocks."""
        error = self._worker.error
        return attrs.evolve(self._past, trouble=error) if error else self._past

    def close(self) -> None:
        """Stop recording, and save the history if that is quick. Idempotent."""
        self._unsubscribe()
        self._kept_s = float("-inf")
        self._worker.post(self._board.current)
        self._worker.close(LEAVE_S, finish=True)

    def _hear(self, snapshot: Snapshot) -> None:
        """Pass on at most one snapshot a second. Control thread."""
        last = self._handed_at
        if last is None or not 0 <= snapshot.at - last < LOOK_EACH_S:
            self._handed_at = snapshot.at
            self._worker.post(snapshot)

    def _look(self, snapshot: Snapshot) -> None:
        if not self._begun:
            self._begin()
        self._past = self._past.looked(snapshot, self._gpus)
        now_s = self._clock.now_s()
        if now_s - self._kept_s >= KEEP_EACH_S and snapshot.state not in _OVER:
            self._kept_s = now_s
            self._keep()

    def _begin(self) -> None:
        """Read the history of an earlier master.

        Raises:
            ProviderError: The store cannot be reached now.
        """
        data, trouble = None, ""
        try:
            data = self._store.kept(NAME)
            past = RetainedHistory() if data is None else read(data)
        except ProviderError as error:
            if error.retry_after_s is not None:
                raise
            past, trouble = RetainedHistory(), str(error)
        except (OSError, ValueError) as error:
            past, trouble = RetainedHistory(), f"the history of earlier masters is lost: {error}"
        if trouble:
            log.warning("history: %s", trouble)
        self._past, self._begun = attrs.evolve(past, trouble=trouble), True

    def _keep(self) -> None:
        """Save the history; a failure is logged, and the next look tries again in its time."""
        try:
            self._store.keep(NAME, written(self._past), self._epoch)
        except Superseded:
            raise
        except Exception as error:  # noqa: BLE001 (shown among the alerts)
            trouble = str(error) or type(error).__name__
            if trouble != self._past.trouble:
                log.warning("history: %s", trouble)
            self._past = attrs.evolve(self._past, trouble=trouble)
        else:
            self._past = attrs.evolve(self._past, trouble="")
