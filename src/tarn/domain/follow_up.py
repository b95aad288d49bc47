"""What followers are told and have acknowledged: the view, and who has left it for good."""

import operator

import attrs

from tarn.domain.fleet import Fleet, FollowerState, Rules
from tarn.domain.instance import Instance, InstanceState
from tarn.domain.view import Applied, DiscoveryView, Member

__all__ = ["acknowledged", "held_until_s", "open_sessions", "publish_view", "withdrawals"]

FORGET_AFTER_S = 300.0
"""A follower that the spec does not name is forgotten this long after its lease ran out. The name
of one that the spec names is kept for its principal as long: drains would trust whoever
took it."""
LONGEST_NUMBER = 12
"""Digits of an instance's number."""


def publish_view(fleet: Fleet) -> Fleet:
    """Return *fleet* with its view brought up to date.

    The revision moves with the members, and when the view becomes complete: an incomplete one
    removes nothing, so its acknowledgement says nothing about who has left. A view that becomes
    incomplete again (an instance was found late) may hide the complete one before it from whoever
    takes only the newest: who had not left everywhere leaves again with the next complete one.
    """
    known = {m.instance_id: m for m in fleet.view.members}
    members = tuple(_member(i, known.get(i.id)) for i in fleet.instances if i.in_view)
    view, complete = fleet.view, not fleet.unprobed
    if members != view.members or complete != view.complete:
        view = DiscoveryView(fleet.epoch, view.revision + 1, complete, members)
    instances = tuple(_left(i, view) for i in fleet.instances)
    if view is fleet.view and all(map(operator.is_, instances, fleet.instances)):
        return fleet
    return attrs.evolve(fleet, view=view, instances=instances)


def _member(instance: Instance, old: Member | None) -> Member:
    """Return *instance* as followers see it: the *old* one where that says the same."""
    assert instance.endpoint is not None
    container_id = instance.container_id or instance.id
    if old is not None and old.endpoint is instance.endpoint and old.container_id == container_id:
        return old
    return Member(instance.id, container_id, instance.endpoint, instance.spec_hash)


def _left(instance: Instance, view: DiscoveryView) -> Instance:
    if instance.state is not InstanceState.DRAINING or instance.withdrawn_s is not None:
        return instance
    if not view.complete and instance.left_revision is not None:
        return attrs.evolve(instance, left_revision=None)
    if view.complete and instance.left_revision is None:
        return attrs.evolve(instance, left_revision=view.revision)
    return instance


def withdrawals(fleet: Fleet, rules: Rules, now_s: float, at: float) -> Fleet:
    """Return *fleet* with the moment noted at which each draining instance had left everywhere.

    A required follower whose lease ran out counts as gone: alert, and twice the quiesce. One that
    never came, to this master or to one before, holds nothing.
    """
    fleet = _lose(fleet, rules, now_s, at)
    came = [f for name, f in fleet.followers.items() if name in rules.required and f.came]
    low = min((f.revision for f in came if not f.lost), default=None)
    extra_s = rules.spec.drain.quiesce_s if any(f.lost for f in came) else 0.0
    instances = tuple(_withdrawn(i, low, now_s + extra_s) for i in fleet.instances)
    if all(map(operator.is_, instances, fleet.instances)):
        return fleet
    return attrs.evolve(fleet, instances=instances)


def _lose(fleet: Fleet, rules: Rules, now_s: float, at: float) -> Fleet:
    """Mark the followers whose lease ran out; a required one is an alert, once.

    One that the spec does not name is forgotten in time: machines come and go with their names.
    """
    fleet = _forget(fleet, rules, now_s)
    over = {
        name: attrs.evolve(f, lost=True)
        for name, f in fleet.followers.items()
        if not f.lost and f.lease_until_s is not None and f.lease_until_s < now_s
    }
    if not over:
        return fleet
    fleet = attrs.evolve(fleet, followers={**fleet.followers, **over})
    required = sorted(over.keys() & rules.required)
    return fleet.notes(at, [("TARN-1301", name, "its lease ran out") for name in required])


def _forget(fleet: Fleet, rules: Rules, now_s: float) -> Fleet:
    over = {
        name
        for name, f in fleet.followers.items()
        if f.lost and f.lease_until_s is not None and f.lease_until_s + FORGET_AFTER_S < now_s
    } - (rules.required | rules.followers)
    if not over:
        return fleet
    kept = {name: f for name, f in fleet.followers.items() if name not in over}
    return attrs.evolve(fleet, followers=kept)


def _withdrawn(instance: Instance, low: int | None, now_s: float) -> Instance:
    if instance.state is not InstanceState.DRAINING or instance.withdrawn_s is not None:
        return instance
    left = instance.left_revision
    if left is None or (low is not None and low < left):
        return instance
    return attrs.evolve(instance, withdrawn_s=now_s)


def open_sessions(instance: Instance, fleet: Fleet) -> tuple[tuple[str, int], ...]:
    """Return (follower, sessions) of those for whom the drain of *instance* must not end yet.

    0 sessions that were counted while the follower might still send to the instance prove nothing:
    its next word is waited for. One whose lease ran out is not waited for.
    """
    return tuple(
        (name, follower.sessions[instance.id])
        for name, follower in sorted(fleet.followers.items())
        if not follower.lost
        and instance.id in follower.sessions
        and (follower.sessions[instance.id] > 0 or not _counted_after(follower, instance))
    )


def _counted_after(follower: FollowerState, instance: Instance) -> bool:
    """Say whether *follower* counted its sessions after it had taken *instance* out."""
    left, withdrawn_s = instance.left_revision, instance.withdrawn_s
    took_out = left is not None and follower.revision >= left
    return took_out or (withdrawn_s is not None and follower.counted_s >= withdrawn_s)


def _of_ours(fleet: Fleet, applied: Applied) -> dict[str, int]:
    if not applied.sessions:
        return {}
    alive = {instance.id for instance in fleet.instances}
    return {
        id_: count
        for id_, count in applied.sessions
        if id_ in alive or (count > 0 and _minted(fleet, id_))
    }


def _minted(fleet: Fleet, id_: str) -> bool:
    """Say whether *id_* is one that this fleet has had: so its length and their number are bounded.

    One that is not known now may still run, and be found late.
    """
    name, _, digits = id_.rpartition("-")
    numbered = digits.isascii() and digits.isdecimal() and len(digits) <= LONGEST_NUMBER
    return name == fleet.name and numbered and int(digits) < fleet.next_number


def held_until_s(fleet: Fleet, name: str, rules: Rules) -> float:
    """Return until when the follower *name* belongs to its principal alone; 0: it does not."""
    known = fleet.followers.get(name)
    if known is None or known.lease_until_s is None or not known.held_by:
        return 0.0
    named = name in rules.required or name in rules.followers
    return known.lease_until_s + (FORGET_AFTER_S if named else 0.0)


def acknowledged(  # noqa: PLR0913 (an acknowledgement, when it came, and whose it is)
    fleet: Fleet,
    applied: Applied,
    now_s: float,
    at: float,
    *,
    lease_s: float | None,
    held_by: str = "",
) -> Fleet:
    """Return *fleet* after a follower's word; another epoch's is heard and counts for nothing.

    Nobody can have applied a view that was never published: such a word counts as the newest. The
    revision counts together with an error too: who left with that view has left, whatever else is
    amiss. Its sessions count whatever else it says: they are open, or not; also those at an
    instance that this master does not know yet: it may be found late, and be drained at once. A
    follower in this process repeats its last message in every tick, so that message tells when
    they were counted.
    """
    old = fleet.followers.get(applied.name, FollowerState())
    # with an error and no view yet, it has done nothing
    counts = applied.epoch == fleet.epoch and (applied.revision > 0 or not applied.error)
    said = min(applied.revision, fleet.view.revision) if counts else -1
    revision = max(old.revision, said)
    until_s = None if lease_s is None else now_s + lease_s
    came = old.came or revision >= 0
    counted_s = now_s if lease_s is not None else now_s - max(0.0, at - applied.at)
    new = FollowerState(
        revision,
        now_s,
        until_s,
        applied.error,
        came=came,
        sessions=_of_ours(fleet, applied),
        counted_s=counted_s,
        held_by=held_by,
    )
    fleet = attrs.evolve(fleet, followers={**fleet.followers, applied.name: new})
    if old.revision < 0 <= revision:
        return fleet.note(at, "TARN-1300", applied.name, "acknowledges views")
    return fleet
