"""Replace the instances of one spec by those of another, a few at a time, or go back. Pure.

Each new instance has to prove itself before an old one leaves: it is ready, and for
``update.watch`` it stays in the view and shows no symptom. The first one that fails undoes the
update. While a new instance is unproven it counts as missing, so a spec that does not work never
takes more than ``update.max_unavailable`` out, however it fails.
"""

from collections.abc import Iterable

import attrs

from tarn.domain.facts import Ended, Fact
from tarn.domain.fleet import Fleet, Rules
from tarn.domain.instance import Instance, InstanceState
from tarn.domain.state import Update

__all__ = [
    "FOR_UPDATE",
    "REPLACED_BY_UPDATE",
    "advance",
    "at_once",
    "begin_update",
    "hashes_for",
    "judge",
    "may_leave",
    "undo",
    "unproven",
]

FOR_UPDATE = "an update replaces it"
"""Why an instance of the other spec retires."""
REPLACED_BY_UPDATE = "TARN-1181"
"""Code of an instance that an update replaces."""


def at_once(rules: Rules) -> int:
    """Return how many instances may be on their way at once."""
    update = rules.spec.update
    return max(1, update.surge + update.max_unavailable)


def unproven(fleet: Fleet, update: Update) -> list[Instance]:
    """Return the new instances that have not proven themselves yet; after an undo there are none."""
    if update.undone:
        return []
    return [i for i in _staying(fleet) if i.spec_hash == update.after and i.id not in update.proven]


def hashes_for(fleet: Fleet, rules: Rules, count: int) -> tuple[str, ...]:
    """Return the spec hashes of the next *count* instances."""
    update = fleet.update
    if update is None:
        return (rules.spec_hash,) * count
    if update.undone:
        return (update.before,) * count
    # What replaces a lost instance, or grows the fleet, has the spec that is known to work.
    new = max(0, at_once(rules) - len(unproven(fleet, update)))
    return tuple(update.after if n < new else update.before for n in range(count))


def begin_update(fleet: Fleet, after: str, before: str, at: float) -> Fleet:
    """Return *fleet* on its way from the spec *before* to *after*, which are hashes."""
    number = fleet.updates + 1
    update = Update(number, before, after, at)
    fleet = attrs.evolve(fleet, update=update, updates=number)
    return fleet.note(at, "TARN-1180", fleet.name, f"update {number}: {before} -> {after}")


def judge(fleet: Fleet, facts: Iterable[Fact], at: float) -> Fleet:
    """Return *fleet*, on its way back if a new instance has failed."""
    update = fleet.update
    if update is None or update.undone:
        return fleet
    blameless = {
        fact.instance_id for fact in facts if isinstance(fact, Ended) and fact.exit.node_fault
    }
    for i in fleet.instances:
        if i.spec_hash != update.after:
            continue
        if i.unwell is not None and i.unwell.severe and i.unwell.confirmed and not i.unwell.for_all:
            return undo(fleet, f"{i.id} is unwell: {i.unwell.words}", at)
        if i.condemned and i.untouched:
            return undo(fleet, f"{i.id} did not start: {i.reason}", at)
    for i in fleet.ended:
        new = i.spec_hash == update.after and i.id not in update.proven | blameless
        if new and i.state is InstanceState.FAILED:
            return undo(fleet, f"{i.id} failed: {i.reason}", at)
    return fleet


def advance(fleet: Fleet, rules: Rules, now_s: float, at: float) -> Fleet:
    """Return *fleet* with the next step of its update; one that is complete has ended."""
    fleet = _prove(fleet, rules, now_s)
    fleet = _retire_old(fleet, rules, now_s, at)
    update = fleet.update
    if update is None or unproven(fleet, update):
        return fleet
    staying = list(_staying(fleet))
    if len(staying) < fleet.desired or any(i.spec_hash != update.target for i in staying):
        return fleet
    if update.undone:
        code, said = "TARN-1184", f"update {update.number} is rolled back: {update.undone}"
    else:
        code, said = "TARN-1182", f"update {update.number} is done"
    return attrs.evolve(fleet, update=None).note(at, code, fleet.name, said)


def _prove(fleet: Fleet, rules: Rules, now_s: float) -> Fleet:
    """Return *fleet* with the new instances noted that have proven themselves."""
    update = fleet.update
    if update is None or update.undone:
        return fleet
    watch_s = rules.spec.update.watch_s
    found = {
        i.id
        for i in unproven(fleet, update)
        if i.in_view and i.unwell is None and now_s - i.since_s >= watch_s
    }
    if not found:
        return fleet
    return attrs.evolve(fleet, update=attrs.evolve(update, proven=update.proven | found))


def _retire_old(fleet: Fleet, rules: Rules, now_s: float, at: float) -> Fleet:
    """Return *fleet* with the next instances marked that an update replaces."""
    update = fleet.update
    if update is None or (update.paused and not update.undone) or not _may_go_on(fleet, now_s):
        return fleet
    old = [i for i in _staying(fleet) if i.spec_hash != update.target]
    retiring = sum(i.retiring is not None for i in old)
    # A replacement that is not proven yet is on its way together with the one that it replaces.
    room = at_once(rules) - max(retiring, len(unproven(fleet, update)))
    if update.undone:
        room = len(old)  # none of them is wanted; each still leaves only when it may
    waiting = sorted((i for i in old if i.retiring is None), key=_order)
    chosen = {i.id for i in waiting[: max(0, room)]}
    if not chosen:
        return fleet
    why = f"the update is undone: {update.undone}" if update.undone else FOR_UPDATE
    marked = tuple(
        i.but(
            retiring=fleet.next_number,
            retiring_for=why,
            retiring_code=REPLACED_BY_UPDATE,
        )
        if i.id in chosen
        else i
        for i in fleet.instances
    )
    notes = [(REPLACED_BY_UPDATE, id_, f"{why}; it serves until a replacement does") for id_ in sorted(chosen)]
    return attrs.evolve(fleet, instances=marked).notes(at, notes)


def may_leave(instance: Instance, fleet: Fleet, rules: Rules) -> bool:
    """Say whether *instance*, which an update replaces, may leave the view now."""
    update = fleet.update
    if update is None or not instance.in_view:
        return True
    serving = sum(_counts(i, update) for i in fleet.instances)
    left = serving - _counts(instance, update)
    return left >= fleet.desired - rules.spec.update.max_unavailable


def undo(fleet: Fleet, why: str, at: float) -> Fleet:
    """Return *fleet* on its way back to the spec that it came from."""
    update = fleet.update
    if update is None or update.undone:
        return fleet
    back = attrs.evolve(update, undone=why, paused=False)
    kept = tuple(
        i.but(retiring=None, retiring_for="", retiring_code="")
        if i.retiring_code == REPLACED_BY_UPDATE
        else i
        for i in fleet.instances
    )
    fleet = attrs.evolve(fleet, update=back, instances=kept)
    return fleet.note(at, "TARN-1183", fleet.name, f"the update is undone: {why}")


def _counts(instance: Instance, update: Update) -> bool:
    """Say whether users can rely on *instance*."""
    new = instance.spec_hash == update.after and not update.undone
    return instance.in_view and (not new or instance.id in update.proven)


def _staying(fleet: Fleet) -> Iterable[Instance]:
    return (i for i in fleet.instances if i.state is not InstanceState.DRAINING)


def _may_go_on(fleet: Fleet, now_s: float) -> bool:
    held = fleet.ending or fleet.halted or fleet.frozen_s is not None or fleet.blind
    return not held and now_s >= fleet.retry_s


def _order(instance: Instance) -> tuple[bool, bool, int]:
    """Return the order in which instances are replaced: those that do not serve first."""
    return instance.in_view, instance.unwell is None, instance.number
