"""Check a hint that an instance fails, by test requests of the master. Pure.

A hint is a report of a client, or what a single look at the counters has shown. It is not proof:
any user who may infer can report any instance. So a hint never ejects or replaces an instance. It
only makes the master send test requests to that instance and model. The instance is suspected if
these fail, while another instance (if there is one) answers the same request well. They must fail
`CONFIRM` times in a row after reports of clients, and once if the counters show the same.

A check sends at most three test requests: two to the instance, and one to another. So a client that
reports every instance all the time causes no more than ``3 * MOST_CHECKS_BY_ONE`` of them a minute,
and all clients together ``3 * MOST_CHECKS``. The check of a healthy instance ends with the first
good answer.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

import attrs

from tarn.domain.command import Demand
from tarn.domain.fleet import Fleet, HintCheck, ReportedFailures
from tarn.domain.instance import Instance, InstanceState, Symptom
from tarn.domain.reading import Reading
from tarn.domain.symptoms import LEAST_SHARE
from tarn.domain.verdicts import CONFIRM, Suspicion

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
    "needed",
    "peers_of",
    "told_failures",
]

HOLDS_S = 30.0
"""How long a hint counts. A client tries an instance again, and reports it, every five seconds."""
MOST_TOLD, MOST_TOLD_BY_ONE = 1000, 300
"""The most hints that are kept: of all principals, and of one."""


def hear_failures(fleet: Fleet, demand: Demand, principal: str, now_s: float) -> Fleet:
    """Return *fleet* with the reports in *demand* about models that its instances have."""
    known = {(i.id, name) for i in fleet.instances for name, *_ in i.models}
    new = tuple(
        ReportedFailures(demand.source, principal, id_, model, count, now_s)
        for id_, model, count in demand.failures
        if count and (id_, model) in known
    )
    if not new:
        return fleet
    said = {(one.source, one.instance_id, one.model) for one in new}
    mine: list[ReportedFailures] = []
    others: list[ReportedFailures] = []
    for one in fleet.told_failures:
        if now_s - one.heard_s < HOLDS_S:
            if one.principal != principal:
                others.append(one)
            elif (one.source, one.instance_id, one.model) not in said:
                mine.append(one)
    mine = [*mine, *new][-MOST_TOLD_BY_ONE:]
    return attrs.evolve(fleet, told_failures=(*others, *mine)[-MOST_TOLD:])


def told_failures(fleet: Fleet, now_s: float) -> Mapping[str, int]:
    """Return instance id to the number of bad answers that clients have reported lately."""
    counts: Counter[str] = Counter()
    for one in fleet.told_failures:
        if now_s - one.heard_s < HOLDS_S:
            counts[one.instance_id] += one.count
    return counts


AGAIN_S = 60.0
"""The least time between two checks of an instance, and the time for which the bounds hold."""
MOST_CHECKS, MOST_CHECKS_BY_ONE = 20, 5
"""The most checks that begin within `AGAIN_S`: in all, and for the hints of one principal."""
# A check ends after this time without a result: perhaps no test request can be made.
LASTS_S = 30.0
# For this long, an instance that was checked comes after those that were not.
FORGET_S = 900.0


def check_hints(
    fleet: Fleet, readings: Mapping[str, Reading], now_s: float, *, doubt: bool
) -> tuple[Fleet, tuple[Suspicion, ...]]:
    """Return *fleet* after the newest test requests for hints, and the instances that fail them.

    *doubt*: the tick came much too late, or the master could not look. Then no check begins or
    ends.
    """
    if doubt or not (fleet.told_failures or fleet.hint_checks or fleet.noticed):
        return fleet, ()
    ready = {i.id: i for i in fleet.of(InstanceState.READY)}
    kept = [c for c in fleet.hint_checks if c.instance_id in ready and now_s - c.since_s < FORGET_S]
    after = [c if c.over else _judged(c, fleet, ready, readings, now_s) for c in kept]
    proven = tuple(
        Suspicion(c.instance_id, c.model, _said(c, fleet))
        for before, c in zip(kept, after, strict=True)
        if c.over and not before.over and c.failed >= needed(c)
        if _other_answers(c, ready.values(), readings) is not False
    )
    checks = _begun(after, fleet, ready, now_s)
    told = tuple(t for t in fleet.told_failures if now_s - t.heard_s < HOLDS_S)
    if checks == fleet.hint_checks and len(told) == len(fleet.told_failures):
        return fleet, proven
    return attrs.evolve(fleet, hint_checks=checks, told_failures=told), proven


def needed(check: HintCheck) -> int:
    """Return how many test requests must fail in a row."""
    # What the counters show is as good as one failed test request.
    return 1 if check.noticed else CONFIRM


def peers_of(instance_id: str, model: str, instances: Iterable[Instance]) -> Iterator[Instance]:
    """Yield the other instances in the view that serve *model*."""
    for instance in instances:
        if instance.in_view and instance.id != instance_id and _serves(instance, model):
            yield instance


def answered_since(reading: Reading | None, check: HintCheck) -> bool:
    """Return whether a test request for *check* has a result since the check began."""
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
        failed = check.failed + tested.proven
        check = attrs.evolve(check, failed=failed, answer=tested.error, tests=tested.number)
    if check.failed < needed(check):
        return check
    compared = _other_answers(check, ready.values(), readings)
    alone = not any(peers_of(check.instance_id, check.model, ready.values()))
    return attrs.evolve(check, over=True) if alone or compared is not None else check


def _other_answers(
    check: HintCheck, instances: Iterable[Instance], readings: Mapping[str, Reading]
) -> bool | None:
    """Say whether another instance answers the same request well; None: not asked yet."""
    said = [
        reading.tested.ok
        for peer in peers_of(check.instance_id, check.model, instances)
        if (reading := readings.get(peer.id)) and reading.tested and answered_since(reading, check)
    ]
    return any(said) if said else None


def _completes(check: HintCheck, fleet: Fleet, since_s: float) -> bool:
    """Say whether it answered requests of users well meanwhile, and so is only busy."""
    grown = fleet.outcomes.since_about(since_s, check.instance_id, check.model)
    return grown is not None and grown.completed > 0 and grown.share < LEAST_SHARE


def _begun(
    checks: Iterable[HintCheck], fleet: Fleet, ready: Mapping[str, Instance], now_s: float
) -> tuple[HintCheck, ...]:
    """Return *checks* with new ones, one for each instance."""
    last = {check.instance_id: check for check in checks}
    if fleet.ending:
        return tuple(last.values())
    # In this order, so that what a look has shown is not checked as the report of a client.
    for find in (_for_noticed, _for_told):
        for new in list(find(last, fleet, ready, now_s)):
            last.pop(new.instance_id, None)
            last[new.instance_id] = new
    return tuple(last.values())


def _for_noticed(
    last: Mapping[str, HintCheck], fleet: Fleet, ready: Mapping[str, Instance], now_s: float
) -> Iterator[HintCheck]:
    """Yield a check for each failing instance that a look has just shown."""
    for (id_, symptom), one in sorted(fleet.noticed.items()):
        old = last.get(id_)
        again = old is not None and old.noticed and now_s - old.since_s < LASTS_S
        if (
            symptom == Symptom.FAILING
            and not again
            and _may_check(ready.get(id_), one.model, fleet)
        ):
            yield HintCheck(id_, one.model, "", now_s, noticed=one.said)


def _for_told(
    last: Mapping[str, HintCheck], fleet: Fleet, ready: Mapping[str, Instance], now_s: float
) -> Iterator[HintCheck]:
    """Yield checks for the reports of clients, within the bounds, the longest unchecked first."""
    lately = [c for c in last.values() if not c.noticed and now_s - c.since_s < AGAIN_S]
    room, by = MOST_CHECKS - len(lately), Counter(check.principal for check in lately)
    since_s = {id_: check.since_s for id_, check in last.items()}
    never = float("-inf")
    waiting = [
        hint
        for hint in fleet.told_failures
        if now_s - hint.heard_s < HOLDS_S
        and _may_check(ready.get(hint.instance_id), hint.model, fleet)
    ]
    for hint in sorted(waiting, key=lambda one: since_s.get(one.instance_id, never)):
        if now_s - since_s.get(hint.instance_id, never) < AGAIN_S:
            continue
        if room > 0 and by[hint.principal] < MOST_CHECKS_BY_ONE:
            room, by[hint.principal] = room - 1, by[hint.principal] + 1
            since_s[hint.instance_id] = now_s
            yield HintCheck(hint.instance_id, hint.model, hint.principal, now_s)


def _may_check(instance: Instance | None, model: str, fleet: Fleet) -> bool:
    """Say whether a check is useful: the instance serves *model*, and is not suspected yet."""
    if instance is None or not instance.in_view or instance.wants_test:
        return False
    return _serves(instance, model) and all(one.model != model for one in fleet.alike)


def _serves(instance: Instance, model: str) -> bool:
    return any(name == model and state == "READY" for name, state, _ in instance.models)


def _said(check: HintCheck, fleet: Fleet) -> str:
    if check.noticed:
        return check.noticed
    count = sum(
        t.count
        for t in fleet.told_failures
        if (t.instance_id, t.model) == (check.instance_id, check.model)
    )
    told = f"clients reported {count} failures" if count else "clients reported failures"
    return f"model '{check.model}': {told}, and {check.failed} test requests failed: {check.answer}"
