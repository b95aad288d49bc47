"""Replace the instances of one spec by those of another, a few at a time, or go back. Pure.

Each new instance has to prove itself before an old one leaves: it is ready, and for
``update.watch`` it stays in the view and shows no symptom. The first one that fails undoes the
update. While a new instance is unproven it counts as missing, so a spec that does not work never
takes more than ``update.max_unavailable`` out, however it fails.
"""

from collections.abc import Iterable, Mapping
from typing import assert_never

import attrs

from tarn.domain.command import BeginUpdate, HoldUpdate, Rollback
from tarn.domain.events import NOBODY, EventCause
from tarn.domain.facts import Ended, Fact
from tarn.domain.fleet import Fleet, Rules
from tarn.domain.instance import Instance, InstanceState
from tarn.domain.reading import Reading
from tarn.domain.state import EditionFiles, Update
from tarn.errors import RefusedError

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
    "update_as_asked",
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
    """Return the new instances that have not proven themselves yet; none after an undo."""
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


def update_as_asked(
    fleet: Fleet, command: BeginUpdate | Rollback | HoldUpdate, at: float, cause: EventCause
) -> tuple[Fleet, str]:
    """Return *fleet* after *command*, and a sentence about what follows.

    Raises:
        RefusedError: Another update is on its way, or there is none.
    """
    match command:
        case BeginUpdate():
            return _update(fleet, command, at, cause)
        case Rollback():
            return _roll_back(fleet, command, at, cause)
        case HoldUpdate():
            return _hold(fleet, command, at, cause)
    assert_never(command)


def _update(fleet: Fleet, command: BeginUpdate, at: float, cause: EventCause) -> tuple[Fleet, str]:
    running, same = fleet.update, command.edition.digest == fleet.edition.digest
    if same:  # a question may be asked twice
        return fleet, "nothing changes" if running is None else f"update {running.number} begins"
    if running is not None:
        way = "is on its way" if not running.undone else "is being undone"
        raise RefusedError(
            f"update {running.number} {way}",
            code="TARN-1185",
            where=fleet.name,
            right="One update at a time.",
            next_step="Wait for its end (`tarn status`), or undo it with `tarn rollback`",
        )
    said = "; ".join(command.changes)
    fleet = begin_update(fleet, command.edition, said, at, cause)
    if fleet.update is None:
        return fleet, f"update {fleet.updates} is done: no instance has to be replaced"
    return fleet, f"update {fleet.updates} begins"


def _roll_back(fleet: Fleet, command: Rollback, at: float, cause: EventCause) -> tuple[Fleet, str]:
    running = fleet.update
    if command.update is not None and command.update != fleet.updates:
        return fleet, f"update {fleet.updates} has come after update {command.update}"
    if running is not None and running.undone:
        return fleet, f"update {running.number} is being undone already"
    if running is not None:
        who = cause.asker
        why = f"{who.principal} asked for it" if who is not None and who.principal else "on request"
        return undo(fleet, why, at, cause), f"update {running.number} is undone"
    if len(fleet.editions) < 2:  # noqa: PLR2004 (the one before, and the present one)
        raise RefusedError(
            "there is no earlier spec to go back to",
            code="TARN-1186",
            where=fleet.name,
            next_step="`tarn update -f FILE` takes the spec of a file",
        )
    said = f"back to what update {fleet.updates} replaced"
    fleet = begin_update(fleet, fleet.editions[0], said, at, cause)
    return fleet, f"update {fleet.updates} begins: {said}"


def _hold(fleet: Fleet, command: HoldUpdate, at: float, cause: EventCause) -> tuple[Fleet, str]:
    running = fleet.update
    if running is None or running.undone:
        found = "no update is on its way" if running is None else "the update is being undone"
        raise RefusedError(found, code="TARN-1186", where=fleet.name)
    said = f"update {running.number} " + ("waits" if command.held else "goes on")
    if running.paused is command.held:
        return fleet, f"{said} already"
    held = attrs.evolve(fleet, update=attrs.evolve(running, paused=command.held))
    return held.note(at, "TARN-1187", fleet.name, said, cause), said


def begin_update(
    fleet: Fleet, edition: EditionFiles, said: str, at: float, cause: EventCause = NOBODY
) -> Fleet:
    """Return *fleet* on its way to *edition*; *said* names what changes.

    Where no instance has to be replaced, it has arrived.
    """
    present, number = fleet.edition, fleet.updates + 1
    update = Update(number, present.spec_hash, edition.spec_hash, at, fleet.next_number)
    fleet = attrs.evolve(fleet, updates=number, editions=(present, edition))
    if edition.spec_hash == present.spec_hash:
        fleet = attrs.evolve(fleet, updated=update)
    else:
        fleet = attrs.evolve(fleet, update=update)
    return fleet.note(at, "TARN-1180", fleet.name, f"update {number}: {said}", cause)


def judge(fleet: Fleet, facts: Iterable[Fact], readings: Mapping[str, Reading], at: float) -> Fleet:
    """Return *fleet*, on its way back if a new instance has failed."""
    update = fleet.update
    if update is None or update.undone:
        return fleet
    for i in fleet.instances:
        if i.spec_hash == update.after and (why := _failing(i, readings.get(i.id))):
            return undo(fleet, why, at)
    blameless = {
        fact.instance_id for fact in facts if isinstance(fact, Ended) and fact.exit.node_fault
    }
    for i in fleet.ended:
        new = i.number >= update.first and i.id not in update.proven | blameless
        new = new and i.spec_hash == update.after
        if new and i.state is InstanceState.FAILED:
            return undo(fleet, f"{i.id} failed: {i.reason}", at)
    return fleet


def _failing(i: Instance, reading: Reading | None) -> str:
    """Return why *i* shows that its spec does not work; empty: nothing is known against it."""
    unwell = i.unwell
    if unwell is not None and unwell.severe and unwell.confirmed and not unwell.for_all:
        return f"{i.id} is unwell: {unwell.words}"
    if reading is not None and reading.wrong:
        return f"{i.id} fails update.smoke: {reading.wrong}"
    return f"{i.id} did not start: {i.reason}" if i.condemned and i.untouched else ""


def advance(fleet: Fleet, rules: Rules, now_s: float, at: float) -> Fleet:
    """Return *fleet* with the next step of its update; one that is complete has ended."""
    if why := _stays_unwell(fleet, rules, now_s):
        fleet = undo(fleet, why, at)
    fleet = _prove(fleet, rules, now_s)
    fleet = _retire_old(fleet, rules, now_s, at)
    update = fleet.update
    if update is None or unproven(fleet, update):
        return fleet
    staying = list(_staying(fleet))
    if len(staying) < fleet.desired or any(i.spec_hash != update.target for i in staying):
        return fleet
    editions = fleet.editions
    if update.undone:
        code, said = "TARN-1184", f"update {update.number} is rolled back: {update.undone}"
        editions = (fleet.edition,)
    else:
        code, said = "TARN-1182", f"update {update.number} is done"
    fleet = attrs.evolve(fleet, update=None, updated=update, editions=editions)
    return fleet.note(at, code, fleet.name, said)


def _stays_unwell(fleet: Fleet, rules: Rules, now_s: float) -> str:
    """Return why a new instance that no test request can confirm is blamed; empty: none is."""
    update = fleet.update
    for i in unproven(fleet, update) if update is not None else ():
        marked = i.unwell
        if marked is None or not marked.severe or marked.for_all:
            continue
        if now_s - marked.since_s >= rules.spec.update.watch_s:
            return f"{i.id} is unwell: {marked.words}"
    return ""


def _prove(fleet: Fleet, rules: Rules, now_s: float) -> Fleet:
    """Return *fleet* with the new instances noted that have proven themselves."""
    update = fleet.update
    if update is None or update.undone:
        return fleet
    watch_s = rules.spec.update.watch_s
    found = {
        i.id
        for i in unproven(fleet, update)
        # A slow one proves itself, too: it is only reported.
        if i.in_view and (i.unwell is None or not i.unwell.severe) and now_s - i.since_s >= watch_s
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
    notes = [
        (REPLACED_BY_UPDATE, id_, f"{why}; it serves until a replacement does")
        for id_ in sorted(chosen)
    ]
    return attrs.evolve(fleet, instances=marked).notes(at, notes)


def may_leave(instance: Instance, fleet: Fleet, rules: Rules) -> bool:
    """Say whether *instance*, which an update replaces, may leave the view now."""
    update = fleet.update
    if update is None or not instance.in_view:
        return True
    serving = sum(_counts(i, update) for i in fleet.instances)
    left = serving - _counts(instance, update)
    return left >= fleet.desired - rules.spec.update.max_unavailable


def undo(fleet: Fleet, why: str, at: float, cause: EventCause = NOBODY) -> Fleet:
    """Return *fleet* on its way back to the edition that it came from."""
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
    return fleet.note(at, "TARN-1183", fleet.name, f"the update is undone: {why}", cause)


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
