"""Fold what the runtime and the scraper say into the fleet. Whole states: order cannot matter."""

from collections.abc import Iterator, Mapping

import attrs

from tarn.domain.facts import Asked, Ended, ExitStatus, Fact, Running
from tarn.domain.fleet import Fleet, Rules
from tarn.domain.instance import Instance, State
from tarn.domain.reading import Reading
from tarn.domain.samples import Known
from tarn.domain.serving import relevant, serving

__all__ = ["fold_facts", "fold_readings"]

MISSING_AFTER_S = 10.0
"""A runtime that knew an instance and says nothing of it for this long has lost it."""
QUICK_S = 10.0
"""A failure before ready, or within this time after, counts as a strike."""
STRIKES = 5
"""Quick failures in a row after which launching is given up."""
RETRY_FIRST_S = 1.0
"""Back-off after the first strike; doubled by each further one."""
RETRY_MOST_S = 60.0

Note = tuple[str, str, str]


def fold_facts(fleet: Fleet, facts: tuple[Fact, ...], now_s: float, at: float) -> Fleet:
    """Return *fleet* after the runtime's whole word.

    A running instance that is in no list is a stray of something given up: it is taken in, only
    to be stopped. Ended ones that are unknown are old news.
    """
    by_id = {fact.instance_id: fact for fact in facts}
    notes: list[Note] = []
    instances = [_after_fact(i, by_id.pop(i.id, None), now_s, notes) for i in fleet.instances]
    strays = [_stray(f, now_s) for f in by_id.values() if isinstance(f, Running)]
    notes.extend(("TARN-1108", stray.id, stray.reason) for stray in strays)
    failed = [i for i in instances if i.state is State.FAILED]
    changed = strays or any(a is not b for a, b in zip(instances, fleet.instances, strict=True))
    if not changed:
        return fleet
    everyone = sorted((*instances, *strays), key=lambda i: i.id)
    fleet = fleet.with_instances(everyone).notes(at, notes)
    numbers = (i.number + 1 for i in strays)
    fleet = attrs.evolve(fleet, next_number=max((fleet.next_number, *numbers)))
    for instance in failed:
        fleet = _after_failure(fleet, instance, now_s, at)
    return fleet


def _stray(fact: Running, now_s: float) -> Instance:
    return Instance(
        fact.instance_id,
        fact.spec_hash,
        State.DRAINING,
        now_s,
        now_s,
        "it runs, though it is not wanted any more",
        container_id=fact.container_id,
        node=fact.node,
        endpoint=fact.endpoint,
        ranks=fact.ranks,
        condemned=True,
        withdrawn_s=now_s,
    )


def _after_fact(instance: Instance, fact: Fact | None, now_s: float, notes: list[Note]) -> Instance:
    match fact:
        case None:
            return _missing(instance, now_s, notes)
        case Asked(waits_for=waits_for):
            return _asked(instance, waits_for)
        case Running():
            return _running(instance, fact, now_s, notes)
        case Ended(exit=status):
            return _over(instance, status, now_s, notes)


def _asked(instance: Instance, waits_for: str) -> Instance:
    waiting = instance.state is State.REQUESTED and instance.reason != waits_for
    if not waiting and instance.missing_s is None:
        return instance
    reason = waits_for if waiting else instance.reason
    return attrs.evolve(instance, reason=reason, missing_s=None)


def _running(instance: Instance, fact: Running, now_s: float, notes: list[Note]) -> Instance:
    if instance.state is State.REQUESTED:
        instance = instance.become(State.STARTING, now_s)
        notes.append(("TARN-1101", instance.id, f"started on {fact.node} as {fact.container_id}"))
    elif instance.endpoint == fact.endpoint and instance.missing_s is None:
        return instance
    return attrs.evolve(
        instance,
        container_id=fact.container_id,
        node=fact.node,
        endpoint=fact.endpoint,
        ranks=fact.ranks,
        missing_s=None,
    )


def _missing(instance: Instance, now_s: float, notes: list[Note]) -> Instance:
    if instance.endpoint is None and not instance.stop_posted:
        return instance  # only asked for: the next wish asks again
    if instance.missing_s is None:
        return attrs.evolve(instance, missing_s=now_s)
    if now_s - instance.missing_s < MISSING_AFTER_S:
        return instance
    return _over(instance, ExitStatus("the runtime knows it no more"), now_s, notes)


def _over(instance: Instance, status: ExitStatus, now_s: float, notes: list[Note]) -> Instance:
    if instance.stop_posted or status.expected:
        receipt = _receipt(instance, now_s)
        notes.append(("TARN-1104", instance.id, receipt))
        return instance.become(State.STOPPED, now_s, receipt)
    notes.append(("TARN-1105", instance.id, status.reason))
    return instance.become(State.FAILED, now_s, status.reason)


def _receipt(instance: Instance, now_s: float) -> str:
    if instance.endpoint is None:
        return "cancelled before it started"
    drained = f"drained in {now_s - instance.since_s:.1f} s"
    if instance.condemned:
        return f"{drained}: {instance.reason}"
    cut = int(instance.busy.value) if isinstance(instance.busy, Known) else None
    match cut:
        case 0:
            return f"{drained}, 0 cut"
        case None:
            return f"{drained}, requests in flight unknown"
        case _:
            return f"{drained}, {cut} cut at drain.timeout"


def _after_failure(fleet: Fleet, instance: Instance, now_s: float, at: float) -> Fleet:
    if instance.condemned or instance.evicted:
        return fleet  # it was on its way out; its replacement is under way
    lived_s = 0.0 if instance.ready_s is None else now_s - instance.ready_s
    if lived_s >= QUICK_S:
        return attrs.evolve(fleet, strikes=0)
    strikes = fleet.strikes + 1
    pause_s = min(RETRY_FIRST_S * 2 ** (strikes - 1), RETRY_MOST_S)
    fleet = attrs.evolve(fleet, strikes=strikes, retry_s=now_s + pause_s)
    if strikes < STRIKES or fleet.halted:
        return fleet
    halted = f"{strikes} instances in a row failed quickly; the last, {instance.id}: "
    fleet = attrs.evolve(fleet, halted=halted + instance.reason)
    return fleet.note(at, "TARN-1112", fleet.name, fleet.halted)


def fold_readings(
    fleet: Fleet, readings: Mapping[str, Reading], rules: Rules, now_s: float, at: float
) -> Fleet:
    """Return *fleet* after the newest readings: who serves, who is busy, who is silent."""
    notes: list[Note] = []
    instances = tuple(
        _after_reading(i, readings[i.id], rules, now_s, notes, frozen=fleet.frozen_s is not None)
        if i.id in readings
        else i
        for i in fleet.instances
    )
    if all(a is b for a, b in zip(instances, fleet.instances, strict=True)):
        return fleet
    strikes = fleet.strikes
    if any(i.ready_s is not None and now_s - i.ready_s >= QUICK_S for i in fleet.of(State.READY)):
        strikes = 0
    return attrs.evolve(fleet, instances=instances, strikes=strikes).notes(at, notes)


def _after_reading(  # noqa: PLR0913 (one step of a loop, its parts by name)
    instance: Instance,
    reading: Reading,
    rules: Rules,
    now_s: float,
    notes: list[Note],
    *,
    frozen: bool,
) -> Instance:
    if instance.endpoint is None or instance.stop_posted:
        return instance  # what was read last before the stop is what the receipt tells
    serves, why_not = serving(reading, rules.spec.models)
    models = instance.models
    if isinstance(reading.models, Known):
        listed = relevant(reading.models.value, rules.spec.models)
        models = tuple((m.name, m.state, m.reason) for m in listed)
        notes.extend(_newly_unavailable(instance, models))
    live = isinstance(reading.live, Known) and reading.live.value
    changes: dict[str, object] = {
        "serving": serves,
        "models": models,
        "busy": reading.busy,
        "busy_s": reading.taken_s,
        "gone": bool(reading.gone),
        "silent_s": None if live else (instance.silent_s or now_s),
    }
    if instance.state is State.STARTING:
        changes["reason"] = why_not
    if all(getattr(instance, name) == value for name, value in changes.items()):
        after = instance
    else:
        after = attrs.evolve(instance, **changes)  # type: ignore[arg-type]
    return _marked(after, reading.gone or why_not, rules, now_s, notes, frozen=frozen)


def _marked(  # noqa: PLR0913 (as above)
    instance: Instance, why: str, rules: Rules, now_s: float, notes: list[Note], *, frozen: bool
) -> Instance:
    """Mark a ready instance that must not get traffic, or take the mark away.

    Certainty (a closed connection, a model unloaded) counts at once; silence only after
    ``unready_after``, and not while the observer itself is suspect.
    """
    if instance.state is not State.READY:
        return instance
    unready_after_s = rules.spec.instance.unready_after_s
    if instance.gone or instance.silent_s is None:
        suspect = why
    elif not frozen and now_s - instance.silent_s >= unready_after_s:
        suspect = f"no answer for {unready_after_s:g} s: {why}"
    else:
        suspect = instance.suspect
    if suspect == instance.suspect:
        return instance
    if suspect and not instance.suspect:
        notes.append(("TARN-1106", instance.id, suspect))
    elif not suspect:
        notes.append(("TARN-1107", instance.id, "answers again"))
    return attrs.evolve(instance, suspect=suspect)


def _newly_unavailable(
    instance: Instance, models: tuple[tuple[str, str, str], ...]
) -> Iterator[Note]:
    if models == instance.models:
        return
    before = {name for name, state, reason in instance.models if state == "UNAVAILABLE" and reason}
    for name, state, reason in models:
        if state == "UNAVAILABLE" and reason and name not in before:
            yield "TARN-1111", instance.id, f"{name}: {reason.partition(chr(10))[0]}"
