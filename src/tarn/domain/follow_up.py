"""The view that followers get, their acknowledgements, and when an instance has left it."""

import operator

import attrs

from tarn.domain.fleet import Fleet, FollowerState, Rules
from tarn.domain.instance import Instance, InstanceState
from tarn.domain.view import Applied, DiscoveryView, Member

__all__ = [
    "acknowledged",
    "held_until_s",
    "open_sequences",
    "open_sessions",
    "publish_view",
    "withdrawals",
]

# A follower that the spec does not name is forgotten this long after its lease ran out. A name that
# the spec has is reserved for its principal for the same time, since a drain would trust anybody
# who takes it.
FORGET_AFTER_S = 300.0
# Digits of an instance's number; this bounds what a follower can make the master keep.
LONGEST_NUMBER = 12


def publish_view(fleet: Fleet) -> Fleet:
    """Return *fleet* with its view brought up to date.

    The revision rises when the members change, and when the view becomes complete or incomplete.
    """
    # An incomplete view removes nothing, so its acknowledgement does not show that an instance has
    # left. A view becomes incomplete again when an instance is found late. A follower that takes
    # only the newest view may then miss the complete one before it, so an instance that had not
    # left everywhere leaves with the next complete view.
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
    """Return *instance* as a member of the view; *old* if that is still equal."""
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
    """Return *fleet* with the time at which each draining instance had left the view everywhere.

    A required follower whose lease ran out is not waited for; the drain then waits twice the
    quiesce time. A follower that never came, to this master or an earlier one, delays nothing.
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
    """Mark the followers whose lease ran out; a required one is an alert, once."""
    # Those that the spec does not name are forgotten in time: machines and their names change.
    forgotten = {
        name
        for name, f in fleet.followers.items()
        if f.lost and f.lease_until_s is not None and f.lease_until_s + FORGET_AFTER_S < now_s
    } - (rules.required | rules.followers)
    if forgotten:
        kept = {name: f for name, f in fleet.followers.items() if name not in forgotten}
        fleet = attrs.evolve(fleet, followers=kept)
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


def _withdrawn(instance: Instance, low: int | None, now_s: float) -> Instance:
    if instance.state is not InstanceState.DRAINING or instance.withdrawn_s is not None:
        return instance
    left = instance.left_revision
    if left is None or (low is not None and low < left):
        return instance
    return attrs.evolve(instance, withdrawn_s=now_s)


def open_sessions(instance: Instance, fleet: Fleet) -> tuple[tuple[str, int], ...]:
    """Return (follower, sessions) of each follower that the drain of *instance* waits for.

    A follower whose lease ran out is not waited for.
    """
    # 0 sessions prove nothing if the follower counted them while it might still send requests to
    # the instance; then its next message is waited for.
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


def open_sequences(instance: Instance, fleet: Fleet) -> int:
    """Return how many of the `open_sessions` of *instance* are sequences that have not ended."""
    alive = (f for f in fleet.followers.values() if not f.lost)
    return sum(follower.sequences.get(instance.id, 0) for follower in alive)


def _of_ours(fleet: Fleet, counts: tuple[tuple[str, int], ...]) -> dict[str, int]:
    if not counts:
        return {}
    alive = {instance.id for instance in fleet.instances}
    return {
        id_: count for id_, count in counts if id_ in alive or (count > 0 and _minted(fleet, id_))
    }


def _minted(fleet: Fleet, id_: str) -> bool:
    """Say whether this fleet has created the instance id *id_*."""
    # Sessions at an unknown instance are kept too, since it may still run and be found late. This
    # check bounds how many ids a follower can name, and their length.
    name, _, digits = id_.rpartition("-")
    numbered = digits.isascii() and digits.isdecimal() and len(digits) <= LONGEST_NUMBER
    return name == fleet.name and numbered and int(digits) < fleet.next_number


def held_until_s(fleet: Fleet, name: str, rules: Rules) -> float:
    """Return until when the follower *name* is reserved for its principal; 0: it is free."""
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
    """Return *fleet* after a follower's acknowledgement; the revision of another epoch is ignored.

    *lease_s* is None for a follower in this process, *held_by* the principal of any other.
    """
    old = fleet.followers.get(applied.name, FollowerState())
    # The revision counts together with an error too: the instances that left with that view have
    # left. Only with an error and no view yet, the follower has done nothing.
    counts = applied.epoch == fleet.epoch and (applied.revision > 0 or not applied.error)
    # A revision that was never published cannot have been applied: it counts as the newest one.
    said = min(applied.revision, fleet.view.revision) if counts else -1
    revision = max(old.revision, said)
    until_s = None if lease_s is None else now_s + lease_s
    came = old.came or revision >= 0
    # A follower in this process repeats its last message in every tick, so its sessions are as old
    # as that message.
    counted_s = now_s if lease_s is not None else now_s - max(0.0, at - applied.at)
    new = FollowerState(
        revision,
        now_s,
        until_s,
        applied.error,
        came=came,
        sessions=_of_ours(fleet, applied.sessions),
        sequences=_of_ours(fleet, applied.sequences),
        counted_s=counted_s,
        held_by=held_by,
    )
    fleet = attrs.evolve(fleet, followers={**fleet.followers, applied.name: new})
    if old.revision < 0 <= revision:
        return fleet.note(at, "TARN-1300", applied.name, "acknowledges views")
    return fleet
