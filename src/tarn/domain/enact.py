"""Carry a plan into the fleet: mint ids, move states. Still pure; posting is the loop's."""

import attrs

from tarn.domain.fleet import Fleet, Rules
from tarn.domain.follow_up import open_sessions
from tarn.domain.instance import Instance, State
from tarn.domain.plan import Plan

__all__ = ["enact"]


def enact(fleet: Fleet, step: Plan, rules: Rules, now_s: float, at: float) -> Fleet:
    """Return *fleet* after *step*; ids for new instances are minted here and nowhere else."""
    if step == Plan():
        return fleet
    condemned = dict(step.condemn)
    notes: list[tuple[str, str, str]] = []
    moved = [
        _stopped(i, fleet, now_s, notes)
        if i.id in step.stop
        else _moved(i, step, condemned, now_s, notes)
        for i in fleet.instances
    ]
    first = fleet.next_number
    fresh = [
        Instance(f"{fleet.name}-{number:04d}", rules.spec_hash, since_s=now_s, requested_s=now_s)
        for number in range(first, first + step.launch)
    ]
    notes.extend(("TARN-1100", i.id, "asked for") for i in fresh)
    everyone = sorted((*moved, *fresh), key=lambda i: i.id)
    fleet = fleet.with_instances(everyone).notes(at, notes)
    return attrs.evolve(fleet, next_number=first + step.launch)


def _moved(
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
    return instance


def _stopped(
    instance: Instance, fleet: Fleet, now_s: float, notes: list[tuple[str, str, str]]
) -> Instance:
    if instance.condemned or instance.untouched:
        return attrs.evolve(instance, stop_posted=True)
    holding = () if instance.gone else open_sessions(instance, fleet)
    cut = sum(count for _, count in holding)
    if cut:
        names = ", ".join(name for name, count in holding if count)
        still = f"{_sessions(cut)} still open at {names}"
    else:
        still = "still busy"
    if cut or not instance.quiet:
        after = f"{still} after {now_s - instance.since_s:.0f} s"
        notes.append(("TARN-1109", instance.id, after))
    return attrs.evolve(instance, stop_posted=True, cut=cut)


def _sessions(count: int) -> str:
    return "1 session" if count == 1 else f"{count} sessions"
