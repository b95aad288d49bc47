"""Who leaves when a fleet has too many: what losing it costs least."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence

from tarn.domain.fleet import Fleet
from tarn.domain.instance import Instance, InstanceState
from tarn.domain.samples import Known

__all__ = ["surplus"]

_RANK = {InstanceState.REQUESTED: 0, InstanceState.STARTING: 1, InstanceState.READY: 2}


def surplus(active: Iterable[Instance], count: int, fleet: Fleet) -> list[Instance]:
    """Return the *count* of *active* that shall leave, least valuable first.

    Unwell ones first, then not ready ones (only asked for, then starting), then suspect ones, then
    the least busy, in whole requests: what Triton says, or the sessions that followers have open
    there, whichever is more; unknown counts as most. Among equals one from the node that would be
    left with most instances, so that the spread is kept; then the newest.
    """
    sessions: Counter[str] = Counter()
    for follower in fleet.followers.values():
        if not follower.lost:
            sessions.update(follower.sessions)
    cheapest = sorted(active, key=lambda i: (*_cost(i, sessions), -i.number))
    together = _together(cheapest)
    cheapest.sort(key=lambda i: (*_cost(i, sessions), -together[i.id], -i.number))
    return cheapest[:count]


def _cost(instance: Instance, sessions: Counter[str]) -> tuple[int, bool, float]:
    busy = instance.busy
    requests = math.ceil(busy.value) if isinstance(busy, Known) else math.inf
    at_work = max(requests, sessions[instance.id])
    rank = _RANK[instance.state]
    if instance.unwell is not None and instance.unwell.severe and not instance.unwell.for_all:
        rank = -1
    return rank, not instance.suspect, at_work


def _together(cheapest: Sequence[Instance]) -> dict[str, int]:
    """Return how many are on each one's node once all that are cheaper there have left.

    Taking the highest among equals is the same as counting again after each one that leaves.
    """
    left = Counter(instance.node for instance in cheapest)
    together = {}
    for instance in cheapest:
        together[instance.id] = left[instance.node] if instance.node is not None else 0
        left[instance.node] -= 1
    return together
