"""The discovery: keeps the servers of one HAProxy like the view, whatever happens to it.

Level-triggered: what HAProxy shows is compared with the last view, by whoever brings a new one and
by a thread of its own, every second; and ten times a second while a server drains, while HAProxy is
away, and as soon as another process answers in its place (which has not the variable that the last
one was given). So a HAProxy that was restarted or reloaded is filled again at once, and drains come
to their end. Where nothing differs nothing is written.
"""

import logging
import threading
from collections.abc import Callable

import attrs

from tarn.domain import Applied, DiscoveryView, Epoch, Member
from tarn.errors import DiscoveryError, Superseded
from tarn.interfaces import Clock
from tarn_plugins.discovery.haproxy.backends import HaproxyBackends, SettleResult, Traffic
from tarn_plugins.discovery.haproxy.host_resolver import HostResolver, ResolvedHosts
from tarn_plugins.discovery.haproxy.runtime_api import AWAY, RuntimeApi
from tarn_plugins.discovery.haproxy.target import HaproxyTarget

__all__ = ["HAProxyServers", "Traffic"]

log = logging.getLogger(__name__)

_LOOK_EVERY_S = 1.0
_LOOK_SOON_S = 0.1
"""While a server drains, or HAProxy is away."""
_ANSWER_WITHIN_S = 2.0
"""For each conversation with HAProxy."""
_NAMES_WITHIN_S = (0.05, 2.0)
"""For all look-ups of host names: before the others are served, and after that. The thread waits
for the first only: it comes again."""
_HOLD_S = 2.0
"""For which servers that leave are kept at most until another one works: a placeholder's first
check comes with its ``inter``, which is two seconds where nobody wrote one."""
_HOLD_LOOKS = 6
"""How often `sync` looks itself whether that is so, before it leaves it to the thread."""
_HOLD_LOOK_EVERY_S = 0.02
_CLOSE_STEP_S = 0.2
"""For each of the three waits of a `close`, which has a second in all."""


@attrs.frozen
class _Goal:
    """What should be: the last view, and before it the members that an incomplete one left."""

    epoch: Epoch
    revision: int
    complete: bool
    members: tuple[Member, ...]

    def after(self, view: DiscoveryView) -> "_Goal":
        """Return the goal once *view* came; an incomplete view takes nobody away."""
        kept = {} if view.complete else {one.instance_id: one for one in self.members}
        members = {**kept, **{one.instance_id: one for one in view.members}}
        in_order = tuple(sorted(members.values()))
        return _Goal(view.epoch, view.revision, view.complete, in_order)


class HAProxyServers:
    """A `Discovery` whose publication is the servers of a HAProxy on this machine.

    Any thread may call it; calls that talk to HAProxy wait for one another. The thread that keeps
    HAProxy like the view begins with the first view and ends with `close`.

    Args:
        target: Which HAProxy, and which of its servers.
        clock: For the time of acknowledgements and the age of look-ups.
        wake: Called, on any thread, when what `applied` says has changed by itself.
        name: Under which it acknowledges.
        names: How host names become addresses.
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
        self._trouble = ""
        self._look_after_s = _LOOK_EVERY_S
        self._hold_until_s = 0.0
        self._holds = False
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    # -- the Protocol

    def reach(self, within_s: float) -> None:
        """Make sure that HAProxy answers, obeys, and has the backends and the room.

        Only an answer is waited for: a HAProxy that answers, and cannot do what is asked of it,
        would not learn it meanwhile.
        """
        end_s = self._clock.now_s() + within_s
        while True:
            try:
                with self._at_work:
                    self._backends.check()
            except DiscoveryError as error:
                late = error.code != AWAY or self._clock.now_s() >= end_s
                if late or self._closed.wait(_LOOK_SOON_S):
                    raise
            else:
                return

    def sync(self, view: DiscoveryView) -> None:
        """Bring HAProxy's servers to *view*, and keep them there.

        Where every server that works leaves at once, they are kept for as long as the new ones have
        not had their first check, two seconds at most, and the view is acknowledged after that.
        An instance whose host name has no address, or for which there is no slot, does not hold up
        the others: `applied` says in ``error`` which one it is, and it is tried again.

        Raises:
            DiscoveryError: HAProxy is away, or refused a command. The view is kept, and applied as
                soon as that is over.
            Superseded: A master with a higher epoch publishes here.
        """
        with self._at_work:
            goal = self._goal or _Goal(view.epoch, -1, complete=False, members=())
            if view.epoch < goal.epoch:
                raise Superseded(str(view.epoch), str(goal.epoch))
            if view.epoch == goal.epoch and view.revision < goal.revision:
                return  # an older message that came late
            self._goal = goal.after(view)
            if self._goal != goal and not self._holds:  # views that follow do not prolong it
                self._hold_until_s = self._clock.now_s() + _HOLD_S
            self._begin()
            self._work(_NAMES_WITHIN_S)

    def applied(self) -> Applied | None:
        """Return the last acknowledged view; its ``sessions`` are those of servers that drain."""
        return self._applied

    def close(self, *, withdraw: bool) -> None:
        """End the thread; with *withdraw* take our servers out, what is open may finish."""
        first = not self._closed.is_set()
        self._closed.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(_CLOSE_STEP_S)
        if withdraw and first and self._at_work.acquire(timeout=_CLOSE_STEP_S):
            try:
                self._withdraw()
            finally:
                self._at_work.release()

    # -- besides the Protocol

    def capacity(self) -> int | None:
        """Return for how many instances there is room; None: for any number.

        Raises:
            DiscoveryError: HAProxy is away, or has no such backend.
        """
        with self._at_work:
            return self._backends.capacity()

    def statistics(self) -> Traffic:
        """Count requests; asks HAProxy, so on a thread that may wait for two seconds.

        Raises:
            DiscoveryError: HAProxy is away, or has no such backend.
        """
        with self._at_work:
            return self._backends.traffic()

    @property
    def orders_given(self) -> int:
        """Commands that changed something in HAProxy, since this object was made."""
        return self._backends.orders_given

    # -- the work; with the lock held

    def _work(self, patience_s: tuple[float, ...]) -> None:
        """Bring HAProxy to the goal, and note how that went."""
        goal = self._goal
        assert goal is not None
        try:
            for within_s in patience_s:
                if self._apply(goal, within_s):
                    break
        except DiscoveryError as error:
            old = self._applied
            told = old is not None and old.epoch == goal.epoch  # by the word: an agent says it
            if str(error) != self._trouble:
                log.log(logging.INFO if told else logging.WARNING, "%s", error)
            self._trouble = str(error)
            self._look_after_s = error.retry_after_s or _LOOK_EVERY_S
            if old is not None and told:  # who left has left, but it is amiss
                self._say(attrs.evolve(old, at=self._clock.at(), error=str(error)))
            raise
        if self._trouble:
            log.info("%s: HAProxy at %s is up to date", self.name, self.target.socket)
        self._trouble = ""

    def _apply(self, goal: _Goal, names_within_s: float) -> bool:
        """Apply *goal*, and acknowledge it; say whether every host had an address."""
        hosts = (one.endpoint.host for one in goal.members)
        found = self._names.find(hosts, names_within_s)
        settled = self._settle(goal, found)
        self._holds = settled.held
        soon = settled.leaving or settled.held
        self._look_after_s = _LOOK_SOON_S if soon else _LOOK_EVERY_S
        if settled.held:
            return True  # not yet applied; the thread goes on
        lacking = _shortcomings(found, goal, settled)
        at, done = self._clock.at(), goal.revision
        if settled.stayed:  # who should have left has not: the word is still of an older view
            old = self._applied
            done = old.revision if old is not None and old.epoch == goal.epoch else 0
        self._say(Applied(self.name, goal.epoch, done, at, lacking, settled.sessions))
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
        """Acknowledge; wake whoever waits where the word is a new one."""
        old = self._applied
        self._applied = applied
        if old is None or attrs.evolve(old, at=applied.at) != applied:
            self._wake()

    def _withdraw(self) -> None:
        """Take out all of ours, as far as that goes at once."""
        try:
            epoch = self._goal.epoch if self._goal is not None else None
            api = RuntimeApi(self.target.socket, _CLOSE_STEP_S, self.name)
            HaproxyBackends(self.target, api).settle(epoch, (), {}, remove=True)
        except (DiscoveryError, Superseded) as error:
            log.warning("servers stay in HAProxy: %s", error)

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
                continue  # noted where it matters, and tried again
            except Superseded as over:
                log.warning("%s: %s", self.name, over)
                return
            except Exception as error:  # noqa: BLE001 (nobody else fills a HAProxy that was restarted)
                with self._at_work:  # a view may be at work, and its result is the newer one
                    self._note_bug(error)

    def _note_bug(self, error: Exception) -> None:
        """Tell what nobody expected, once; it is tried again."""
        found = f"{type(error).__name__}: {error}"
        if found != self._trouble:
            log.error("%s: HAProxy at %s", self.name, self.target.socket, exc_info=error)
        self._trouble = found
        self._look_after_s = _LOOK_EVERY_S
        old = self._applied
        if old is not None:
            self._say(attrs.evolve(old, at=self._clock.at(), error=found))

    def _is_due(self, looked_s: float) -> bool:
        # a little less than a tick: a pause of one tick is one tick
        if self._clock.now_s() - looked_s >= self._look_after_s - _LOOK_SOON_S / 2:
            return True
        return self._goal is not None and self._backends.is_another(self._goal.epoch)


def _shortcomings(found: ResolvedHosts, goal: _Goal, settled: SettleResult) -> str:
    """Say which instances could not be given to HAProxy, and why."""
    parts = [
        f"{one.instance_id}: host '{one.endpoint.host}' has no address "
        f"({found.missing[one.endpoint.host]})"
        for one in goal.members
        if one.endpoint.host in found.missing
    ]
    if settled.without_slot:
        parts.append(f"no free placeholder server for {', '.join(settled.without_slot)}")
    return "; ".join(parts)
