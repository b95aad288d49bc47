"""Apply a plan to the fleet: create instance ids, change states. Pure; the loop posts it."""

import itertools
import math

import attrs

from tarn.domain.control_calls import CallProgress
from tarn.domain.draining import DrainProgress
from tarn.domain.events import NOBODY
from tarn.domain.fleet import Fleet, Rules
from tarn.domain.follow_up import open_sequences, open_sessions
from tarn.domain.instance import Instance, InstanceState, id_of
from tarn.domain.plan import Plan
from tarn.domain.renewal import after_another
from tarn.domain.samples import Known
from tarn.domain.strikes import count_relapse
from tarn.domain.update import hashes_for
from tarn.domain.verdicts import REPLACED_UNWELL

__all__ = ["ASKED_FOR", "apply_plan"]

Note = tuple[str, str, str]
ASKED_FOR = "a person asked for it"
# Codes of events that follow from the size alone. Their cause is the newest decision.
_OF_SIZE = frozenset({"TARN-1100", "TARN-1103", "TARN-1110"})


def apply_plan(fleet: Fleet, step: Plan, rules: Rules, now_s: float, at: float) -> Fleet:
    """Return *fleet* after *step*. Ids of new instances are created only here."""
    if step == Plan():
        return fleet
    unwell = dict(step.replace)
    reasons = {id_: ("TARN-1108", why) for id_, why in step.condemn}
    reasons |= {id_: (REPLACED_UNWELL, why) for id_, why in unwell.items()}
    before = fleet
    notes: list[Note] = []
    moved = [
        _stopped(i, fleet, rules, now_s, notes)
        if i.id in step.stop
        else _moved(i, step, reasons, now_s, notes)
        for i in fleet.instances
    ]
    if step.retire:
        kept = [i for i in fleet.instances if i.id not in step.retire]
        moved = [i if i.retiring is None else after_another(i, kept) for i in moved]
    first = fleet.next_number
    fresh = [
        Instance(
            id_of(fleet.name, number),
            spec_hash,
            since_s=now_s,
            requested_s=now_s,
            calls=CallProgress(fleet.control.number).pruned(fleet.control),
        )
        for number, spec_hash in enumerate(hashes_for(fleet, rules, step.launch), first)
    ]
    notes.extend(("TARN-1100", i.id, "asked for") for i in fresh)
    everyone = sorted((*moved, *fresh), key=lambda i: i.id)
    fleet = _noted(fleet.with_instances(everyone), at, notes, step.retire)
    for i in before.instances:
        if i.id in unwell or (i.id in step.retire and i.retiring_code == REPLACED_UNWELL):
            fleet = count_relapse(fleet, i, now_s)
    return attrs.evolve(fleet, next_number=first + step.launch)


def _noted(fleet: Fleet, at: float, notes: list[Note], retired: frozenset[str]) -> Fleet:
    """Return *fleet* with *notes* in their order, those about its size with their decision."""
    # An instance in *retired* does not drain for the size: a person asked, or it is unwell or worn.
    sized = fleet.decisions[-1].cause if fleet.decisions else NOBODY
    for of_size, some in itertools.groupby(
        notes, key=lambda note: note[0] in _OF_SIZE and note[1] not in retired
    ):
        fleet = fleet.notes(at, some, sized if of_size else NOBODY)
    return fleet


def _moved(
    instance: Instance,
    step: Plan,
    reasons: dict[str, tuple[str, str]],
    now_s: float,
    notes: list[Note],
) -> Instance:
    id_ = instance.id
    if id_ in reasons:
        code, why = reasons[id_]
        notes.append((code, id_, why))
        condemned = code == "TARN-1108"
        blamed = instance.blamed if condemned else ""
        drained = instance.become(InstanceState.DRAINING, now_s, why, blamed=blamed)
        return attrs.evolve(drained, condemned=condemned, evicted=not condemned)
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
            code, why = instance.retiring_code, instance.retiring_for
        notes.append((code, id_, why))
        return attrs.evolve(instance.become(InstanceState.DRAINING, now_s, why), evicted=True)
    if id_ in step.take_back:
        notes.append(("TARN-1110", id_, "needed again"))
        back = instance.become(InstanceState.READY, now_s)
        return attrs.evolve(back, left_revision=None, withdrawn_s=None, drain=None)
    if id_ in step.unload:
        return attrs.evolve(instance, drain=(instance.drain or DrainProgress()).unload(now_s))
    return instance


def _stopped(
    instance: Instance, fleet: Fleet, rules: Rules, now_s: float, notes: list[Note]
) -> Instance:
    if instance.condemned or instance.untouched:
        return attrs.evolve(instance, stop_posted=True)
    holding = () if instance.gone else open_sessions(instance, fleet)
    drain = instance.drain or DrainProgress()
    drain = _counted(drain, instance, sum(count for _, count in holding))
    drain = attrs.evolve(
        drain, sequences_cut=0 if instance.gone else open_sequences(instance, fleet)
    )
    if still := _still(drain, instance, holding):
        after = f"{still} after {now_s - instance.since_s:.0f} s"
        notes.append(("TARN-1109", instance.id, after))
    drain = _parted(drain, instance, fleet, rules)
    return attrs.evolve(instance, stop_posted=True, drain=drain)


def _counted(drain: DrainProgress, instance: Instance, sessions: int) -> DrainProgress:
    """Return *drain* with the number of requests and sessions that the stop cuts."""
    if drain.proven:
        return attrs.evolve(drain, cut=sessions)
    busy = instance.busy
    requests = math.ceil(busy.value) if isinstance(busy, Known) else 0
    # Triton has not finished unloading, so at least one request still executes.
    unloading = drain.unload_s is not None and not drain.refused
    # The greatest, not the sum: a request in a session is counted by Triton and by the follower.
    cut = max(requests, sessions, int(unloading))
    known = isinstance(busy, Known) or cut > 0
    more = unloading or not isinstance(busy, Known)
    return attrs.evolve(drain, cut=cut if known else None, more_cut=more)


def _still(drain: DrainProgress, instance: Instance, holding: tuple[tuple[str, int], ...]) -> str:
    """Say what is still at work; empty when nothing is."""
    if sessions := sum(count for _, count in holding):
        names = ", ".join(name for name, count in holding if count)
        counted = "1 session" if sessions == 1 else f"{sessions} sessions"
        of_them = f", {drain.sequences_cut} of them sequences," if drain.sequences_cut else ""
        return f"{counted}{of_them} still open at {names}"
    if drain.proven or instance.gone:
        return ""
    if drain.unload_s is not None and not drain.refused:
        return "the last requests keep its models from unloading"
    return "" if instance.quiet else "still busy"


def _parted(drain: DrainProgress, instance: Instance, fleet: Fleet, rules: Rules) -> DrainProgress:
    """Return *drain* with the followers that let *instance* go, and those whose lease ended."""
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
