"""A client's link to its master: it follows the view, and reports demand and failures."""

import contextlib
import os
import re
import socket
import threading
from collections.abc import Iterable, Iterator

from tarn.client.affinity import AffinityRouter, RequestKey, affine
from tarn.client.attempts import CallAttempts
from tarn.client.pool import InstancePool, PoolMember
from tarn.client.targets import ClientOptions, ServiceAddress
from tarn.clock import SystemClock
from tarn.domain import DiscoveryView
from tarn.errors import NotAuthorizedError, RefusedError, TarnError, UnreachableError
from tarn.follow import Master, MasterApi, MasterSource, ViewFollower
from tarn.follow.views import NO_PUSH_FOR_S, POLL_EVERY_S
from tarn.interfaces import Clock

__all__ = ["NO_PUSH_FOR_S", "DemandReporter", "FleetLink", "MasterSource", "PoolFollower"]


class PoolFollower(ViewFollower):
    """A thread that applies the view of a master to an `InstancePool`.

    Args:
        source: Finds the master, again after each loss.
        fleet: The pool.
        router: Gets the rules of affinity.
        clock: Monotonic seconds.
        poll_every_s: The interval of requests for the view while it is not pushed.
    """

    def __init__(
        self,
        source: MasterSource,
        fleet: InstancePool,
        router: AffinityRouter,
        clock: Clock,
        *,
        poll_every_s: float = POLL_EVERY_S,
    ) -> None:
        def apply_view(view: DiscoveryView) -> None:
            (fleet.set_members if view.complete else fleet.add)(tuple(_targets(view)))

        super().__init__(
            source,
            apply_view,
            clock,
            apply_rules=router.set_rules,
            poll_every_s=poll_every_s,
            thread="tarn-client-view",
        )
        self._named_by_url = isinstance(source, Master)

    def look(self) -> None:
        """Ask for the view once, on the caller's thread; to be called before `start`.

        Raises:
            TarnError: There is no master, or it denies access.
        """
        try:
            super().look()
        except UnreachableError as error:
            if not self._named_by_url:
                raise
            raise UnreachableError(
                error.found,
                where=error.where,
                next_step="Write a master's address with http://, and a single Triton's without: "
                "'host:port'",
            ) from error


def _targets(view: DiscoveryView) -> Iterator[ServiceAddress]:
    for member in view.members:
        at = member.endpoint
        yield ServiceAddress(at.host, at.http_port, member.instance_id, at.grpc_port)


# The interval of reports. The master forgets a demand after ten seconds.
EACH_S = 1.0
# The interval after a refusal, which only a person can change.
REFUSED_EVERY_S = 30.0
CLOSE_WITHIN_S = 5.0
# Pairs of instance and failing model in one report.
MOST_FAILING = 100
_LONGEST_NAME = 64


class DemandReporter:
    """Reports waiting requests and failing instances to the master. Thread-safe.

    The report of a waiting request wakes a sleeping cluster. A thread reports at most once a
    second; it runs only while there is something to report. Errors are not raised: a request that
    waits in vain ends with its own error.

    Args:
        source: Finds the master; None if there is none.
        fleet: The pool; requests are reported as waiting only while it is empty.
    """

    def __init__(self, source: MasterSource | None, fleet: InstancePool) -> None:
        self._source, self._fleet = source, fleet
        self._changed = threading.Condition()
        self._count = 0
        # Instance -> model -> bad answers that are not reported yet.
        self._failures: dict[str, dict[str, int]] = {}
        fleet.listen_to_failures(self.failing)
        self._closed = False
        self._thread: threading.Thread | None = None

    @contextlib.contextmanager
    def one(self) -> Iterator[None]:
        """Count a waiting request meanwhile, if the pool is empty."""
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
        """Report *count* bad answers of *model* that were not the caller's fault.

        Any thread, never blocks.
        """
        if self._source is None or not instance_id:
            return
        with self._changed:
            # Beyond the limit a failure is dropped: an instance that goes on failing comes again.
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
        """Report to the present master, until there is nothing to report."""
        while self._goes_on():
            try:
                with source.open() as api:
                    self._tell_one(api)
            except NotAuthorizedError:
                rest_s = REFUSED_EVERY_S
            except (TarnError, OSError):
                rest_s = EACH_S  # the follower of the view reports the trouble with the master
            else:
                return
            with self._changed:
                self._changed.wait_for(lambda: self._closed, rest_s)

    def _tell_one(self, api: MasterApi) -> None:
        """Report to one master until there is nothing to report."""
        while self._goes_on():
            with self._changed:
                failures, self._failures = self._failures, {}
                waiting = self._count if failures else max(1, self._count)
            api.demand(_name(), waiting, failures=failures)
            with self._changed:
                self._changed.wait_for(lambda: self._closed, EACH_S)

    def _goes_on(self) -> bool:
        """Return whether there is something to report; otherwise the thread must end."""
        with self._changed:
            if self._over:
                self._thread = None
            return not self._over

    @property
    def _over(self) -> bool:
        return self._closed or (self._count == 0 and not self._failures)


def _name() -> str:
    """Return the name of this client's machine in the characters that the master allows."""
    host = re.sub(r"[^A-Za-z0-9._-]", "-", socket.gethostname())
    return f"client-{host}"[:_LONGEST_NAME]


class FleetLink:
    """The common part of the clients for threads, asyncio and gRPC: the pool and the master.

    Args:
        targets: The instances, if there is no master.
        source: Finds the master, which knows the instances; None if there is none.
        options: Time limits and retries.
    """

    def __init__(
        self,
        targets: Iterable[ServiceAddress],
        source: MasterSource | None,
        options: ClientOptions | None,
    ) -> None:
        self.options, self.clock = options or ClientOptions(), SystemClock()
        self.pool = InstancePool(self.clock)
        self.pool.set_members(targets)
        self.source = source
        self.waiters = DemandReporter(source, self.pool)
        self.router = AffinityRouter(self.clock)
        self.following = None
        if source is not None:
            self.following = PoolFollower(source, self.pool, self.router, self.clock)
        self.closed, self._pid = False, os.getpid()

    @property
    def targets(self) -> tuple[ServiceAddress, ...]:
        """The instances that may get requests now."""
        return tuple(slot.target for slot in self.pool.slots)

    @property
    def forked(self) -> bool:
        """Whether this is a fork of the process that made it, and so has none of its threads."""
        return os.getpid() != self._pid

    def look(self) -> None:
        """Ask for the view once.

        Raises:
            TarnError: No master answers, or it denies access.
        """
        if self.following is not None:
            self.following.look()

    def start(self) -> None:
        """Follow the view from now on, on a thread."""
        if self.following is not None:
            self.following.start()

    def check(self) -> None:
        """Raise ``RefusedError`` if the client is closed, or this process is a fork."""
        if self.closed:
            raise RefusedError("the client is closed")
        if self.forked:
            raise RefusedError(
                f"the client was made by process {self._pid}, and this is {os.getpid()}",
                next_step="Make a client in each process, after the fork",
            )

    def call(
        self,
        model: str = "",
        *,
        repeats: bool,
        key: RequestKey | None = None,
        home: PoolMember | None = None,
    ) -> CallAttempts:
        """Return the attempts of one call; *home* is the instance that had its *key* last."""
        wants = None if key is None else affine(key, home)
        return CallAttempts(
            self.pool, self.clock, self.options, repeats=repeats, model=model, affine=wants
        )

    def left_s(self, course: CallAttempts) -> float:
        """Return how long *course* may still wait; see `CallAttempts.left_s`."""
        return course.left_s(self.following.trouble if self.following else "")

    def close(self) -> None:
        """End its threads and idle connections, and wake waiting requests. Idempotent."""
        self.closed = True
        self.waiters.close()
        if self.following is not None:
            self.following.close()
        self.pool.close()
