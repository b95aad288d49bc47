"""What serves, and what is on its way: a policy must not take the one for the other. Pure.

A mean over the ready instances says nothing of those that start: who forgets them asks for more
with every look, for as long as a start takes.
"""

from collections.abc import Iterable

import attrs

from tarn.domain.instance import InstanceState
from tarn.domain.samples import Known
from tarn.domain.scaling import FleetView

__all__ = [
    "NOTHING",
    "OF_FULL",
    "Capacity",
    "capacity",
    "executed_when_full",
    "idle",
    "is_nothing",
]

NOTHING = 1e-6
"""Less of any signal is none: what a rate that fades away, or a sum of floats, has for zero."""
OF_FULL = 0.75
"""Of what a full replica was seen to execute: with more, requests wait."""
_LATE_AFTER = 2.0
"""Times the slowest start that was seen."""
_FULL_SAMPLES = 3
"""So often requests must have been seen to wait: one scrape can fall into a short burst."""
_LATELY_S = 10.0


@attrs.frozen
class Capacity:
    """A fleet's instances, as far as they are of use."""

    ready: int
    """The suspect ones too: they have work. Not those that are ejected as unwell."""
    coming: int
    """Requested or starting, and expected soon."""
    late: int
    """Requested or starting for more than twice as long as any ready one took: do not wait."""
    start_s: float = 0.0
    """How long the slowest of the ready ones took from the ask; 0: none was seen to start."""
    older: int = 0
    """Ready since before the first of those that come was asked for; where none comes, all ready
    ones. It does not change while instances start."""


def capacity(fleet: FleetView) -> Capacity:
    """Count what serves, and what comes."""
    slowest_s, ready, ages_s = 0.0, 0, []
    for instance in fleet.instances:
        if instance.state is InstanceState.READY:
            ready += not instance.ejected
            if instance.ready_s is not None and not instance.adopted:  # it started long before
                slowest_s = max(slowest_s, instance.ready_s - instance.requested_s)
        elif instance.state in (InstanceState.REQUESTED, InstanceState.STARTING):
            ages_s.append(fleet.now_s - instance.requested_s)
    late_s = _LATE_AFTER * slowest_s
    late = sum(age_s > late_s for age_s in ages_s) if late_s else 0
    return Capacity(ready, len(ages_s) - late, late, slowest_s, ready - _newer(fleet, ages_s))


def _newer(fleet: FleetView, ages_s: Iterable[float]) -> int:
    """Count the ready ones that became so after the first of those that come was asked for."""
    oldest_s = max(ages_s, default=0.0)
    return sum(
        instance.state is InstanceState.READY
        and not instance.ejected
        and fleet.now_s - instance.ready_s < oldest_s
        for instance in fleet.instances
        if instance.ready_s is not None and oldest_s
    )


def executed_when_full(fleet: FleetView, ready: int) -> float | None:
    """Return how many requests each of the *ready* instances executes at once when it is full.

    Never 0; None while that was not seen in the samples that are kept. What the instances executed
    lately without being full counts too where it is more: fleets of several models are full in one
    of them only.
    """
    seen = [s.value for _, s in fleet.signals.get("when_full", ()) if isinstance(s, Known)]
    if len(seen) < _FULL_SAMPLES:
        return None
    executing = fleet.mean("executing", _LATELY_S)
    lately = executing.value / ready if ready and isinstance(executing, Known) else 0.0
    return max(lately, sum(seen) / len(seen)) or None


def idle(fleet: FleetView) -> bool:
    """Say whether it is known that nobody asks for anything: nothing waits, executes or ended."""
    return not fleet.waiting and all(is_nothing(fleet, n) for n in ("in_flight", "requests_per_s"))


def is_nothing(fleet: FleetView, signal: str) -> bool:
    """Say whether *signal* is known to be zero, as far as numbers can be."""
    sample = fleet.latest(signal)
    return isinstance(sample, Known) and abs(sample.value) < NOTHING
