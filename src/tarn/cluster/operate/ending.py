"""`down`: ask the master to end, wait until it is gone, kill one that does not answer."""

from collections.abc import Callable, Mapping
from typing import Any

from tarn.cluster.entries import kept_ref, reference
from tarn.cluster.environment import ClusterEnvironment
from tarn.cluster.link import Link
from tarn.domain import ClusterState
from tarn.domain.memory import KEEP_EVENTS
from tarn.errors import LaunchError, NotFoundError, TarnError, TimedOutError, UnreachableError
from tarn.interfaces import ClusterRef, Progress

__all__ = ["NEVER_SERVED", "bring_down", "never_served"]

NEVER_SERVED = "the last start failed before it served, and was ended"
LOOK_EVERY_S = 0.25
# A cluster whose master has not answered for this long is ended by force.
SILENT_AFTER_S = 10.0

Hear = Callable[[Progress], None]


def bring_down(link: Link, environment: ClusterEnvironment, timeout_s: float, hear: Hear) -> str:
    """End the cluster, and return what was done as a sentence; idempotent.

    A later cluster of the same name is left alone.

    Raises:
        TimedOutError: The cluster still drains after *timeout_s* seconds, and will end by itself.
        LaunchError: The runtime does not say whether the cluster runs.
        UnreachableError: This machine knows the cluster, but has no spec to reach its runtime.
    """
    try:
        _ = link.deployer
    except NotFoundError as error:
        if reference(environment.paths.cluster(link.name)) is None:
            return f"cluster '{link.name}' is not running"
        raise UnreachableError(
            "its runtime cannot be asked: its spec.yaml is not on this machine",
            where=link.name,
            next_step="Run `tarn down` where its tarn.yaml is, or with the TARN_HOME that "
            "started it.",
        ) from error
    ref = link.find()
    return (
        _clear(link, environment)
        if ref is None
        else _Shutdown(link, environment, ref, hear).watch(timeout_s)
    )


def never_served(link: Link) -> bool:
    """Tell whether the cluster runs, has failed, and certainly never had a ready instance."""
    try:
        running = link.find()
        if running is None or running.url is None:
            return False
        failed = link.ask(lambda api: api.status())["state"] == ClusterState.FAILED
        events = link.ask(lambda api: api.events()) if failed else ()
    except TarnError:  # what cannot be asked is not replaced
        return False
    # A master keeps only its newest events: the event of a ready instance may have been dropped.
    if not failed or len(events) >= KEEP_EVENTS:
        return False
    return not any(event["code"] == "TARN-1102" for event in events)


class _Shutdown:
    """One cluster that is ending, and the last answer of its master."""

    def __init__(
        self, link: Link, environment: ClusterEnvironment, ours: ClusterRef, hear: Hear
    ) -> None:
        self._link, self._environment, self._ours, self._hear = link, environment, ours, hear
        self._heard_s = environment.clock.now_s()
        self._asked = False
        self._last: Mapping[str, Any] = {}

    def watch(self, timeout_s: float) -> str:
        link, clock = self._link, self._environment.clock
        until_s = clock.now_s() + timeout_s
        there: bool | None = True  # None: the runtime does not answer at the moment
        while there is not False:
            self._ask()
            # Only the runtime can end it by force, so one that does not answer is waited for.
            if there and clock.now_s() - self._heard_s >= SILENT_AFTER_S:
                link.deployer.end(self._ours)
                return (
                    f"cluster '{link.name}' ended by force: its master did not answer for "
                    f"{SILENT_AFTER_S:g} s, so instances that still ran were killed"
                )
            if clock.now_s() >= until_s:
                left = ", ".join(item["id"] for item in self._last.get("instances", ()))
                raise TimedOutError(
                    f"not ended after {timeout_s:g} s; still there: {left or 'the master'}",
                    where=link.name,
                    next_step="It goes on draining; run `tarn down` again to wait longer.",
                )
            self._environment.rest(LOOK_EVERY_S)
            try:
                ref = link.find()
            except TarnError:
                there = None
            else:
                there = ref is not None and not _is_later(ref, self._ours)
        link.deployer.end(self._ours)  # removes what this machine keeps of the ended cluster
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
        instances = self._last.get("instances", ())
        waits = (item.get("waits") or {} for item in instances)
        names = {name for each in waits for name in each.get("followers") or ()}
        left = "1 instance left" if len(instances) == 1 else f"{len(instances)} instances left"
        if names:
            left += f", waiting for {', '.join(sorted(names))} to acknowledge"
        self._hear(Progress("draining", left))


def _is_later(ref: ClusterRef, ours: ClusterRef) -> bool:
    """Tell whether *ref* is a later cluster of the same name, not the same with a new master."""
    if ref.application_id and ours.application_id:
        return ref.application_id != ours.application_id
    one, other = ref.epoch.incarnation, ours.epoch.incarnation
    return bool(one and other and one != other)  # 0: its reference could not be read


def _clear(link: Link, environment: ClusterEnvironment) -> str:
    """Remove the files of a cluster that ended by itself, secrets included."""
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
