"""What `down` does: ask the master, wait until it is gone, end by force what does not answer."""

from collections.abc import Callable, Mapping
from typing import Any

from tarn.cluster.entries import kept_ref
from tarn.cluster.link import Link
from tarn.cluster.surroundings import Surroundings
from tarn.errors import NotFoundError, TimedOutError, UnreachableError
from tarn.interfaces import ClusterRef, Progress

__all__ = ["bring_down"]

LOOK_EVERY_S = 0.25
SILENT_AFTER_S = 10.0
"""A master that does not answer for so long is ended by force."""

Hear = Callable[[Progress], None]


def bring_down(link: Link, surroundings: Surroundings, timeout_s: float, hear: Hear) -> str:
    """End the cluster, and return in words what was done; idempotent.

    Raises:
        TimedOutError: It still drains after *timeout_s* seconds; it goes on ending by itself.
    """
    ref = link.find()
    if ref is None:
        return _clear(link, surroundings)
    clock = surroundings.clock
    until_s = clock.now_s() + timeout_s
    heard_s = clock.now_s()
    asked = False
    last: Mapping[str, Any] = {}
    last_ref = ref
    while ref is not None:
        try:
            if not asked:
                link.ask(lambda api: api.down())
                asked = True
            last = link.ask(lambda api: api.status())
            heard_s = clock.now_s()
            hear(Progress("draining", f"{len(last.get('instances', ()))} instances left"))
        except (NotFoundError, UnreachableError, TimedOutError):
            hear(Progress("draining", "waiting for the master to end"))
            if clock.now_s() - heard_s >= SILENT_AFTER_S:
                return _by_force(link, ref)
        if clock.now_s() >= until_s:
            raise _too_late(link.name, timeout_s, last)
        surroundings.rest(LOOK_EVERY_S)
        last_ref, ref = ref, link.find()
    link.deployer.end(last_ref)  # it has ended; what this machine keeps of it goes too
    return f"cluster '{link.name}' ended"


def _clear(link: Link, surroundings: Surroundings) -> str:
    """Remove what a cluster left that ended without us: its secrets are kept for nobody."""
    ending = link.deployer.ended(link.name)
    kept = kept_ref(surroundings.paths.cluster(link.name))
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
        f"cluster '{link.name}' ended by force: its master did not answer"
        f" for {SILENT_AFTER_S:g} s, so what still ran was cut"
    )


def _too_late(name: str, timeout_s: float, last: Mapping[str, Any]) -> TimedOutError:
    left = ", ".join(item["id"] for item in last.get("instances", ()))
    return TimedOutError(
        f"not ended after {timeout_s:g} s; still there: {left or 'the master'}",
        where=name,
        next_step="It goes on draining by itself; `tarn down` again waits longer.",
    )
