"""The discovery that keeps the servers of one HAProxy as the view says.

A thread compares HAProxy's servers with the last view every second, so that a HAProxy that was
restarted, reloaded or changed by hand gets its servers back. If nothing differs, it writes nothing.
"""

import logging
import threading
from collections.abc import Callable, Mapping
from typing import Any

import attrs

from tarn.domain import Applied, DiscoveryView, Epoch, Member
from tarn.domain.counters import grown
from tarn.errors import DiscoveryError, Superseded
from tarn.follow import UnservedRequests
from tarn.interfaces import Clock
from tarn_plugins.discovery.haproxy.affinity_text import (
    BOUNDED_SUFFIX,
    KEYED_SUFFIX,
    HaproxyRules,
    models_named,
)
from tarn_plugins.discovery.haproxy.backends import HaproxyBackends, SettleResult, Traffic
from tarn_plugins.discovery.haproxy.host_resolver import HostResolver, ResolvedHosts
from tarn_plugins.discovery.haproxy.runtime_api import AWAY, RuntimeApi
from tarn_plugins.discovery.haproxy.settings import HaproxyTarget

__all__ = ["DemandProbe", "HAProxyServers", "unserved"]

log = logging.getLogger(__name__)

_LOOK_EVERY_S = 1.0
_LOOK_AT_SEQUENCES_S = 0.5  # while a server that drains has nothing left but sequences at rest
_LOOK_SOON_S = 0.1  # while a server drains, or HAProxy is away
_ANSWER_WITHIN_S = 2.0  # for each conversation with HAProxy
# For the look-ups of host names: first briefly, to serve the instances whose hosts are known, then
# for longer. The thread uses only the first, since it repeats anyway.
_NAMES_WITHIN_S = (0.05, 2.0)
# The longest time for which leaving servers wait until another one works: a placeholder's first
# check comes within HAProxy's default `inter` of two seconds.
_HOLD_S = 2.0
_HOLD_LOOKS = 6  # looks of `sync` itself, before it leaves the rest of the wait to the thread
_HOLD_LOOK_EVERY_S = 0.02
_CLOSE_STEP_S = 0.2  # for each of three waits: the master gives `close` a second in all
FORGET_AFTER_S = 5.0
"""Seconds after which a reading of the counters is no longer compared with a new one."""


@attrs.frozen
class _Goal:
    """The wanted state: the last view, and the members that an incomplete view did not name."""

    epoch: Epoch
    revision: int
    complete: bool
    members: tuple[Member, ...]

    def after(self, view: DiscoveryView) -> "_Goal":
        """Return the goal after *view*; an incomplete view removes no member."""
        kept = {} if view.complete else {one.instance_id: one for one in self.members}
        members = {**kept, **{one.instance_id: one for one in view.members}}
        in_order = tuple(sorted(members.values()))
        return _Goal(view.epoch, view.revision, view.complete, in_order)


class HAProxyServers:
    """A `Discovery` that publishes as the servers of a HAProxy on this machine.

    Any thread may call it; calls that talk to HAProxy wait for one another. Its own thread starts
    with the first view and ends with `close`.

    Args:
        target: The HAProxy, and which of its servers belong to the fleet.
        clock: Measures the time of acknowledgements and the age of look-ups.
        wake: Called on any thread when the value of `applied` changes.
        name: The name under which it acknowledges views.
        names: Looks up host names.
    """

    def __init__(
        self,
        target: HaproxyTarget,
        clock: Clock,
        wake: Callable[[], None] = lambda: None,
        name: str = "haproxy",
        names: HostResolver | None = None,
    ) -> None:
        self.name = name
        self.target = target
        self._clock = clock
        self._wake = wake
        self._names = names or HostResolver(clock)
        self._api = RuntimeApi(target.socket, _ANSWER_WITHIN_S, name)
        self._backends = HaproxyBackends(target, self._api)
        self._at_work = threading.Lock()
        self._goal: _Goal | None = None
        self._applied: Applied | None = None
        self._trouble = self._misread = ""
        self._look_after_s = _LOOK_EVERY_S
        self._hold_until_s = 0.0
        self._holds = False
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    # -- the Protocol

    def reach(self, within_s: float) -> None:
        """Check that HAProxy answers, grants the level admin, and has backends and room."""
        end_s = self._clock.now_s() + within_s
        while True:
            try:
                with self._at_work:
                    self._backends.check()
            except DiscoveryError as error:
                # only an answer is worth a wait: a HAProxy that refuses will refuse again
                late = error.code != AWAY or self._clock.now_s() >= end_s
                if late or self._closed.wait(_LOOK_SOON_S):
                    raise
            else:
                return

    def sync(self, view: DiscoveryView) -> None:
        """Change HAProxy's servers to *view*, and keep them so.

        If all working servers leave at once, they stay until a new one has passed its first check,
        at most two seconds; the view is acknowledged after that. An instance whose host has no
        address, or that has no free slot, does not delay the others: the ``error`` of `applied`
        names it, and the thread tries again.

        Raises:
            DiscoveryError: HAProxy is away, or refused a command. The thread applies the view as
                soon as HAProxy accepts it.
            Superseded: A master with a higher epoch publishes here.
        """
        with self._at_work:
            goal = self._goal or _Goal(view.epoch, -1, complete=False, members=())
            if view.epoch < goal.epoch:
                raise Superseded(str(view.epoch), str(goal.epoch))
            if view.epoch == goal.epoch and view.revision < goal.revision:
                return  # an older message that came late
            self._goal = goal.after(view)
            if self._goal != goal and not self._holds:  # later views do not prolong the hold
                self._hold_until_s = self._clock.now_s() + _HOLD_S
            self._begin()
            self._work(_NAMES_WITHIN_S)

    def applied(self) -> Applied | None:
        """Return the last acknowledged view; its ``sessions`` are those of draining servers."""
        return self._applied

    def close(self, *, withdraw: bool) -> None:
        """End the thread; with *withdraw* drain the fleet's servers."""
        first = not self._closed.is_set()
        self._closed.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(_CLOSE_STEP_S)
        if not (withdraw and first and self._at_work.acquire(timeout=_CLOSE_STEP_S)):
            return
        try:
            epoch = self._goal.epoch if self._goal is not None else None
            api = RuntimeApi(self.target.socket, _CLOSE_STEP_S, self.name)  # a shorter deadline
            HaproxyBackends(self.target, api).settle(epoch, (), {}, remove=True)
        except (DiscoveryError, Superseded) as error:
            log.warning("servers stay in HAProxy: %s", error)
        finally:
            self._at_work.release()

    # -- besides the Protocol

    def capacity(self) -> int | None:
        """Return how many instances have room; None if the number is not limited.

        Raises:
            DiscoveryError: HAProxy is away, or has no such backend.
        """
        with self._at_work:
            return self._backends.capacity()

    def statistics(self) -> Traffic:
        """Return the counts of requests; may wait two seconds for HAProxy.

        Raises:
            DiscoveryError: HAProxy is away, or has no such backend.
        """
        with self._at_work:
            return self._backends.traffic()

    def follow(self, answer: Mapping[str, Any] | None) -> None:
        """Tell HAProxy which requests belong together, at the next look at most a second later.

        Args:
            answer: Of ``GET /affinity``; None: the master has no rules.
        """
        try:
            self._backends.rules = HaproxyRules.read(answer)
        except (ValueError, KeyError, TypeError) as error:  # a newer master: the old rules count
            found = f"the master's rules of affinity cannot be read: {error}"
            if found != self._misread:
                log.warning("%s: %s", self.name, found)
            self._misread = found

    @property
    def rules(self) -> HaproxyRules:
        """Which requests belong together."""
        return self._backends.rules

    @property
    def orders_given(self) -> int:
        """Commands given to HAProxy since this object was made."""
        return self._backends.orders_given

    # -- the work; with the lock held

    def _work(self, patience_s: tuple[float, ...]) -> None:
        """Apply the goal; keep and raise the error if that fails."""
        goal = self._goal
        assert goal is not None
        try:
            for within_s in patience_s:
                if self._apply(goal, within_s):
                    break
        except DiscoveryError as error:
            old = self._applied
            # once there is an acknowledgement, it carries the error, and an agent shows it
            told = old is not None and old.epoch == goal.epoch
            if str(error) != self._trouble:
                log.log(logging.INFO if told else logging.WARNING, "%s", error)
            self._trouble = str(error)
            self._look_after_s = error.retry_after_s or _LOOK_EVERY_S
            if old is not None and told:  # servers that have left stay acknowledged
                self._say(attrs.evolve(old, at=self._clock.at(), error=str(error)))
            raise
        if self._trouble:
            log.info("%s: HAProxy at %s is up to date", self.name, self.target.socket)
        self._trouble = ""

    def _apply(self, goal: _Goal, names_within_s: float) -> bool:
        """Apply *goal* and acknowledge it; return whether every host had an address."""
        hosts = (one.endpoint.host for one in goal.members)
        found = self._names.find(hosts, names_within_s)
        settled = self._settle(goal, found)
        self._holds = settled.held
        soon = settled.leaving or settled.held or not settled.filled
        self._look_after_s = _LOOK_SOON_S if soon else _LOOK_EVERY_S
        if settled.filled and dict(settled.sequences) == dict(settled.sessions) != {}:
            self._look_after_s = _LOOK_AT_SEQUENCES_S
        if settled.held:
            return True  # not yet applied; the thread goes on
        lacking = _shortcomings(found, goal, settled, self._unkept())
        at, done = self._clock.at(), goal.revision
        if settled.stayed:  # servers that should have left have not: acknowledge an older view
            old = self._applied
            done = old.revision if old is not None and old.epoch == goal.epoch else 0
        counted = settled.sessions, settled.sequences
        self._say(Applied(self.name, goal.epoch, done, at, lacking, *counted))
        return not found.missing

    def _settle(self, goal: _Goal, found: ResolvedHosts) -> SettleResult:
        settled = SettleResult()
        for _ in range(_HOLD_LOOKS):
            hold = self._clock.now_s() < self._hold_until_s
            settled = self._backends.settle(
                goal.epoch, goal.members, found.addresses, remove=goal.complete, hold=hold
            )
            if not settled.held or self._closed.wait(_HOLD_LOOK_EVERY_S):
                break
        return settled

    def _say(self, applied: Applied) -> None:
        """Acknowledge; wake the master or the agent if anything but the time is new."""
        old = self._applied
        self._applied = applied
        if old is None or attrs.evolve(old, at=applied.at) != applied:
            self._wake()

    def _unkept(self) -> str:
        """Say what the rules want that HAProxy does not do; empty: it does all."""
        rules = self._backends.rules
        if rules.imbalance and not self._backends.bounded:
            return (
                f"the bound of {rules.imbalance} % on an instance's load is not kept, as HAProxy "
                f"has no backend '{self.target.backend}{BOUNDED_SUFFIX}': render haproxy.cfg with "
                f"`tarn lb haproxy config --imbalance {rules.imbalance} -o DIRECTORY`"
            )
        if not rules.sequences or self._backends.keyed:
            return ""
        keyed = f"{self.target.backend}{KEYED_SUFFIX}"
        return (
            f"the sequences of {models_named(rules)} are not kept together, as HAProxy has no "
            f"backend '{keyed}': render haproxy.cfg with `tarn lb haproxy config -o DIRECTORY`"
        )

    # -- the thread

    def _begin(self) -> None:
        if (self._thread is None or not self._thread.is_alive()) and not self._closed.is_set():
            self._thread = threading.Thread(
                target=self._keep, name=f"tarn-{self.name}-servers", daemon=True
            )
            self._thread.start()

    def _keep(self) -> None:
        looked_s = self._clock.now_s()
        while not self._closed.wait(_LOOK_SOON_S):
            try:
                with self._at_work:
                    if self._is_due(looked_s) and not self._closed.is_set():
                        looked_s = self._clock.now_s()
                        self._work(_NAMES_WITHIN_S[:1])
            except DiscoveryError:
                continue  # `_work` has stored it; the next look tries again
            except Superseded as over:
                log.warning("%s: %s", self.name, over)
                return
            except Exception as error:  # noqa: BLE001 (without this thread a new HAProxy stays empty)
                with self._at_work:  # not in the middle of a `sync`
                    self._note_bug(error)

    def _note_bug(self, error: Exception) -> None:
        """Log an unexpected error once, and show it in `applied`."""
        found = f"{type(error).__name__}: {error}"
        if found != self._trouble:
            log.error("%s: HAProxy at %s", self.name, self.target.socket, exc_info=error)
        self._trouble = found
        self._look_after_s = _LOOK_EVERY_S
        old = self._applied
        if old is not None:
            self._say(attrs.evolve(old, at=self._clock.at(), error=found))

    def _is_due(self, looked_s: float) -> bool:
        # half a tick less, so that rounding does not make two ticks of a pause of one
        if self._clock.now_s() - looked_s >= self._look_after_s - _LOOK_SOON_S / 2:
            return True
        # A restarted or reloaded HAProxy is empty, and has lost the variable with the epoch.
        return self._goal is not None and self._backends.is_another(self._goal.epoch)


def _shortcomings(found: ResolvedHosts, goal: _Goal, settled: SettleResult, more: str) -> str:
    """Return which instances are missing in HAProxy, and why; and what *more* there is."""
    parts = [
        f"{one.instance_id}: host '{one.endpoint.host}' has no address "
        f"({found.missing[one.endpoint.host]})"
        for one in goal.members
        if one.endpoint.host in found.missing
    ]
    if settled.without_slot:
        parts.append(f"no free placeholder server for {', '.join(settled.without_slot)}")
    parts += [more] if more else []
    return "; ".join(parts)


def unserved(before: Traffic | None, now: Traffic) -> UnservedRequests:
    """Return how many requests wait, and how many were refused since *before*.

    One client that tries again counts as several refused requests.
    """
    waiting = now.queued + now.held
    if before is None:
        return UnservedRequests(waiting)
    (refused,) = grown((before.refused,), (now.refused,))
    return UnservedRequests(waiting, refused)


@attrs.define
class DemandProbe:
    """Returns the requests that want a server, from HAProxy's counters. One thread."""

    _statistics: Callable[[], Traffic]
    _clock: Clock
    _before: Traffic | None = None
    _read_s: float = 0.0

    def __call__(self) -> UnservedRequests:
        """Return the requests that want a server, by the last two readings.

        Raises:
            DiscoveryError: HAProxy does not answer.
        """
        now, now_s = self._statistics(), self._clock.now_s()
        fresh = now_s - self._read_s <= FORGET_AFTER_S
        before = self._before if fresh else None
        self._before, self._read_s = now, now_s
        return unserved(before, now)
