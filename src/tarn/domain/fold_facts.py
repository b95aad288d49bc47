"""Fold the runtime's facts into the fleet. Each fact is a whole state, so order does not matter.

An instance that ended gets a receipt: how many requests its drain finished, lost and cut.
"""

import operator
from collections.abc import Mapping
from typing import assert_never

import attrs

from tarn.domain.control_calls import NO_PROGRESS
from tarn.domain.draining import DrainProgress
from tarn.domain.facts import Ended, ExitStatus, Fact, Pending, Running, StubEnded
from tarn.domain.fleet import Fleet
from tarn.domain.instance import Instance, InstanceState
from tarn.domain.samples import Unknown
from tarn.domain.serving import lacks_backends
from tarn.domain.strikes import count_failure

__all__ = ["drained", "fold_facts", "stopped"]

# An instance that the runtime does not mention for this long counts as lost.
MISSING_AFTER_S = 10.0

Note = tuple[str, str, str]
# Instance id to which of its Python models' processes ended.
Stubs = Mapping[str, str]


def fold_facts(fleet: Fleet, facts: tuple[Fact, ...], now_s: float, at: float) -> Fleet:
    """Return *fleet* after all *facts* of the runtime.

    An unknown running instance of an earlier master is taken over, as at the start. One that this
    master has given up is taken in only to be stopped. Unknown ended instances are ignored.
    """
    by_id = {fact.instance_id: fact for fact in facts if not isinstance(fact, StubEnded)}
    stubs = {fact.instance_id: fact.said for fact in facts if isinstance(fact, StubEnded)}
    notes: list[Note] = []
    before = fleet.instances
    after = [_after_fact(i, by_id.pop(i.id, None), stubs, now_s, notes) for i in before]
    over = {i.id for i in fleet.ended}
    unknown = [f for f in by_id.values() if isinstance(f, Running)]
    strangers = [
        attrs.evolve(
            _stranger(f, over, stubs, now_s, notes),
            calls=fleet.calls_of_absent.get(f.instance_id, NO_PROGRESS),
        )
        for f in unknown
    ]
    if not strangers and all(map(operator.is_, after, before)):
        return fleet
    everyone = sorted((*after, *strangers), key=lambda i: i.id)
    fleet = fleet.with_instances(everyone).notes(at, notes)
    if strangers:  # their numbers are used up, and those found late are still to be probed
        fleet = attrs.evolve(
            fleet,
            next_number=max((fleet.next_number, *(i.number + 1 for i in strangers))),
            unprobed=fleet.unprobed
            | {i.id for i in strangers if i.state is InstanceState.STARTING},
        )
    hopeless = {f.instance_id for f in facts if isinstance(f, Ended) and f.exit.permanent}
    for instance, was in zip(after, before, strict=True):
        if instance.state is InstanceState.FAILED and (
            was.state is not InstanceState.DRAINING or _in_vain(was)
        ):
            final = instance.id in hopeless or lacks_backends(was.models)
            fleet = count_failure(fleet, instance, now_s, at, final=final)
    return fleet


def _stranger(
    fact: Running, over: set[str], stubs: Stubs, now_s: float, notes: list[Note]
) -> Instance:
    """Return an instance for *fact*, whose id is unknown; *over* are those given up here."""
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
            waiting = instance.state is InstanceState.REQUESTED and instance.reason != waits_for
            if not waiting and instance.missing_s is None:
                return instance
            reason = waits_for if waiting else instance.reason
            return attrs.evolve(instance, reason=reason, missing_s=None)
        case Ended(exit=status):
            return _over(instance, status, now_s, notes)
        case None:
            return _missing(instance, now_s, notes)
    assert_never(fact)


def _running(instance: Instance, fact: Running, now_s: float, notes: list[Note]) -> Instance:
    # Endpoints are mostly the same object from one fact to the next, and then need no comparison.
    same_place = instance.container_id == fact.container_id and (
        instance.endpoint is fact.endpoint or instance.endpoint == fact.endpoint
    )
    if instance.state is InstanceState.REQUESTED:
        instance = instance.become(InstanceState.STARTING, now_s)
        notes.append(("TARN-1101", instance.id, f"started on {fact.node} as {fact.container_id}"))
    elif same_place and instance.missing_s is None:
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
    """Evict an instance whose place will be taken away; one that drains may not return."""
    # A runtime that takes its notice back changes nothing: the drain goes on.
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
    """Note which process of a Python model ended, or that Triton started it again."""
    said = stubs.get(instance.id, "")
    if said == instance.stub_ended:
        return instance
    again = f"Triton started it again: {instance.stub_ended}"
    notes.append(("TARN-1124", instance.id, said) if said else ("TARN-1134", instance.id, again))
    return attrs.evolve(instance, stub_ended=said)


def _missing(instance: Instance, now_s: float, notes: list[Note]) -> Instance:
    if instance.endpoint is None and not instance.stop_posted:
        return instance  # only asked for, and the wish is posted again and again
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
        return instance.become(InstanceState.FAILED, now_s, reason, blamed=instance.blamed)
    if instance.stop_posted or status.expected:
        return _stopped(instance, status, now_s, notes)
    reason = status.reason
    if instance.evicted and instance.reason:  # its place was taken before it was quiet
        reason = f"{reason}, while it drained ({instance.reason})"
    notes.append(("TARN-1105", instance.id, reason))
    return instance.become(InstanceState.FAILED, now_s, reason)


def _stopped(instance: Instance, status: ExitStatus, now_s: float, notes: list[Note]) -> Instance:
    """Return the ended instance, with its receipt as an event and as its reason."""
    # Triton exits with 0 only if no request was in flight and no connection was open. When it has
    # proved that nothing executes, another code only means that it cut idle connections.
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
    """Say whether it was given up before it ever served, which is a failure."""
    return instance.condemned and instance.untouched and instance.endpoint is not None


# Followers that a receipt names; every client may be one.
NAMED = 5


def drained(instance: Instance, now_s: float) -> str:
    """Return the receipt of a drain, without the instance's name; empty if it was not a drain.

    It was not if the instance never served, or was stopped because it was broken. For example
    ``12 requests in 3.1 s, 0 lost, 0 cut; haproxy@lb1 acknowledged 3.88``, where 3 is the attempt
    of the master's epoch and 88 the revision of the view. Unknown numbers are shown as unknown.
    """
    served = instance.endpoint is not None and not instance.untouched
    if instance.state is not InstanceState.DRAINING or instance.condemned or not served:
        return ""
    lasted = f"in {now_s - instance.since_s:.1f} s"
    drain = instance.drain
    if drain is None:
        return f"requests unknown {lasted}, lost unknown, cut unknown"
    parts = [_counts(drain, lasted), *_followers(drain)]
    if drain.refused:
        assert isinstance(drain.unloaded, Unknown)
        parts.append(f"it is an estimate that nothing executed: {drain.refused}")
    return "; ".join(parts)


def stopped(instance: Instance, now_s: float) -> str:
    """Return the receipt of a stop that was not a drain."""
    if instance.endpoint is None:
        return "cancelled before it started"
    why = f": {instance.reason}" if instance.reason else ""
    if instance.untouched and not instance.condemned:
        return f"stopped before it was ready{why if instance.evicted else ''}"
    return f"stopped after {now_s - instance.since_s:.1f} s{why}"


def _counts(drain: DrainProgress, lasted: str) -> str:
    """Return the requests that ended, were lost and were cut."""
    ended, lost, cut = "requests unknown", "lost unknown", "cut unknown"
    if drain.began is not None:
        # A Triton without models has no counters to read, and nothing is left to count.
        least = "at least " if drain.unseen and not drain.proven else ""
        count = round(drain.succeeded + drain.failed)
        ended = f"{least}{count} request{'' if count == 1 else 's'}"
        lost = f"{least}{round(drain.failed)} lost"
    if drain.cut is not None:
        least = "at least " if drain.more_cut else ""
        cut = f"{least}{drain.cut} cut" + (" at drain.timeout" if drain.cut else "")
        if drain.sequences_cut:
            cut += f" ({drain.sequences_cut} of them sequences)"
    return f"{ended} {lasted}, {lost}, {cut}"


def _followers(drain: DrainProgress) -> list[str]:
    said = [f"{name} acknowledged {revision}" for name, revision in drain.acknowledged]
    if len(said) > NAMED:
        said = [*said[:NAMED], f"{len(said) - NAMED} more did"]
    lost = [f"the lease of {name} had run out" for name in drain.parted]
    return [", ".join((*said, *lost))] if said or lost else []
