"""Begin the looks of a queue when they are due, on one asyncio loop."""

import asyncio
import functools
from collections.abc import Callable

from tarn.control.look_queue import LookQueue, LookStatus, Pace
from tarn.control.port_watcher import PortWatcher, ProbeFailure

__all__ = ["LookRunner"]

# Looks that begin in one turn of the loop, so that answers are read between them.
STEP = 50


class LookRunner:
    """Looks at ports, each when its turn in the queue comes; on the loop's thread only.

    Only `status` may be called by any thread.

    Args:
        loop: Runs the looks.
        interval_s: The usual interval of a fleet that is not large.
        crashed: Called when a look ended with an unexpected error; its failure says so, too.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        interval_s: float,
        crashed: Callable[[BaseException], None],
    ) -> None:
        self._loop, self._crashed = loop, crashed
        self._queue: LookQueue[PortWatcher] = LookQueue(interval_s)
        self._looks: dict[PortWatcher, asyncio.Task[None]] = {}
        self._timer: asyncio.Handle | None = None
        self._timer_s = 0.0
        self._due_s: float | None = None
        self._behind_s: float | None = None

    def add(self, watcher: PortWatcher, pace: Pace) -> None:
        """Look at the port of *watcher* from now on."""
        self._queue.add(watcher, self._loop.time(), pace)
        self._arm()

    def remove(self, watcher: PortWatcher) -> None:
        """Look there no more, and close the connection."""
        self._queue.remove(watcher)
        look = self._looks.pop(watcher, None)
        if look is not None:
            look.cancel()
        watcher.close()
        self._arm()

    def hasten(self, watcher: PortWatcher) -> None:
        """Look there at once; only the first time between two usual looks."""
        self._queue.hasten(watcher, self._loop.time())
        self._arm()

    def set_pace(self, watcher: PortWatcher, pace: Pace) -> None:
        """Look there in this *pace* from now on."""
        self._queue.set_pace(watcher, pace, self._loop.time())
        self._arm()

    def status(self) -> LookStatus:
        """Return how often the ports are looked at; any thread."""
        interval_s, due_s, since_s = self._queue.interval_s, self._due_s, self._behind_s
        now_s = self._loop.time()
        # A loop that is starved does not come to note it.
        if since_s is None and due_s is not None and now_s - due_s > interval_s:
            since_s = due_s + interval_s
        return LookStatus(interval_s, 0.0 if since_s is None else now_s - since_s)

    def _arm(self) -> None:
        """Step when the next port is due."""
        due_s = self._due_s = self._queue.due_s
        if self._timer is not None and due_s is not None and self._timer_s <= due_s:
            return  # it comes early enough, and then waits for what is due then
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if due_s is None:
            return
        self._timer_s = due_s
        if due_s <= self._loop.time():
            self._timer = self._loop.call_soon(self._step)
        else:
            self._timer = self._loop.call_at(due_s, self._step)

    def _step(self) -> None:
        self._timer = None
        now_s, due_s = self._loop.time(), self._queue.due_s
        behind = due_s is not None and now_s - due_s > self._queue.interval_s
        self._behind_s = (self._behind_s or now_s) if behind else None
        for watcher in self._queue.take(now_s, STEP):
            look = self._loop.create_task(watcher.once())
            self._looks[watcher] = look
            look.add_done_callback(functools.partial(self._ended, watcher))
        self._arm()

    def _ended(self, watcher: PortWatcher, look: "asyncio.Task[None]") -> None:
        """Show an unexpected error as such; the port has its next turn in any case."""
        error = None if look.cancelled() else look.exception()
        if self._looks.get(watcher) is not look:
            return
        del self._looks[watcher]
        if error is not None:
            watcher.failed(ProbeFailure(f"error in the scraper: {error!r}"))
            self._crashed(error)
        self._queue.done(watcher, self._loop.time())
        self._arm()
