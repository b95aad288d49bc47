"""What `down` does: ask the master, wait until it is gone, end by force what does not answer."""

from collections.abc import Callable, Mapping
from typing import Any

from tarn.cluster.entries import kept_ref
from tarn.cluster.environment import ClusterEnvironment
from tarn.cluster.link import Link
from tarn.domain import ClusterState
from tarn.domain.memory import KEEP_EVENTS
from tarn.errors import LaunchError, NotFoundError, TarnError, TimedOutError, UnreachableError
from tarn.interfaces import ClusterRef, Progress

__all__ = ["bring_down", "never_served"]

LOOK_EVERY_S = 0.25
SILENT_AFTER_S = 10.0
"""A master that does not answer for so long is ended by force."""

Hear = Callable[[Progress], None]


def bring_down(link: Link, environment: ClusterEnvironment, timeout_s: float, hear: Hear) -> str:
    """End the cluster, and return in words what was done; idempotent.

    A later cluster of the same name is left alone.

    Raises:
        TimedOutError: It still drains after *timeout_s* seconds; it goes on ending by itself.
        LaunchError: Its runtime cannot be asked whether there is one.
    """
    ref = link.find()
    if ref is None:
        return _clear(link, environment)
    return _Fall(link, environment, ref, hear).watch(timeout_s)


def never_served(link: Link) -> bool:
    """Say whether the cluster runs, has failed, and certainly never had a ready instance.

    A master keeps the newest events only, and the next master fewer: where some may be lost, nobody
    knows.
    """
    try:
        running = link.find()
        if running is None or running.url is None:
            return False
        failed = link.ask(lambda api: api.status())["state"] == ClusterState.FAILED
        events = link.ask(lambda api: api.events()) if failed else ()
    except TarnError:  # what cannot be asked is not replaced
        return False
    if not failed or len(events) >= KEEP_EVENTS:
        return False
    return not any(event["code"] == "TARN-1102" for event in events)


class _Fall:
    """One cluster that ends, and what was last heard of it."""

    def __init__(
        self, link: Link, environment: ClusterEnvironment, ours: ClusterRef, hear: Hear
    ) -> None:
        self._link, self._environment, self._ours, self._hear = link, environment, ours, hear
        self._heard_s = environment.clock.now_s()
        self._asked = False
        self._last: Mapping[str, Any] = {}

    def watch(self, timeout_s: float) -> str:
        """Return in words how it ended; see `bring_down`."""
        link, clock = self._link, self._environment.clock
        until_s = clock.now_s() + timeout_s
        there: bool | None = True
        while there is not False:
            self._ask()
            # What cannot be seen at the moment cannot be ended by force either.
            if there and clock.now_s() - self._heard_s >= SILENT_AFTER_S:
                return _by_force(link, self._ours)
            if clock.now_s() >= until_s:
                raise _too_late(link.name, timeout_s, self._last)
            self._environment.rest(LOOK_EVERY_S)
            there = self._there()
        link.deployer.end(self._ours)  # it has ended; what this machine keeps of it goes too
        return f"cluster '{link.name}' ended"

    def _ask(self) -> None:
        try:
            if not self._asked:
                self._link.ask(lambda api: api.down())
                self._asked = True
            self._last = self._link.ask(lambda api: api.status())
        except (LaunchError, NotFoundError, UnreachableError, TimedOutError):
            self._hear(Progress("draining", "waiting for the master to end"))
            return
        self._heard_s = self._environment.clock.now_s()
        self._hear(Progress("draining", _left(self._last)))

    def _there(self) -> bool | None:
        """Say whether the runtime still knows it; None: it cannot be asked at the moment."""
        try:
            ref = self._link.find()
        except TarnError:
            return None
        return ref is not None and not _another(ref, self._ours)


def _left(status: Mapping[str, Any]) -> str:
    """Return how many instances are left, and whose acknowledgement is missing."""
    instances = status.get("instances", ())
    waits = (item.get("waits") or {} for item in instances)
    names = {name for each in waits for name in each.get("followers") or ()}
    left = "1 instance left" if len(instances) == 1 else f"{len(instances)} instances left"
    return f"{left}, waiting for {', '.join(sorted(names))} to acknowledge" if names else left


def _another(ref: ClusterRef, ours: ClusterRef) -> bool:
    """Say whether *ref* is a later cluster of the same name; a restarted master is none."""
    if ref.application_id and ours.application_id:
        return ref.application_id != ours.application_id
    one, other = ref.epoch.incarnation, ours.epoch.incarnation
    return bool(one and other and one != other)  # 0: its reference could not be read


def _clear(link: Link, environment: ClusterEnvironment) -> str:
    """Remove what a cluster left that ended without us: its secrets are kept for nobody."""
    ending = link.deployer.ended(link.name)
    kept = kept_ref(environment.paths.cluster(link.name))
    left = [] if ending is None else [ending.ref]
    if kept is not None and (ending is None or kept.application_id != ending.ref.application_id):
        left.append(kept)
    if not left:
        return f"cluster '{link.name}' is not running"
    for ref in left:
        link.deployer.end(ref)
    return f"cluster '{link.name}' had ended already; what was left is removed"


def _by_force(link: Link, ref: ClusterRef) -> str:
    link.deployer.end(ref)
    return (
        f"cluster '{link.name}' ended by force: its master did not answer for "
        f"{SILENT_AFTER_S:g} s, so instances that still ran were killed"
    )


def _too_late(name: str, timeout_s: float, last: Mapping[str, Any]) -> TimedOutError:
    left = ", ".join(item["id"] for item in last.get("instances", ()))
    return TimedOutError(
        f"not ended after {timeout_s:g} s; still there: {left or 'the master'}",
        where=name,
        next_step="It goes on draining; run `tarn down` again to wait longer.",
    )
