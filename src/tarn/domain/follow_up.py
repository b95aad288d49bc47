"""What followers are told and have acknowledged: the view, and who has left it for good."""

from collections.abc import Mapping

import attrs

from tarn.domain.fleet import Fleet, FollowerState, Rules
from tarn.domain.instance import Instance, State
from tarn.domain.view import Applied, DiscoveryView, Member

__all__ = ["acknowledged", "publish_view", "withdrawals"]


def publish_view(fleet: Fleet) -> Fleet:
    """Return *fleet* with its view brought up to date; the revision moves only with members."""
    members = tuple(_member(i) for i in fleet.instances if i.in_view)
    view, complete = fleet.view, not fleet.unprobed
    if members != view.members:
        view = DiscoveryView(fleet.epoch, view.revision + 1, complete, members)
    elif complete != view.complete:
        view = attrs.evolve(view, complete=complete)
    inside = {m.instance_id for m in members}
    instances = tuple(_left(i, inside, view.revision) for i in fleet.instances)
    if view is fleet.view and all(a is b for a, b in zip(instances, fleet.instances, strict=True)):
        return fleet
    return attrs.evolve(fleet, view=view, instances=instances)


def _member(instance: Instance) -> Member:
    assert instance.endpoint is not None
    container_id = instance.container_id or instance.id
    return Member(instance.id, container_id, instance.endpoint, instance.spec_hash)


def _left(instance: Instance, inside: set[str], revision: int) -> Instance:
    if instance.id in inside:
        if instance.left_revision is None and instance.withdrawn_s is None:
            return instance
        return attrs.evolve(instance, left_revision=None, withdrawn_s=None)
    if instance.state is State.DRAINING and instance.left_revision is None:
        return attrs.evolve(instance, left_revision=revision)
    return instance


def withdrawals(fleet: Fleet, rules: Rules, now_s: float, at: float) -> Fleet:
    """Return *fleet* with the moment noted at which each draining instance had left everywhere.

    A required follower whose lease ran out counts as gone: alert, and twice the quiesce. One that
    never came holds nothing.
    """
    lost = sorted(
        name
        for name in rules.required
        if (f := fleet.followers.get(name)) and f.lease_until_s and f.lease_until_s < now_s
    )
    waiting = [
        f
        for name in rules.required
        if (f := fleet.followers.get(name)) and f.revision >= 0 and name not in lost
    ]
    low = min((f.revision for f in waiting), default=None)
    extra_s = rules.spec.drain.quiesce_s if lost else 0.0
    instances = tuple(_withdrawn(i, low, now_s + extra_s) for i in fleet.instances)
    fleet = fleet.notes(at, [("TARN-1301", name, "its lease ran out") for name in lost])
    if all(a is b for a, b in zip(instances, fleet.instances, strict=True)):
        return fleet
    return attrs.evolve(fleet, instances=instances)


def _withdrawn(instance: Instance, low: int | None, now_s: float) -> Instance:
    if instance.state is not State.DRAINING or instance.withdrawn_s is not None:
        return instance
    left = instance.left_revision
    if left is None or (low is not None and low < left):
        return instance
    return attrs.evolve(instance, withdrawn_s=now_s)


def acknowledged(
    fleet: Fleet, applied: Applied, now_s: float, at: float, *, lease_s: float | None
) -> Fleet:
    """Return *fleet* after a follower's word; another epoch's is heard and counts for nothing."""
    followers: Mapping[str, FollowerState] = fleet.followers
    old = followers.get(applied.name, FollowerState())
    same = applied.epoch == fleet.epoch
    revision = max(old.revision, applied.revision) if same and not applied.error else old.revision
    until_s = None if lease_s is None else now_s + lease_s
    new = FollowerState(revision, now_s, until_s, applied.error)
    fleet = attrs.evolve(fleet, followers={**followers, applied.name: new})
    if old.revision < 0 <= new.revision:
        return fleet.note(at, "TARN-1300", applied.name, "acknowledges views")
    return fleet
