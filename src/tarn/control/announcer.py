"""Tell plugins what happened, on a thread of its own, so that a slow one costs no tick."""

import functools
import logging
import queue
import threading
from collections.abc import Callable
from typing import TypeVar

from tarn.domain.fleet import Fleet
from tarn.plugins import Plugins

__all__ = ["Announcer"]

log = logging.getLogger(__name__)
T = TypeVar("T")
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

    def tell(self, before: Fleet, after: Fleet) -> None:
        """Announce what is new in *after*: events, decisions, then instances; never blocks."""
        for event in _new(before.events, after.events):
            self._put(functools.partial(self._plugins.event, event))
        for decision in _new(before.decisions, after.decisions):
            self._put(functools.partial(self._plugins.decision, decision))
        if after.instances is before.instances:
            return
        old = {i.id: i for i in before.instances}
        for instance in (*after.instances, *_new(before.ended, after.ended)):
            was = old.get(instance.id)
            if was is None or was.state is not instance.state:
                self._put(functools.partial(self._plugins.instance_changed, was, instance))

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
                log.exception("a plugin raised while it handled an event")


def _new(before: tuple[T, ...], after: tuple[T, ...]) -> list[T]:
    """Return what stands in *after* only; values are never changed, so identity tells."""
    if after is before:
        return []
    known = {id(item) for item in before}
    return [item for item in after if id(item) not in known]
