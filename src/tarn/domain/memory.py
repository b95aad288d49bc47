"""The part of a fleet that a master saves, and how the next master begins from it."""

from collections.abc import Iterator, Mapping

import attrs

from tarn.domain.control_calls import NO_PROGRESS, CallProgress, WantedCalls
from tarn.domain.counters import CounterSet
from tarn.domain.draining import DrainProgress
from tarn.domain.facts import Recovered, Running
from tarn.domain.fleet import DemandReport, Fleet, FollowerState, Rules
from tarn.domain.instance import Instance, InstanceState
from tarn.domain.scaling import Decision
from tarn.domain.state import SavedState
from tarn.domain.update import FOR_UPDATE, REPLACED_BY_UPDATE
from tarn.domain.view import DiscoveryView, Epoch

__all__ = ["begin", "saved"]

KEEP_DECISIONS = 10
# State is saved up to once a second, perhaps over a network; the file of events keeps more.
KEEP_EVENTS = 100
# Instances that are not found, of which most are gone for ever: this bounds what is kept of them.
KEEP_ABSENT = 200
# A saved back-off is cut to this: the wall clock may have been set meanwhile.
RETRY_MOST_S = 60.0
# A follower of an earlier master that sends nothing for this long has lost its lease.
FOLLOWER_RETURNS_S = 15.0


def saved(fleet: Fleet, past_s: float) -> SavedState:
    """Return the part of *fleet* that the next master needs.

    *past_s* is wall minus monotonic time, taken once, so that the state of an unchanged fleet does
    not change.
    """
    state = SavedState(
        desired=fleet.desired,
        next_number=fleet.next_number,
        spec_revision=fleet.spec_revision,
        view_revision=fleet.view.revision,
        wish_revision=fleet.wish_revision,
        manual=fleet.manual,
        min=fleet.min,
        max=fleet.max,
        pause=fleet.pause,
        update=fleet.update,
        updates=fleet.updates,
        updated=fleet.updated,
        # Before the first update, the files with which the master was started say the same.
        editions=fleet.editions if fleet.updates else (),
        changed_at=0.0 if fleet.changed_s is None else fleet.changed_s + past_s,
        strikes=fleet.strikes,
        retry_at=fleet.retry_s + past_s if fleet.strikes else 0.0,
        halted=fleet.halted,
        halted_by=fleet.halted_by,
        ending=fleet.ending,
        decisions=fleet.decisions[-KEEP_DECISIONS:],
        events=fleet.events[-KEEP_EVENTS:],
        followers=frozenset(name for name, f in fleet.followers.items() if f.came),
        followers_of=tuple(
            sorted((name, f.held_by) for name, f in fleet.followers.items() if f.held_by)
        ),
    )
    return _with_calls(_with_drains(state, fleet, past_s), fleet)


def _with_drains(state: SavedState, fleet: Fleet, past_s: float) -> SavedState:
    """Return *state* with what is known of instances that leave, or soon will."""
    draining = fleet.of(InstanceState.DRAINING)
    others = (i for i in fleet.instances if i.state is not InstanceState.DRAINING)
    retiring = [i for i in others if i.retiring is not None]
    return attrs.evolve(
        state,
        drains=tuple((i.id, i.since_s + past_s, i.reason) for i in draining),
        condemned=frozenset(i.id for i in draining if i.condemned),
        evicted=frozenset(i.id for i in draining if i.evicted),
        retiring={i.id: i.retiring for i in retiring if i.retiring is not None},
        others_then={i.id: i.others_then for i in retiring if i.others_then},
        stops=frozenset(i.id for i in draining if i.stop_posted),
        left=tuple(
            (i.id, i.drain.began.completed, i.drain.began.failed)
            for i in draining
            if i.drain is not None and i.drain.began is not None
        ),
        unloads=frozenset(i.id for i in draining if i.unloading),
    )


def _with_calls(state: SavedState, fleet: Fleet) -> SavedState:
    """Return *state* with the control calls, and which instances had them."""
    return attrs.evolve(
        state,
        call_number=fleet.control.number,
        calls=fleet.control.calls,
        former_calls=fleet.control.former,
        unsettled_calls=fleet.control.unsettled,
        calls_had=tuple(_lacking(fleet)),
        # Before the first call, no instance is named.
        calls_complete=tuple(
            i.id for i in fleet.instances if 0 < fleet.control.number <= i.calls.upto
        ),
    )


def _lacking(fleet: Fleet) -> Iterator[tuple[str, int, int, tuple[int, ...]]]:
    """Yield the progress of each instance that lacks a control call, or may still be found."""
    newest = fleet.control.number
    for i in fleet.instances:
        if i.calls.upto < newest:
            yield i.id, i.calls.born, i.calls.upto, tuple(sorted(i.calls.also))
    if fleet.calls_of_absent:
        here = {i.id for i in fleet.instances}
        for id_, calls in fleet.calls_of_absent.items():
            if id_ not in here:
                yield id_, calls.born, calls.upto, tuple(sorted(calls.also))


def begin(  # noqa: PLR0913 (everything a master knows when it starts)
    epoch: Epoch,
    state: SavedState | None,
    recovered: Recovered,
    rules: Rules,
    *,
    now_s: float,
    at: float,
) -> Fleet:
    """Return the fleet with which a master begins.

    Without a saved state the size is the number of recovered instances, at least ``initial``, and
    within the limits. Times in the future (the wall clock was set back) count as the present.
    """
    state = state or SavedState(desired=_first_size(recovered, rules))
    had = _calls_had(state)
    instances = tuple(
        sorted((_recover(r, state, had, now_s, at) for r in recovered.running), key=lambda i: i.id)
    )
    numbers = (i.number + 1 for i in instances)
    unprobed = frozenset(i.id for i in instances if i.state is InstanceState.STARTING)
    fleet = Fleet(
        rules.spec.name,
        epoch,
        state.desired,
        instances,
        next_number=max((state.next_number, *numbers)),
        spec_revision=state.spec_revision,
        view=DiscoveryView(epoch, state.view_revision, complete=not unprobed),
        wish_revision=state.wish_revision,
        manual=state.manual,
        min=state.min,
        max=state.max,
        pause=state.pause,
        changed_s=_monotonic(state.changed_at, now_s, at) if state.changed_at else None,
        strikes=state.strikes,
        retry_s=now_s + min(max(0.0, state.retry_at - at), RETRY_MOST_S),
        halted=state.halted,
        halted_by=state.halted_by,
        ending=state.ending,
        unprobed=unprobed,
        started_s=now_s,
        served=min(state.desired, sum(i.state is InstanceState.STARTING for i in instances)),
        followers=_expected(state, rules, now_s),
        demand=_demand_before(state, now_s),
        decisions=state.decisions
        or (Decision(at, None, state.desired, "start", "the first size", number=1),),
        events=state.events,
        control=_wanted_calls(state),
        calls_of_absent=_absent(had, instances),
    )
    fleet = _with_update(fleet, state).note(at, "TARN-1002", fleet.name, f"epoch {epoch}")
    return fleet.notes(at, [("TARN-1004", i.id, f"process {i.container_id}") for i in instances])


def _with_update(fleet: Fleet, state: SavedState) -> Fleet:
    """Return *fleet* with its editions, and the update that is on its way."""
    return attrs.evolve(
        fleet,
        update=state.update,
        updates=state.updates,
        updated=state.updated,
        editions=state.editions,
    )


def _absent(
    had: Mapping[str, CallProgress], instances: tuple[Instance, ...]
) -> dict[str, CallProgress]:
    """Return the progress of the newest few of the instances that are not found."""
    ids = sorted(had.keys() - {i.id for i in instances})
    return {id_: had[id_] for id_ in ids[-KEEP_ABSENT:]}


def _wanted_calls(state: SavedState) -> WantedCalls:
    return WantedCalls(state.call_number, state.calls, state.former_calls, state.unsettled_calls)


def _first_size(recovered: Recovered, rules: Rules) -> int:
    replicas = rules.spec.replicas
    initial = replicas.min if replicas.initial is None else replicas.initial
    return min(max(len(recovered.running), initial), replicas.max)


def _demand_before(state: SavedState, now_s: float) -> DemandReport | None:
    """Return the demand that woke the fleet, if that was its last change: it keeps it awake."""
    # When it was last heard is not saved, and a start may take longer than a policy looks back, so
    # it counts as heard now.
    woken = state.decisions and state.decisions[-1].by == "demand"
    return DemandReport("", 0, now_s) if woken else None


def _expected(state: SavedState, rules: Rules, now_s: float) -> dict[str, FollowerState]:
    """Return the followers of an earlier master; each has one lease to come back."""
    # Drains wait for the required ones. Names that the spec has are reserved for their principals,
    # so that nobody else takes one while its follower still looks for this master.
    until_s, held_by = now_s + FOLLOWER_RETURNS_S, dict(state.followers_of)
    waited = state.followers & rules.required
    kept = held_by.keys() & (rules.required | rules.followers)
    return {
        name: FollowerState(
            lease_until_s=until_s, came=name in waited, held_by=held_by.get(name, "")
        )
        for name in sorted(waited | kept)
    }


def _monotonic(stamp: float, now_s: float, at: float) -> float:
    return now_s - max(0.0, at - stamp)


def _recover(
    fact: Running, state: SavedState, had: Mapping[str, CallProgress], now_s: float, at: float
) -> Instance:
    drains = {id_: (since, reason) for id_, since, reason in state.drains}
    since, reason = drains.get(fact.instance_id, (at, ""))
    stopping = fact.instance_id in state.stops
    draining = fact.instance_id in drains or stopping
    # Else it would be one too many next to its replacement, and could leave before that serves.
    updated = (
        state.update is not None
        and fact.spec_hash != state.update.target
        and fact.instance_id in state.retiring
    )
    return Instance(
        fact.instance_id,
        fact.spec_hash,
        InstanceState.DRAINING if draining else InstanceState.STARTING,
        _monotonic(since, now_s, at) if draining else now_s,
        now_s,
        reason,
        container_id=fact.container_id,
        node=fact.node,
        endpoint=fact.endpoint,
        ranks=fact.ranks,
        ready_s=now_s if draining else None,
        condemned=fact.instance_id in state.condemned,
        evicted=fact.instance_id in state.evicted,
        retiring=None if draining else state.retiring.get(fact.instance_id),
        retiring_for=FOR_UPDATE if updated else "",
        retiring_code=REPLACED_BY_UPDATE if updated else "",
        others_then=0 if draining else state.others_then.get(fact.instance_id, 0),
        # its stop was posted, so it had left the view everywhere
        withdrawn_s=now_s if stopping else None,
        stop_posted=stopping,
        drain=_drain(fact.instance_id, state, now_s) if draining and not stopping else None,
        adopted=True,
        calls=had.get(fact.instance_id, NO_PROGRESS),
        started_at=fact.started_at,
    )


def _calls_had(state: SavedState) -> dict[str, CallProgress]:
    """Return the calls that each instance has had; refused ones will be sent once more."""
    all_ = CallProgress(state.call_number, state.call_number)
    return {
        **dict.fromkeys(state.calls_complete, all_),
        **{i: CallProgress(born, upto, frozenset(also)) for i, born, upto, also in state.calls_had},
    }


def _drain(instance_id: str, state: SavedState, now_s: float) -> DrainProgress:
    """Return what is still known of a drain."""
    began = next((CounterSet(*counts) for id_, *counts in state.left if id_ == instance_id), None)
    drain = DrainProgress(began, unseen=began is None, fell=began is None)
    return drain.unload(now_s) if instance_id in state.unloads else drain
