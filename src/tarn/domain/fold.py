"""Fold what the runtime and the scraper say into the fleet. Whole states: order cannot matter."""

import math
import operator
from collections.abc import Iterator, Mapping
from typing import assert_never

import attrs

from tarn.domain.facts import Asked, Ended, ExitStatus, Fact, Running
from tarn.domain.fleet import Fleet, Rules
from tarn.domain.instance import Instance, State
from tarn.domain.reading import Reading
from tarn.domain.samples import Known, Sample
from tarn.domain.serving import Judge, Models

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
RETRY_DOUBLINGS = 6
"""After these the most is reached; a crowd that fails together makes thousands of strikes."""

Note = tuple[str, str, str]


def fold_facts(fleet: Fleet, facts: tuple[Fact, ...], now_s: float, at: float) -> Fleet:
    """Return *fleet* after the runtime's whole word.

    A running instance that is in no list is a stray of something given up: it is taken in, only
    to be stopped. Ended ones that are unknown are old news.
    """
    by_id = {fact.instance_id: fact for fact in facts}
    notes: list[Note] = []
    before = fleet.instances
    after = [_after_fact(i, by_id.pop(i.id, None), now_s, notes) for i in before]
    strays = [_stray(f, now_s) for f in by_id.values() if isinstance(f, Running)]
    if not strays and all(map(operator.is_, after, before)):
        return fleet
    notes.extend(("TARN-1108", stray.id, stray.reason) for stray in strays)
    everyone = sorted((*after, *strays), key=lambda i: i.id)
    fleet = fleet.with_instances(everyone).notes(at, notes)
    numbers = (i.number + 1 for i in strays)
    fleet = attrs.evolve(fleet, next_number=max((fleet.next_number, *numbers)))
    for instance, was in zip(after, before, strict=True):
        if instance.state is State.FAILED and was.state is not State.DRAINING:
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
        case Running():
            return _running(instance, fact, now_s, notes)
        case Asked(waits_for=waits_for):
            return _asked(instance, waits_for)
        case Ended(exit=status):
            return _over(instance, status, now_s, notes)
        case None:
            return _missing(instance, now_s, notes)
    assert_never(fact)


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
    elif _same_place(instance, fact) and instance.missing_s is None:
        return instance
    return attrs.evolve(
        instance,
        container_id=fact.container_id,
        node=fact.node,
        endpoint=fact.endpoint,
        ranks=fact.ranks,
        missing_s=None,
    )


def _same_place(instance: Instance, fact: Running) -> bool:
    same = instance.endpoint is fact.endpoint or instance.endpoint == fact.endpoint
    return same and instance.container_id == fact.container_id


def _missing(instance: Instance, now_s: float, notes: list[Note]) -> Instance:
    if instance.endpoint is None and not instance.stop_posted:
        return instance  # only asked for: the wish is posted again and again
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
    if instance.untouched:
        return "stopped before it was ready"
    if not isinstance(instance.busy, Known):
        return f"{drained}, requests in flight unknown"
    cut = math.ceil(instance.busy.value)
    return f"{drained}, {cut} cut at drain.timeout" if cut else f"{drained}, 0 cut"


def _after_failure(fleet: Fleet, instance: Instance, now_s: float, at: float) -> Fleet:
    """Count a quick failure, and wait longer after each; five in a row are the end."""
    if instance.ready_s is not None and now_s - instance.ready_s >= QUICK_S:
        return fleet
    strikes = fleet.strikes + 1
    pause_s = min(RETRY_FIRST_S * 2 ** min(fleet.strikes, RETRY_DOUBLINGS), RETRY_MOST_S)
    fleet = attrs.evolve(fleet, strikes=strikes, retry_s=now_s + pause_s)
    if strikes < STRIKES or fleet.halted:
        return fleet
    halted = f"{strikes} instances in a row failed quickly; the last, {instance.id}: "
    fleet = attrs.evolve(fleet, halted=halted + instance.reason)
    return fleet.note(at, "TARN-1112", fleet.name, fleet.halted)


def fold_readings(  # noqa: PLR0913 (what was read, and when)
    fleet: Fleet,
    readings: Mapping[str, Reading],
    rules: Rules,
    now_s: float,
    at: float,
    *,
    late: bool = False,
) -> Fleet:
    """Return *fleet* after the newest readings: who serves, who is busy, who is silent.

    *late*: our own tick came much too late, so nobody is marked for a silence that may be ours.
    """
    doubt = late or fleet.frozen_s is not None
    look = _Look(rules, now_s, doubt)
    before = fleet.instances
    after = tuple(look.after(i, readings[i.id]) if i.id in readings else i for i in before)
    if not all(map(operator.is_, after, before)):
        fleet = attrs.evolve(fleet, instances=after).notes(at, look.notes)
    if fleet.strikes and any(_proven(i, fleet.retry_s, now_s) for i in fleet.of(State.READY)):
        fleet = attrs.evolve(fleet, strikes=0)
    return fleet


def _proven(instance: Instance, retry_s: float, now_s: float) -> bool:
    """Say whether it shows that launching works again: asked for after the last failure, and well.

    Those that served all the while say nothing about new ones.
    """
    fresh = instance.requested_s >= retry_s and not instance.adopted
    return fresh and instance.ready_s is not None and now_s - instance.ready_s >= QUICK_S


class _Look:
    """One look at all readings: what is the same for each, and the notes that it makes."""

    def __init__(self, rules: Rules, now_s: float, doubt: bool) -> None:  # noqa: FBT001 (private)
        self._judge = Judge(rules.spec.models)
        self._unready_after_s = rules.spec.instance.unready_after_s
        self._now_s = now_s
        self._doubt = doubt
        self.notes: list[Note] = []

    def after(self, instance: Instance, reading: Reading) -> Instance:
        """Return *instance* after *reading*, the very same where nothing of use changed."""
        if instance.endpoint is None or instance.stop_posted:
            return instance  # what was read last before the stop is what the receipt tells
        serving, why, models = self._judge(reading)
        silent_s = None if models is not None else self._since(instance)
        changes: dict[str, object] = {}
        if models is not None and models != instance.models:
            self.notes.extend(_newly_unavailable(instance, models))
            changes["models"] = models
        if serving is not instance.serving:
            changes["serving"] = serving
        if silent_s != instance.silent_s:
            changes["silent_s"] = silent_s
        if bool(reading.gone) is not instance.gone:
            changes["gone"] = bool(reading.gone)
        self._add_why(changes, instance, reading.gone, why, silent_s)
        _add_busy(changes, instance, reading)
        return instance.but(**changes) if changes else instance

    def _add_why(
        self,
        changes: dict[str, object],
        instance: Instance,
        gone: str,
        why: str,
        silent_s: float | None,
    ) -> None:
        if instance.state is State.STARTING and why != instance.reason:
            changes["reason"] = why
        elif instance.state is State.READY:
            suspect = self._suspicion(instance, gone, why, silent_s)
            if suspect != instance.suspect:
                changes["suspect"] = suspect

    def _since(self, instance: Instance) -> float:
        return self._now_s if instance.silent_s is None else instance.silent_s

    def _suspicion(self, instance: Instance, gone: str, why: str, silent_s: float | None) -> str:
        """Say why a ready instance must not get traffic; empty when it may.

        Certainty (a closed connection, a model unloaded) counts at once; silence only after
        ``unready_after``, and not while the observer itself is suspect.
        """
        if gone or silent_s is None:
            suspect = gone or why
        elif not self._doubt and self._now_s - silent_s >= self._unready_after_s:
            suspect = f"no answer for {self._unready_after_s:g} s: {why}"
        else:
            suspect = instance.suspect
        if suspect and not instance.suspect:
            self.notes.append(("TARN-1106", instance.id, suspect))
        elif instance.suspect and not suspect:
            self.notes.append(("TARN-1107", instance.id, "answers again"))
        return suspect


def _add_busy(changes: dict[str, object], instance: Instance, reading: Reading) -> None:
    """Add what it is busy with, when that changed; its moment matters to a drain only."""
    busy = reading.busy
    if instance.state is not State.DRAINING and _same_value(busy, instance.busy):
        return
    age_s = busy.age_s if isinstance(busy, Known) else 0.0
    changes["busy"], changes["busy_s"] = busy, reading.taken_s - age_s


def _same_value(one: Sample[float], other: Sample[float]) -> bool:
    if isinstance(one, Known):
        return isinstance(other, Known) and one.value == other.value
    return one == other


def _newly_unavailable(instance: Instance, models: Models) -> Iterator[Note]:
    before = {name for name, state, reason in instance.models if state == "UNAVAILABLE" and reason}
    for name, state, reason in models:
        if state == "UNAVAILABLE" and reason and name not in before:
            yield "TARN-1111", instance.id, f"{name}: {reason.partition(chr(10))[0]}"
