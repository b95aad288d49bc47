"""What clients say of instances that answer them badly: heard, bounded, and checked. Pure.

It is a hint and no proof: anybody who may infer can say it of any instance. So a hint only makes
the master look sooner: it sends its own test request to that instance and model. Nothing is ejected
or replaced for a hint. Only when the master's own test requests failed `CONFIRM` times in a row,
while another instance (where there is one) answered the same request well, is it suspected; what
follows then is what follows for any suspect.

A check sends three test requests at most: two to the instance, and one to another. So whoever
reports every instance all the time causes no more than ``3 * MOST_CHECKS_BY_ONE`` of them a minute,
and all callers together ``3 * MOST_CHECKS``; a healthy instance answers the first one well, and its
check is over.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

import attrs

from tarn.domain.command import Demand
from tarn.domain.fleet import Fleet, HintCheck, ToldFailures
from tarn.domain.instance import Instance, State
from tarn.domain.reading import Reading
from tarn.domain.verdicts import CONFIRM, LEAST_SHARE, Suspicion

__all__ = [
    "AGAIN_S",
    "HOLDS_S",
    "MOST_CHECKS",
    "MOST_CHECKS_BY_ONE",
    "MOST_TOLD",
    "MOST_TOLD_BY_ONE",
    "answered_since",
    "check_hints",
    "hear_failures",
    "peers_of",
]

HOLDS_S = 30.0
"""How long a hint counts. A client tries an instance again every five seconds, and tells again."""
MOST_TOLD, MOST_TOLD_BY_ONE = 1000, 300
"""Hints that are kept, the newest; in all, and of one principal."""
AGAIN_S = 60.0
"""An instance is checked for hints at most once in this time, and the bounds below are for it."""
MOST_CHECKS, MOST_CHECKS_BY_ONE = 20, 5
"""Checks that begin within `AGAIN_S`; in all, and for the hints of one principal."""
LASTS_S = 30.0
"""A check that has found nothing by then is over: perhaps no test request can be made."""
FORGET_S = 900.0
"""Until then an instance that was checked comes after those that were not."""


def hear_failures(fleet: Fleet, demand: Demand, principal: str, now_s: float) -> Fleet:
    """Return *fleet* with what *demand* says of models that its instances have."""
    known = {(i.id, name) for i in fleet.instances for name, *_ in i.models}
    new = tuple(
        ToldFailures(demand.source, principal, id_, model, count, now_s)
        for id_, model, count in demand.failures
        if count and (id_, model) in known
    )
    if not new:
        return fleet
    said = {(one.source, one.instance_id, one.model) for one in new}
    mine: list[ToldFailures] = []
    others: list[ToldFailures] = []
    for one in fleet.told_failures:
        if now_s - one.heard_s < HOLDS_S:
            if one.principal != principal:
                others.append(one)
            elif (one.source, one.instance_id, one.model) not in said:
                mine.append(one)
    mine = [*mine, *new][-MOST_TOLD_BY_ONE:]
    return attrs.evolve(fleet, told_failures=(*others, *mine)[-MOST_TOLD:])


def check_hints(
    fleet: Fleet, readings: Mapping[str, Reading], now_s: float, *, doubt: bool
) -> tuple[Fleet, tuple[Suspicion, ...]]:
    """Return *fleet* after the newest test requests for hints, and whom they prove to fail.

    *doubt*: our own tick came much too late, or we could not look: no check begins or ends by it.
    """
    if doubt or not (fleet.told_failures or fleet.hint_checks):
        return fleet, ()
    ready = {i.id: i for i in fleet.of(State.READY)}
    kept = [c for c in fleet.hint_checks if c.instance_id in ready and now_s - c.since_s < FORGET_S]
    after = [c if c.over else _judged(c, fleet, ready, readings, now_s) for c in kept]
    proven = tuple(
        Suspicion(c.instance_id, c.model, _said(c, fleet))
        for before, c in zip(kept, after, strict=True)
        if c.over and not before.over and c.failed >= CONFIRM
        if _other_answers(c, ready.values(), readings) is not False
    )
    checks = _begun(after, fleet, ready, now_s)
    told = tuple(t for t in fleet.told_failures if now_s - t.heard_s < HOLDS_S)
    if checks == fleet.hint_checks and len(told) == len(fleet.told_failures):
        return fleet, proven
    return attrs.evolve(fleet, hint_checks=checks, told_failures=told), proven


def peers_of(instance_id: str, model: str, instances: Iterable[Instance]) -> Iterator[Instance]:
    """Yield the other instances in the view that serve *model*."""
    for instance in instances:
        if instance.in_view and instance.id != instance_id and _serves(instance, model):
            yield instance


def answered_since(reading: Reading | None, check: HintCheck) -> bool:
    """Return whether a test request for the model of *check* was answered, or was not, since."""
    tested = None if reading is None else reading.tested
    return tested is not None and tested.model == check.model and tested.asked_s >= check.since_s


def _judged(
    check: HintCheck,
    fleet: Fleet,
    ready: Mapping[str, Instance],
    readings: Mapping[str, Reading],
    now_s: float,
) -> HintCheck:
    """Return *check* after the newest test request."""
    instance, reading = ready[check.instance_id], readings.get(check.instance_id)
    if now_s - check.since_s >= LASTS_S or not _may_check(instance, check.model, fleet):
        return attrs.evolve(check, over=True, failed=0)
    tested = None if reading is None else reading.tested
    if tested is not None and answered_since(reading, check) and tested.number > check.tests:
        if tested.ok or (tested.late and _completes(check, fleet, tested.asked_s)):
            return attrs.evolve(check, over=True, failed=0, tests=tested.number)
        failed, answer = check.failed + 1, tested.said.partition("\n")[0] or "it failed"
        check = attrs.evolve(check, failed=failed, answer=answer, tests=tested.number)
    if check.failed < CONFIRM:
        return check
    compared = _other_answers(check, ready.values(), readings)
    alone = not any(peers_of(check.instance_id, check.model, ready.values()))
    return attrs.evolve(check, over=True) if alone or compared is not None else check


def _other_answers(
    check: HintCheck, instances: Iterable[Instance], readings: Mapping[str, Reading]
) -> bool | None:
    """Say whether another instance answers the same request well; None: none was asked yet."""
    said = [
        reading.tested.ok
        for peer in peers_of(check.instance_id, check.model, instances)
        if (reading := readings.get(peer.id)) and reading.tested and answered_since(reading, check)
    ]
    return any(said) if said else None


def _completes(check: HintCheck, fleet: Fleet, since_s: float) -> bool:
    """Say whether requests of users were answered well meanwhile, so that it is only busy."""
    looks = fleet.outcomes.looks
    place = max((p for p, look in enumerate(looks[:-1]) if look.at_s <= since_s), default=0)
    grown = fleet.outcomes.since(place, check.instance_id, check.model) if looks else None
    return grown is not None and grown.completed > 0 and grown.share < LEAST_SHARE


def _begun(
    checks: Iterable[HintCheck], fleet: Fleet, ready: Mapping[str, Instance], now_s: float
) -> tuple[HintCheck, ...]:
    """Return *checks* with new ones, as far as the bounds allow; the longest unchecked first."""
    last = {check.instance_id: check for check in checks}
    lately = [check for check in last.values() if now_s - check.since_s < AGAIN_S]
    room, by = MOST_CHECKS - len(lately), Counter(check.principal for check in lately)
    never = float("-inf")
    waiting = sorted(
        (hint for hint in fleet.told_failures if now_s - hint.heard_s < HOLDS_S),
        key=lambda t: last[t.instance_id].since_s if t.instance_id in last else never,
    )
    for hint in waiting:
        if room <= 0 or fleet.ending:
            break
        instance, old = ready.get(hint.instance_id), last.get(hint.instance_id)
        if instance is None or not _may_check(instance, hint.model, fleet):
            continue
        if old is not None and now_s - old.since_s < AGAIN_S:
            continue
        if by[hint.principal] >= MOST_CHECKS_BY_ONE:
            continue
        last.pop(hint.instance_id, None)
        last[hint.instance_id] = HintCheck(hint.instance_id, hint.model, hint.principal, now_s)
        room, by[hint.principal] = room - 1, by[hint.principal] + 1
    return tuple(last.values())


def _may_check(instance: Instance, model: str, fleet: Fleet) -> bool:
    """Say whether a check could tell anything: it serves, and nobody has doubted it yet."""
    alike = any(one.model == model for one in fleet.alike)
    return instance.in_view and not instance.wants_test and not alike and _serves(instance, model)


def _serves(instance: Instance, model: str) -> bool:
    return any(name == model and state == "READY" for name, state, _ in instance.models)


def _said(check: HintCheck, fleet: Fleet) -> str:
    count = sum(
        t.count
        for t in fleet.told_failures
        if (t.instance_id, t.model) == (check.instance_id, check.model)
    )
    told = f"clients told of {count} failures" if count else "clients told of failures"
    return f"model '{check.model}': {told}, and {check.failed} test requests failed: {check.answer}"
