"""Tell plugins what happened, on a thread of its own, so that a slow one costs no tick."""

import logging
import queue
import threading
from collections.abc import Callable

from tarn.domain import Decision, Event, Instance
from tarn.plugins import Plugins

__all__ = ["Announcer"]

log = logging.getLogger(__name__)
QUEUE = 1000


class Announcer:
    """Owns the announcer thread and its bounded queue."""

    def __init__(self, plugins: Plugins) -> None:
        self._plugins = plugins
        self._queue: queue.Queue[Callable[[], None] | None] = queue.Queue(QUEUE)
        self.lost = 0
        """Announcements dropped because plugins were too slow."""
        self._thread = threading.Thread(target=self._run, name="announcer", daemon=True)
        self._thread.start()

    def event(self, event: Event) -> None:
        """Announce an event; never blocks."""
        self._put(lambda: self._plugins.event(event))

    def instance_changed(self, before: Instance | None, after: Instance) -> None:
        """Announce an instance's new state; never blocks."""
        self._put(lambda: self._plugins.instance_changed(before, after))

    def decision(self, decision: Decision) -> None:
        """Announce a decision; never blocks."""
        self._put(lambda: self._plugins.decision(decision))

    def close(self) -> None:
        """End the thread; at most 100 ms are waited for what is queued."""
        try:
            self._queue.put(None, timeout=0.1)
        except queue.Full:
            return
        self._thread.join(0.1)

    def _put(self, announce: Callable[[], None]) -> None:
        try:
            self._queue.put_nowait(announce)
        except queue.Full:
            self.lost += 1

    def _run(self) -> None:
        while (announce := self._queue.get()) is not None:
            try:
                announce()
            except Exception:
                log.exception("a plugin raised while it was told what happened")
