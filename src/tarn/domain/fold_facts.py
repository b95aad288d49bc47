"""Fold what the runtime says into the fleet. Whole states: order cannot matter."""

import operator
from collections.abc import Mapping
from typing import assert_never

import attrs

from tarn.domain.control_calls import NO_PROGRESS, CallProgress
from tarn.domain.facts import Ended, ExitStatus, Fact, Pending, Running, StubEnded
from tarn.domain.fleet import Fleet
from tarn.domain.instance import Instance, InstanceState
from tarn.domain.receipt import drained, stopped
from tarn.domain.serving import lacks_backends
from tarn.domain.strikes import count_failure

__all__ = ["fold_facts"]

MISSING_AFTER_S = 10.0
"""A runtime that knew an instance and says nothing of it for this long has lost it."""

Note = tuple[str, str, str]
Stubs = Mapping[str, str]
"""Instance id to what is said of its stubs that ended."""


def fold_facts(fleet: Fleet, facts: tuple[Fact, ...], now_s: float, at: float) -> Fleet:
    """Return *fleet* after the runtime's whole word.

    A running instance that is in no list was started by an earlier master and found late: it is
    taken over as at the start. Or it is a stray of something given up here: it is taken in, only
    to be stopped. Ended ones that are unknown are old news.
    """
    by_id = {fact.instance_id: fact for fact in facts if not isinstance(fact, StubEnded)}
    stubs = {fact.instance_id: fact.said for fact in facts if isinstance(fact, StubEnded)}
    notes: list[Note] = []
    before = fleet.instances
    after = [_after_fact(i, by_id.pop(i.id, None), stubs, now_s, notes) for i in before]
    over = {i.id for i in fleet.ended}
    unknown = [f for f in by_id.values() if isinstance(f, Running)]
    strangers = [
        attrs.evolve(_stranger(f, over, stubs, now_s, notes), calls=_calls_of(f.instance_id, fleet))
        for f in unknown
    ]
    if not strangers and all(map(operator.is_, after, before)):
        return fleet
    everyone = sorted((*after, *strangers), key=lambda i: i.id)
    fleet = fleet.with_instances(everyone).notes(at, notes)
    fleet = _joined(fleet, strangers)
    hopeless = {f.instance_id for f in facts if isinstance(f, Ended) and f.exit.permanent}
    for instance, was in zip(after, before, strict=True):
        if instance.state is InstanceState.FAILED and (
            was.state is not InstanceState.DRAINING or _in_vain(was)
        ):
            final = instance.id in hopeless or lacks_backends(was.models)
            fleet = count_failure(fleet, instance, now_s, at, final=final)
    return fleet


def _joined(fleet: Fleet, strangers: list[Instance]) -> Fleet:
    """Return *fleet* with their numbers used up; those found late are still to be probed."""
    if not strangers:
        return fleet
    return attrs.evolve(
        fleet,
        next_number=max((fleet.next_number, *(i.number + 1 for i in strangers))),
        unprobed=fleet.unprobed | {i.id for i in strangers if i.state is InstanceState.STARTING},
    )


def _calls_of(instance_id: str, fleet: Fleet) -> CallProgress:
    """Return which control calls it had under an earlier master; none where none is noted."""
    return fleet.calls_of_absent.get(instance_id, NO_PROGRESS)


def _stranger(
    fact: Running, over: set[str], stubs: Stubs, now_s: float, notes: list[Note]
) -> Instance:
    """Return what becomes of a running instance that is in no list; *over*: given up here."""
    found = Instance(
        fact.instance_id,
        fact.spec_hash,
        InstanceState.STARTING,
        now_s,
        now_s,
        container_id=fact.container_id,
        node=fact.node,
        endpoint=fact.endpoint,
        ranks=fact.ranks,
        started_at=fact.started_at,
        rss_mib=fact.rss_mib,
    )
    if fact.adopted and fact.instance_id not in over:
        notes.append(("TARN-1004", found.id, f"found late: {fact.container_id} on {fact.node}"))
        adopted = _stub_ended(attrs.evolve(found, adopted=True), stubs, notes)
        return _leaving(adopted, fact, now_s, notes)
    reason = "it runs although it is no longer wanted"
    notes.append(("TARN-1108", found.id, reason))
    stray = found.become(InstanceState.DRAINING, now_s, reason)
    return attrs.evolve(stray, condemned=True, withdrawn_s=now_s)


def _after_fact(
    instance: Instance,
    fact: Pending | Running | Ended | None,
    stubs: Stubs,
    now_s: float,
    notes: list[Note],
) -> Instance:
    match fact:
        case Running():
            return _stub_ended(_running(instance, fact, now_s, notes), stubs, notes)
        case Pending(waits_for=waits_for):
            return _asked(instance, waits_for)
        case Ended(exit=status):
            return _over(instance, status, now_s, notes)
        case None:
            return _missing(instance, now_s, notes)
    assert_never(fact)


def _asked(instance: Instance, waits_for: str) -> Instance:
    waiting = instance.state is InstanceState.REQUESTED and instance.reason != waits_for
    if not waiting and instance.missing_s is None:
        return instance
    reason = waits_for if waiting else instance.reason
    return attrs.evolve(instance, reason=reason, missing_s=None)


def _running(instance: Instance, fact: Running, now_s: float, notes: list[Note]) -> Instance:
    if instance.state is InstanceState.REQUESTED:
        instance = instance.become(InstanceState.STARTING, now_s)
        notes.append(("TARN-1101", instance.id, f"started on {fact.node} as {fact.container_id}"))
    elif _same_place(instance, fact) and instance.missing_s is None:
        if fact.rss_mib != instance.rss_mib:
            instance = instance.holding(fact.rss_mib, now_s)
        return _leaving(instance, fact, now_s, notes)
    placed = attrs.evolve(
        instance,
        container_id=fact.container_id,
        node=fact.node,
        endpoint=fact.endpoint,
        ranks=fact.ranks,
        missing_s=None,
        started_at=fact.started_at,
    )
    placed = placed.holding(fact.rss_mib, now_s)
    return _leaving(placed, fact, now_s, notes)


def _leaving(instance: Instance, fact: Running, now_s: float, notes: list[Note]) -> Instance:
    """Evict an instance whose place will be taken; a notice that is taken back changes nothing.

    One that drains already is only kept from coming back.
    """
    if not fact.leaving or instance.evicted or instance.condemned or instance.stop_posted:
        return instance
    if instance.state is InstanceState.DRAINING:
        return attrs.evolve(instance, evicted=True)
    notes.append(("TARN-1113", instance.id, fact.leaving))
    drained = instance.become(
        InstanceState.DRAINING, now_s, f"its place will be taken: {fact.leaving}"
    )
    return attrs.evolve(drained, evicted=True)


def _stub_ended(instance: Instance, stubs: Stubs, notes: list[Note]) -> Instance:
    """Note which of its stubs ended, or that Triton has started them again."""
    said = stubs.get(instance.id, "")
    if said == instance.stub_ended:
        return instance
    again = f"Triton started it again: {instance.stub_ended}"
    notes.append(("TARN-1124", instance.id, said) if said else ("TARN-1134", instance.id, again))
    return attrs.evolve(instance, stub_ended=said)


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
    return _over(instance, ExitStatus("the runtime does not know it any more"), now_s, notes)


def _over(instance: Instance, status: ExitStatus, now_s: float, notes: list[Note]) -> Instance:
    if _in_vain(instance):
        own = f". Its last message: {status.last_error}" if status.last_error else ""
        reason = f"{instance.reason}{own}"
        notes.append(("TARN-1105", instance.id, reason))
        return instance.become(InstanceState.FAILED, now_s, reason)
    if instance.stop_posted or status.expected:
        return _stopped(instance, status, now_s, notes)
    reason = status.reason
    if instance.evicted and instance.reason:  # its place was taken before it was quiet
        reason = f"{reason}, while it drained ({instance.reason})"
    notes.append(("TARN-1105", instance.id, reason))
    return instance.become(InstanceState.FAILED, now_s, reason)


def _stopped(instance: Instance, status: ExitStatus, now_s: float, notes: list[Note]) -> Instance:
    """Return it after its end, with the receipt: as one event, and as its reason."""
    # Triton ends with 0 only when nothing was in flight and no connection open any more; of one
    # that had proved to be empty it tells only that idle connections were cut
    proven = instance.drain is not None and instance.drain.proven
    ended = f"; {status.reason}" if status.code and not proven else ""
    receipt = drained(instance, now_s)
    if not receipt:
        reason = stopped(instance, now_s) + ended
        notes.append(("TARN-1104", instance.id, reason))
        return instance.become(InstanceState.STOPPED, now_s, reason)
    notes.append(("TARN-1114", instance.id, f"drained {instance.id}: {receipt}{ended}"))
    why = f": {instance.reason}" if instance.evicted and instance.reason else ""
    return instance.become(InstanceState.STOPPED, now_s, f"drained: {receipt}{ended}{why}")


def _in_vain(instance: Instance) -> bool:
    """Say whether it was given up before it ever served: a failure, though we stopped it."""
    return instance.condemned and instance.untouched and instance.endpoint is not None
