"""When most of a fleet falls silent at once, doubt the observer, not the fleet."""

import attrs

from tarn.domain.fleet import Fleet
from tarn.domain.instance import InstanceState

__all__ = ["guard"]

SMALLEST = 3
"""Below this many instances, "more than half" says nothing."""
THAW_AFTER_S = 300.0


def guard(fleet: Fleet, now_s: float, at: float, *, late: bool, silence_s: float) -> Fleet:
    """Return *fleet* with replacements frozen or thawed.

    Args:
        fleet: After its facts and readings were folded.
        now_s: Monotonic seconds.
        at: Wall time of the events.
        late: Our own tick came much too late, or we could not look: silences are our own.
        silence_s: Within how many seconds silences count as falling together.
    """
    watched = fleet.of(InstanceState.READY)
    silent = tuple(i for i in watched if i.silent_s is not None and not i.gone)
    if late:
        fleet = _forgive(fleet, now_s)
    if fleet.frozen_s is not None:
        return _maybe_thaw(fleet, len(silent), len(watched), now_s, at)
    fresh = [i for i in silent if i.silent_s is not None and now_s - i.silent_s <= silence_s]
    if late or len(watched) < SMALLEST or len(fresh) * 2 <= len(watched):
        return fleet
    message = f"{len(fresh)} of {len(watched)} instances fell silent within {silence_s:g} s"
    fleet = attrs.evolve(fleet, frozen_s=now_s)
    return fleet.note(at, "TARN-1010", fleet.name, message)


def _forgive(fleet: Fleet, now_s: float) -> Fleet:
    if all(i.silent_s is None for i in fleet.instances):
        return fleet
    instances = (
        attrs.evolve(i, silent_s=now_s) if i.silent_s is not None else i for i in fleet.instances
    )
    return attrs.evolve(fleet, instances=tuple(instances))


def _maybe_thaw(fleet: Fleet, silent: int, watched: int, now_s: float, at: float) -> Fleet:
    assert fleet.frozen_s is not None
    if silent * 2 <= watched:
        why = f"{watched - silent} of {watched} instances answer"
    elif now_s - fleet.frozen_s >= THAW_AFTER_S:
        why = f"{THAW_AFTER_S:g} s have passed"
    else:
        return fleet
    fleet = attrs.evolve(fleet, frozen_s=None)
    return fleet.note(at, "TARN-1011", fleet.name, why)
