"""Carry a plan into the fleet: mint ids, move states. Still pure; posting is the loop's."""

import attrs

from tarn.domain.fleet import Fleet, Rules
from tarn.domain.instance import Instance, State
from tarn.domain.plan import Plan

__all__ = ["enact"]


def enact(fleet: Fleet, step: Plan, rules: Rules, now_s: float, at: float) -> Fleet:
    """Return *fleet* after *step*; ids for new instances are minted here and nowhere else."""
    if step == Plan():
        return fleet
    condemned = dict(step.condemn)
    notes: list[tuple[str, str, str]] = []
    moved = [_moved(i, step, condemned, now_s, notes) for i in fleet.instances]
    first = fleet.next_number
    fresh = [
        Instance(f"{fleet.name}-{number:04d}", rules.spec_hash, since_s=now_s, requested_s=now_s)
        for number in range(first, first + step.launch)
    ]
    notes.extend(("TARN-1100", i.id, "asked for") for i in fresh)
    everyone = sorted((*moved, *fresh), key=lambda i: i.id)
    fleet = fleet.with_instances(everyone).notes(at, notes)
    return attrs.evolve(fleet, next_number=first + step.launch)


def _moved(  # noqa: PLR0911 (one return for each part of a plan)
    instance: Instance,
    step: Plan,
    condemned: dict[str, str],
    now_s: float,
    notes: list[tuple[str, str, str]],
) -> Instance:
    id_ = instance.id
    if id_ in condemned:
        notes.append(("TARN-1108", id_, condemned[id_]))
        drained = instance.become(State.DRAINING, now_s, condemned[id_])
        return attrs.evolve(drained, condemned=True)
    if id_ in step.cancel:
        drained = instance.become(State.DRAINING, now_s, "not needed any more")
        return attrs.evolve(drained, stop_posted=True)
    if id_ in step.drain:
        notes.append(("TARN-1103", id_, "not needed any more"))
        return instance.become(State.DRAINING, now_s, "not needed any more")
    if id_ in step.take_back:
        notes.append(("TARN-1110", id_, "needed again"))
        back = instance.become(State.READY, now_s)
        return attrs.evolve(back, left_revision=None, withdrawn_s=None)
    if id_ in step.admit:
        notes.append(("TARN-1102", id_, f"ready {now_s - instance.requested_s:.1f} s after asked"))
        ready = instance.become(State.READY, now_s)
        return attrs.evolve(ready, ready_s=now_s, silent_s=None)
    if id_ in step.stop:
        return _stopped(instance, now_s, notes)
    return instance


def _stopped(instance: Instance, now_s: float, notes: list[tuple[str, str, str]]) -> Instance:
    if not (instance.quiet or instance.condemned or instance.untouched):
        after = f"still busy after {now_s - instance.since_s:.0f} s"
        notes.append(("TARN-1109", instance.id, after))
    return attrs.evolve(instance, stop_posted=True)
