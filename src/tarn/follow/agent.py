"""The agent: applies the view of a remote master to a discovery, and acknowledges it.

It runs next to the discovery (a load balancer), not next to the master. Without a master nothing
changes, until there is a new one.
"""

import logging
import threading
from collections.abc import Callable, Mapping
from typing import Any, Protocol, runtime_checkable

import attrs

from tarn.domain import Applied, DiscoveryView, Epoch
from tarn.errors import (
    ConfigError,
    NotAuthorizedError,
    ProviderError,
    Superseded,
    TarnError,
    TimedOutError,
    UnreachableError,
)
from tarn.follow.api import MasterApi
from tarn.follow.views import POLL_EVERY_S, REFUSED_EVERY_S, MasterSource, ViewFollower
from tarn.interfaces import Clock, Discovery

__all__ = [
    "Agent",
    "AgentReporter",
    "ApplyFailure",
    "CapacityLimited",
    "UnservedRequests",
    "ViewApplier",
]

log = logging.getLogger(__name__)

FIRST_BACK_OFF_S, LONGEST_BACK_OFF_S = 0.2, 5.0
APPLIED_WITHIN_S = 10.0


@attrs.frozen
class ApplyFailure:
    """A failed attempt to apply a view."""

    view: DiscoveryView
    why: str
    at: float
    """Wall time of the first attempt that failed for this reason, Unix seconds."""


class ViewApplier:
    """A thread that applies the newest view that was posted.

    Applying a view is never interrupted. After a failure it is repeated with back-off, until it
    succeeds or there is a newer view. A superseded view is not repeated, since a newer master's
    views will come.

    Args:
        discovery: Only its `sync` is called, and only on this thread.
        clock: Wall time.
        changed: Called after each attempt, on this thread; must not block.
        back_off_s: The pause after the first failure, and the longest one.
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
        # The last view that was applied.
        self.done: DiscoveryView | None = None
        # Why the newest view is not; None if it is, or this is its first attempt.
        self.failure: ApplyFailure | None = None

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def post(self, view: DiscoveryView) -> None:
        """Replace the view that is to be applied next. Any thread; never blocks."""
        with self._news:
            self._slot = view
            self._news.notify()

    def close(self) -> bool:
        """End after the present attempt; return False if it takes too long. Idempotent."""
        with self._news:
            self._closing = True
            self._news.notify()
        if self._thread.is_alive():
            self._thread.join(APPLIED_WITHIN_S)
        return not self._thread.is_alive()

    def _run(self) -> None:
        again: DiscoveryView | None = None
        back_off_s = self._first_s
        while (view := self._next(again, back_off_s)) is not None:
            back_off_s = self._first_s if again is None else min(2 * back_off_s, self._longest_s)
            again = self._applied(view)
            self._changed()

    def _next(self, again: DiscoveryView | None, back_off_s: float) -> DiscoveryView | None:
        """Return the next view, or *again* after the back-off; None when closing."""
        with self._news:
            patience_s = None if again is None else back_off_s
            self._news.wait_for(lambda: self._slot is not None or self._closing, patience_s)
            if self._closing:
                return None
            view, self._slot = self._slot or again, None
            return view

    def _applied(self, view: DiscoveryView) -> DiscoveryView | None:
        """Apply *view*; return it if it must be tried again."""
        try:
            self._discovery.sync(view)
        except Superseded as newer:
            self._failed(view, str(newer))
            return None
        except TarnError as error:
            self._failed(view, str(error))
            return view
        except Exception as error:  # a bug must not end the thread: it is logged and reported
            log.exception("revision %d could not be applied", view.revision)
            self._failed(view, f"{type(error).__name__}: {error}")
            return view
        self.done, self.failure = view, None
        return None

    def _failed(self, view: DiscoveryView, why: str) -> None:
        """Store the reason, with the time of its first attempt."""
        old = self.failure
        if old is None or (old.view, old.why) != (view, why):
            self.failure = ApplyFailure(view, why, self._clock.at())


# How many acknowledgements in a row must fail, while the view still arrives, before it is reported.
SILENT_TIMES = 3


class AgentReporter:
    """Reports changes in the state of an agent as lines of text. One thread.

    Args:
        say: Called with each line.
        cluster: The name of the cluster.
    """

    def __init__(self, say: Callable[[str], None], cluster: str) -> None:
        self._say, self._cluster = say, cluster
        self._lost = ""
        self._failed: ApplyFailure | None = None
        self._unheard = 0
        self._mute = False
        self._short = ""
        self._done: DiscoveryView | None = None

    def met(self, name: str, status: Mapping[str, Any]) -> None:
        """Report, at the start, if the drains of the master do not wait for the agent *name*."""
        awaited = [one["name"] for one in status.get("followers", ()) if one.get("required")]
        if awaited and name not in awaited:
            self._say(
                f"drains of {self._cluster} wait for {', '.join(awaited)}, but not for this "
                f"agent, which is called {name}. If they should wait for it, give it one of "
                f"those names with --name, or add {name} to `followers` of a discovery with "
                "`required: true`"
            )

    def way(self, lost: Exception | None) -> None:
        """Report whether the view arrives; *lost* is the reason if it does not."""
        refused = isinstance(lost, NotAuthorizedError)
        kind = "refused" if refused else "lost" if lost is not None else ""
        if kind == self._lost:
            return
        self._lost = kind
        if lost is None:
            self._say(f"the master of {self._cluster} answers again")
        elif refused:
            self._say(
                f"access to the master of {self._cluster} was denied: {lost}. Keeping the last "
                f"view; retrying every {REFUSED_EVERY_S:g} s"
            )
        else:
            why = str(lost) or type(lost).__name__
            self._say(f"no master of {self._cluster} answers: {why}. Keeping the last view")

    def failure(self, failure: ApplyFailure | None) -> None:
        """Report why the newest view is not applied."""
        if failure is not None and failure != self._failed:
            revision = failure.view.revision
            self._say(f"revision {revision} of {self._cluster} is not applied: {failure.why}")
        self._failed = failure

    def unheard(self, error: Exception) -> None:
        """Report that acknowledgements fail."""
        self._unheard += 1
        # A refusal is reported at once, a lost connection only if it goes on.
        quiet = isinstance(error, (UnreachableError, TimedOutError, ProviderError, OSError))
        if self._mute or (quiet and self._unheard < SILENT_TIMES):
            return
        self._mute = True
        self._say(f"the master of {self._cluster} rejects the acknowledgement: {error}")

    def heard(self, view: DiscoveryView | None, word: Applied) -> None:
        """Report that the acknowledgement *word* arrived; *view* was applied last."""
        self._unheard, self._mute = 0, False
        self._shortcoming(word)
        if view is None or word.error or (view.epoch, view.revision) != (word.epoch, word.revision):
            return
        before, self._done = self._done, view
        if before is None or view.epoch != before.epoch:
            self._say(f"follows the master {view.epoch} of {self._cluster}")
        if before is None or (view.epoch, view.revision) != (before.epoch, before.revision):
            self._say(f"revision {view.revision} of {self._cluster}: {_change(before, view)}")

    def _shortcoming(self, word: Applied) -> None:
        """Report an error of the discovery itself; failed attempts are reported by `failure`."""
        failed = self._failed is not None and self._failed.why == word.error
        if word.error and not failed and word.error != self._short:
            self._say(
                f"revision {word.revision} of {self._cluster} is applied only in part: {word.error}"
            )
        elif self._short and not word.error:
            self._say(f"revision {word.revision} of {self._cluster} is now applied in full")
        self._short = "" if failed else word.error


def _change(before: DiscoveryView | None, view: DiscoveryView) -> str:
    """Return the size of *view*, and its difference from *before*, as text."""
    count = len(view.members)
    servers = "1 server" if count == 1 else f"{count} servers"
    text = f"{servers}, acknowledged"
    if before is not None:
        old, new = set(before.members), set(view.members)
        left = old - new if view.complete else set()
        text = f"{servers} (+{len(new - old)} -{len(left)}), acknowledged"
    return text if view.complete else f"{text}; it is not complete, so nothing is removed"


LEASE_S = 15.0
# An acknowledgement is valid for the lease; at this interval, two may be lost in between.
RENEW_EVERY_S = 4.0
DEMAND_EVERY_S = 1.0
RULES_EVERY_S = 2.0
# How soon `run` notices that it must end.
LOOK_EVERY_S = 0.25
REACH_WITHIN_S = 3.0


@attrs.frozen
class UnservedRequests:
    """The requests for which a load balancer has no server."""

    held: int = 0
    """Requests that it holds now."""
    refused: int = 0
    """Requests that it has refused since the last call, including repeated ones."""


@runtime_checkable
class CapacityLimited(Protocol):
    """A discovery that may be too small for a cluster."""

    def capacity(self) -> int | None:
        """Return how many members it can hold; None if there is no limit."""
        ...


class Agent:
    """Follows the master of one cluster for one discovery.

    `run` blocks and acknowledges; two threads follow the view and apply it meanwhile. What is
    acknowledged is what `Discovery.applied` returns, not what the master has sent.

    Args:
        find: Finds the master, again after each loss.
        discovery: The discovery, which the caller closes.
        name: The name of this agent in `discovery[].options.followers`.
        clock: Monotonic and wall seconds.
        news: An event that makes `run` acknowledge at once; its ``set`` may be the ``wake`` of the
            discovery.
        demand: Returns the requests for which there is no server; called only while the view is
            empty.
        affinity: Called with the answer of ``GET /affinity``, or with None if the master has none.
        say: Called with a line of text for people at each change.
    """

    def __init__(  # noqa: PLR0913 (what it follows, and options by keyword)
        self,
        find: MasterSource,
        discovery: Discovery,
        name: str,
        clock: Clock,
        *,
        news: threading.Event | None = None,
        demand: Callable[[], UnservedRequests] | None = None,
        affinity: Callable[[Mapping[str, Any] | None], None] | None = None,
        say: Callable[[str], None] = lambda _line: None,
    ) -> None:
        self._find, self._discovery, self._name, self._clock = find, discovery, name, clock
        self._news = news or threading.Event()
        self._demand, self._affinity = demand, affinity
        self._applying = ViewApplier(discovery, clock, self._news.set)
        self._following = ViewFollower(find, self._applying.post, clock, thread="tarn-follow")
        self._line = _MasterConnection(find)
        self._telling = AgentReporter(say, find.name)
        self._told: Applied | None = None
        self._renew_s = self._again_s = self._demand_s = self._rules_s = float("-inf")
        self._rules_of: tuple[Epoch, int] | None = None

    def check(self) -> None:
        """Check, before `run`, that discovery and master can be reached and fit together.

        Raises:
            DiscoveryError: The discovery cannot be reached.
            ConfigError: It has fewer places than the cluster may have replicas.
            TarnError: There is no master, or it denies access.
        """
        self._discovery.reach(REACH_WITHIN_S)
        with self._find.open() as api:
            status = api.status()
            if self._affinity is not None:  # known before the first request is balanced
                self._affinity(api.affinity())
        most = status["limits"]["max"]
        capacity = (
            self._discovery.capacity() if isinstance(self._discovery, CapacityLimited) else None
        )
        if capacity is not None and capacity < most:
            raise ConfigError(
                f"there are places for {capacity} servers, but replicas.max is {most}",
                where=f"cluster '{self._find.name}'",
                right=f"Provide at least {most} places"
                + (f", or replicas.max of {capacity}." if capacity else "."),
            )
        self._telling.met(self._name, status)
        # Over a proxy that swallows streams, the first view would otherwise come late.
        self._following.look()

    def run(self, stop: threading.Event) -> None:
        """Follow until *stop* is set, which is noticed within a quarter of a second.

        What the discovery has published stays. The master is not told of the end: its drains wait
        for this agent until the lease is over, since traffic goes on, and a restarted agent is back
        before that.
        """
        self._applying.start()
        self._following.start()
        try:
            while not stop.is_set():
                self._news.clear()  # before the round, so that no change is missed
                self._round()
                self._news.wait(LOOK_EVERY_S)
        finally:
            self._following.close()
            self._applying.close()
            self._line.close()

    def _round(self) -> None:
        self._telling.way(self._following.lost)
        self._telling.failure(self._applying.failure)
        view = self._following.newest
        if self._following.lost is not None or view is None:
            return  # the follower is looking for the master
        if self._clock.now_s() < self._again_s:
            return
        try:
            self._read_rules(view)
            self._acknowledge(view.epoch)
            self._report_demand(view)
        except (TarnError, OSError) as error:
            self._line.close()
            refused = isinstance(error, NotAuthorizedError)
            self._again_s = self._clock.now_s() + (REFUSED_EVERY_S if refused else POLL_EVERY_S)
            self._telling.unheard(error)

    def _read_rules(self, view: DiscoveryView) -> None:
        """Read which requests belong together: with each view, and every other second."""
        affinity, now_s = self._affinity, self._clock.now_s()
        if affinity is None or (_moment(view) == self._rules_of and now_s < self._rules_s):
            return
        self._rules_of, self._rules_s = _moment(view), now_s + RULES_EVERY_S
        self._line.ask(view.epoch, lambda api: affinity(api.affinity()))

    def _acknowledge(self, epoch: Epoch) -> None:
        done = self._applying.done  # read first: what was applied is this view or a later one
        applied, now_s = self._applied(), self._clock.now_s()
        if applied is None:
            return
        content = attrs.evolve(applied, at=0.0)  # a new time alone is not worth a request
        if content == self._told and now_s < self._renew_s:
            return
        self._line.ask(epoch, lambda api: api.acknowledge(applied, LEASE_S))
        self._told, self._renew_s = content, now_s + RENEW_EVERY_S
        self._telling.heard(done, applied)

    def _applied(self) -> Applied | None:
        """Return what the discovery has applied, and why the newest view is not."""
        applied, failure = self._discovery.applied(), self._applying.failure
        if applied is None:
            if failure is None:
                return None
            # No view has the revision 0.
            return Applied(self._name, failure.view.epoch, 0, failure.at, failure.why)
        error = applied.error
        # A discovery may have applied the failed view by itself since.
        if failure is not None and _moment(applied) < _moment(failure.view):
            error = failure.why
        return attrs.evolve(applied, name=self._name, error=error)

    def _report_demand(self, view: DiscoveryView) -> None:
        now_s = self._clock.now_s()
        asleep = view.complete and not view.members
        if self._demand is None or not asleep or now_s < self._demand_s:
            return
        self._demand_s = now_s + DEMAND_EVERY_S
        try:
            found = self._demand()
        except ProviderError:
            return  # unknown, which must not be reported as zero
        if found.held or found.refused:
            self._line.ask(
                view.epoch, lambda api: api.demand(self._name, found.held, found.refused)
            )


def _moment(said: Applied | DiscoveryView) -> tuple[Epoch, int]:
    return said.epoch, said.revision


class _MasterConnection:
    """A connection to the master for requests; opened at the first one, and after each loss."""

    def __init__(self, find: MasterSource) -> None:
        self._find = find
        self._api: MasterApi | None = None
        self._epoch: Epoch | None = None

    def ask(self, epoch: Epoch, question: Callable[[MasterApi], object]) -> None:
        """Call *question* with a client of the master of *epoch*."""
        if self._api is not None and epoch == self._epoch:
            try:
                question(self._api)
            except UnreachableError:
                pass  # it may have moved
            else:
                return
        self.close()
        self._api, self._epoch = self._find.open(), epoch
        question(self._api)

    def close(self) -> None:
        """Close the connection. Idempotent."""
        if self._api is not None:
            self._api.close()
        self._api = None
