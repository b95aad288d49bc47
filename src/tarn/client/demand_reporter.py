"""What a client tells the master: who waits where there is no instance, and which ones fail."""

import contextlib
import re
import socket
import threading
from collections.abc import Iterator

from tarn.client.pool import InstancePool
from tarn.errors import NotAuthorizedError, TarnError
from tarn.follow import MasterApi, MasterSource

__all__ = ["DemandReporter"]

EACH_S = 1.0
"""The master forgets after ten seconds who does not say it again."""
REFUSED_EVERY_S = 30.0
"""Who may not say it asks again no sooner: only a person can change that."""
CLOSE_WITHIN_S = 5.0
MOST_FAILING = 100
"""Models on instances of which one message tells that they fail."""
_LONGEST_NAME = 64


class DemandReporter:
    """Wakes a cluster that sleeps while requests wait for it. Thread-safe.

    One thread tells the master, at most once a second; there is none while nobody waits and no
    instance was left alone for its bad answers. What goes wrong is nobody's error here: the request
    that waits says in time that it waited in vain.

    Args:
        source: Finds the master; None: there is none to tell.
        fleet: A request waits for an instance only while this has none.
    """

    def __init__(self, source: MasterSource | None, fleet: InstancePool) -> None:
        self._source, self._fleet = source, fleet
        self._changed = threading.Condition()
        self._count = 0
        self._failures: dict[str, dict[str, int]] = {}
        """Instance to model to bad answers that are not told yet."""
        fleet.listen_to_failures(self.failing)
        self._closed = False
        self._thread: threading.Thread | None = None

    @contextlib.contextmanager
    def one(self) -> Iterator[None]:
        """Count one request that waits, where it is for an instance of a fleet that has none."""
        if self._source is None or self._fleet.slots:
            yield
            return
        with self._changed:
            self._count += 1
            self._begin(self._source)
        try:
            yield
        finally:
            with self._changed:
                self._count -= 1
                self._changed.notify_all()

    def failing(self, instance_id: str, model: str, count: int) -> None:
        """Tell the master that *count* answers of *model* there were bad, by no caller's fault.

        Any thread, never blocks. What cannot be told is forgotten: an instance that goes on failing
        is told again.
        """
        if self._source is None or not instance_id:
            return
        with self._changed:
            known = model in self._failures.get(instance_id, ())
            if known or sum(map(len, self._failures.values())) < MOST_FAILING:
                models = self._failures.setdefault(instance_id, {})
                models[model] = models.get(model, 0) + count
            self._begin(self._source)

    def _begin(self, source: MasterSource) -> None:
        if self._thread is None and not self._closed:
            self._thread = threading.Thread(
                target=self._tell, args=(source,), name="tarn-client-demand", daemon=True
            )
            self._thread.start()

    def close(self) -> None:
        """End the thread. Idempotent."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            thread = self._thread
        if thread is not None:
            thread.join(CLOSE_WITHIN_S)

    def _tell(self, source: MasterSource) -> None:
        """Tell whichever master there is; a thread of its own, since the view's waits in a read."""
        while self._goes_on():
            try:
                with source.open() as api:
                    self._tell_one(api)
            except NotAuthorizedError:
                rest_s = REFUSED_EVERY_S
            except (TarnError, OSError):
                rest_s = EACH_S  # the follower of the view says what is wrong with the master
            else:
                return
            with self._changed:
                self._changed.wait_for(lambda: self._closed, rest_s)

    def _tell_one(self, api: MasterApi) -> None:
        """Tell one master until there is nothing to tell any more."""
        while self._goes_on():
            with self._changed:
                failures, self._failures = self._failures, {}
                waiting = self._count if failures else max(1, self._count)
            api.demand(_name(), waiting, failures=failures)
            with self._changed:
                self._changed.wait_for(lambda: self._closed, EACH_S)

    def _goes_on(self) -> bool:
        """Say whether there is something to tell; the thread that hears a no ends, forgotten."""
        with self._changed:
            if self._over:
                self._thread = None
            return not self._over

    @property
    def _over(self) -> bool:
        return self._closed or (self._count == 0 and not self._failures)


def _name() -> str:
    """Return what the master calls this client's machine; only some characters are allowed."""
    host = re.sub(r"[^A-Za-z0-9._-]", "-", socket.gethostname())
    return f"client-{host}"[:_LONGEST_NAME]
