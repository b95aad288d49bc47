"""Carry a plan into the fleet: mint ids, move states. Still pure; posting is the loop's."""

import itertools
import math

import attrs

from tarn.domain.control_calls import CallProgress
from tarn.domain.draining import DrainProgress
from tarn.domain.events import NOBODY
from tarn.domain.fleet import Fleet, Rules
from tarn.domain.follow_up import open_sessions
from tarn.domain.instance import Instance, InstanceState, id_of
from tarn.domain.plan import Plan
from tarn.domain.replacing import after_another
from tarn.domain.samples import Known
from tarn.domain.strikes import count_relapse
from tarn.domain.verdicts import FOR_UNWELL

__all__ = ["ASKED_FOR", "apply_plan"]

Note = tuple[str, str, str]
ASKED_FOR = "a person asked for it"
_OF_SIZE = frozenset({"TARN-1100", "TARN-1103", "TARN-1110"})
"""What a plan does for the size alone: it comes from the decision in force."""


def apply_plan(fleet: Fleet, step: Plan, rules: Rules, now_s: float, at: float) -> Fleet:
    """Return *fleet* after *step*; ids for new instances are minted here and nowhere else."""
    if step == Plan():
        return fleet
    condemned, unwell = dict(step.condemn), dict(step.replace)
    before = fleet
    notes: list[Note] = []
    moved = [
        _stopped(i, fleet, rules, now_s, notes)
        if i.id in step.stop
        else _replaced(i, unwell[i.id], now_s, notes)
        if i.id in unwell
        else _moved(i, step, condemned, now_s, notes)
        for i in fleet.instances
    ]
    if step.retire:
        kept = [i for i in fleet.instances if i.id not in step.retire]
        moved = [i if i.retiring is None else after_another(i, kept) for i in moved]
    first = fleet.next_number
    fresh = [
        Instance(
            id_of(fleet.name, number),
            rules.spec_hash,
            since_s=now_s,
            requested_s=now_s,
            calls=CallProgress(fleet.control.number).pruned(fleet.control),
        )
        for number in range(first, first + step.launch)
    ]
    notes.extend(("TARN-1100", i.id, "asked for") for i in fresh)
    everyone = sorted((*moved, *fresh), key=lambda i: i.id)
    fleet = _noted(fleet.with_instances(everyone), at, notes)
    for i in before.instances:
        if i.id in unwell or (i.id in step.retire and i.retiring_for == FOR_UNWELL):
            fleet = count_relapse(fleet, i, now_s)
    return attrs.evolve(fleet, next_number=first + step.launch)


def _replaced(instance: Instance, why: str, now_s: float, notes: list[Note]) -> Instance:
    """Return the unwell *instance* as it begins to drain, for good."""
    notes.append(("TARN-1142", instance.id, why))
    return attrs.evolve(instance.become(InstanceState.DRAINING, now_s, why), evicted=True)


def _noted(fleet: Fleet, at: float, notes: list[Note]) -> Fleet:
    """Return *fleet* with *notes* in their order, those about its size with their decision."""
    sized = fleet.decisions[-1].cause if fleet.decisions else NOBODY
    for of_size, some in itertools.groupby(notes, key=_is_of_size):
        fleet = fleet.notes(at, some, sized if of_size else NOBODY)
    return fleet


def _is_of_size(note: Note) -> bool:
    return note[0] in _OF_SIZE and note[2] != ASKED_FOR


def _moved(
    instance: Instance,
    step: Plan,
    condemned: dict[str, str],
    now_s: float,
    notes: list[Note],
) -> Instance:
    id_ = instance.id
    if id_ in condemned:
        notes.append(("TARN-1108", id_, condemned[id_]))
        drained = instance.become(InstanceState.DRAINING, now_s, condemned[id_])
        return attrs.evolve(drained, condemned=True)
    if id_ in step.cancel:
        drained = instance.become(InstanceState.DRAINING, now_s, "not needed any more")
        return attrs.evolve(drained, stop_posted=True)
    if id_ in step.admit:
        notes.append(("TARN-1102", id_, f"ready {now_s - instance.requested_s:.1f} s after asked"))
        ready = instance.become(InstanceState.READY, now_s)
        return attrs.evolve(ready, ready_s=now_s, silent_s=None)
    return _leaving(instance, step, now_s, notes)


def _leaving(instance: Instance, step: Plan, now_s: float, notes: list[Note]) -> Instance:
    id_ = instance.id
    if id_ in step.drain:
        notes.append(("TARN-1103", id_, "not needed any more"))
        return instance.become(InstanceState.DRAINING, now_s, "not needed any more")
    if id_ in step.retire:
        code, why = "TARN-1103", ASKED_FOR
        if instance.retiring_for:
            why = instance.retiring_for
            code = "TARN-1142" if why == FOR_UNWELL else "TARN-1172"
        notes.append((code, id_, why))
        return attrs.evolve(instance.become(InstanceState.DRAINING, now_s, why), evicted=True)
    if id_ in step.take_back:
        notes.append(("TARN-1110", id_, "needed again"))
        back = instance.become(InstanceState.READY, now_s)
        return attrs.evolve(back, left_revision=None, withdrawn_s=None, drain=None)
    if id_ in step.unload:
        return attrs.evolve(instance, drain=_drain(instance).unload(now_s))
    return instance


def _stopped(
    instance: Instance, fleet: Fleet, rules: Rules, now_s: float, notes: list[Note]
) -> Instance:
    if instance.condemned or instance.untouched:
        return attrs.evolve(instance, stop_posted=True)
    holding = () if instance.gone else open_sessions(instance, fleet)
    drain = _counted(_drain(instance), instance, sum(count for _, count in holding))
    if still := _still(drain, instance, holding):
        after = f"{still} after {now_s - instance.since_s:.0f} s"
        notes.append(("TARN-1109", instance.id, after))
    drain = _parted(drain, instance, fleet, rules)
    return attrs.evolve(instance, stop_posted=True, drain=drain)


def _drain(instance: Instance) -> DrainProgress:
    return instance.drain or DrainProgress()


def _counted(drain: DrainProgress, instance: Instance, sessions: int) -> DrainProgress:
    """Return *drain* with what is cut: a request in a session is one thing, seen twice."""
    if drain.proven:
        return attrs.evolve(drain, cut=sessions)
    busy = instance.busy
    requests = math.ceil(busy.value) if isinstance(busy, Known) else 0
    unloading = drain.unload_s is not None and not drain.refused  # and not done: some execute
    cut = max(requests, sessions, int(unloading))
    known = isinstance(busy, Known) or cut > 0
    more = unloading or not isinstance(busy, Known)
    return attrs.evolve(drain, cut=cut if known else None, more_cut=more)


def _still(drain: DrainProgress, instance: Instance, holding: tuple[tuple[str, int], ...]) -> str:
    """Say what is at work all the same; '' when nothing is."""
    if sessions := sum(count for _, count in holding):
        names = ", ".join(name for name, count in holding if count)
        return f"{_sessions(sessions)} still open at {names}"
    if drain.proven or instance.gone:
        return ""
    if drain.unload_s is not None and not drain.refused:
        return "the last requests keep its models from unloading"
    return "" if instance.quiet else "still busy"


def _parted(drain: DrainProgress, instance: Instance, fleet: Fleet, rules: Rules) -> DrainProgress:
    """Return *drain* with who let go of *instance*, and who was waited for no more."""
    left = instance.left_revision
    if left is None:
        return drain
    names = {name: _named(name, rules) for name in sorted(fleet.followers)}
    attempt = fleet.epoch.attempt
    said = [
        (names[n], f"{attempt}.{f.revision}")
        for n, f in fleet.followers.items()
        if f.revision >= left
    ]
    lost = [
        names[n]
        for n, f in fleet.followers.items()
        if f.lost and f.revision < left and n in rules.required
    ]
    return attrs.evolve(drain, acknowledged=tuple(sorted(said)), parted=tuple(sorted(lost)))


def _named(follower: str, rules: Rules) -> str:
    """Return ``haproxy@lb1`` for the follower lb1 of the discovery haproxy."""
    for discovery in rules.spec.discovery:
        listed = discovery.options.get("followers")
        if isinstance(listed, (list, tuple)) and follower in listed:
            return f"{discovery.use}@{follower}"
    return follower


def _sessions(count: int) -> str:
    return "1 session" if count == 1 else f"{count} sessions"
