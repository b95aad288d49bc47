"""Decide the next step. Pure: no I/O, no clock, no logging; same input, same plan."""

import enum

import attrs

from tarn.domain.fleet import Fleet, Rules
from tarn.domain.follow_up import open_sessions
from tarn.domain.instance import Instance, InstanceState
from tarn.domain.renewal import leave_at_once
from tarn.domain.replacing import leaver, most
from tarn.domain.symptoms import stalled_after_s
from tarn.domain.victims import surplus

__all__ = ["Plan", "plan"]

STUCK_AFTER_S = 2.0
"""A start that can come to nothing is given up after this long."""


class _Next(enum.Enum):
    WAIT = "wait"
    UNLOAD = "unload"
    STOP = "stop"


@attrs.frozen
class Plan:
    """One step. ``Plan()`` means settled, or waiting for a start, a drain or a back-off."""

    launch: int = 0
    """New instances to ask for."""
    cancel: frozenset[str] = frozenset()
    """Only asked for, and not needed any more."""
    admit: frozenset[str] = frozenset()
    """Serve now: into the view."""
    condemn: tuple[tuple[str, str], ...] = ()
    """(instance id, reason): broken, to be withdrawn, stopped and replaced."""
    replace: tuple[tuple[str, str], ...] = ()
    """(instance id, reason): unwell, to be drained as far as that goes, and replaced."""
    drain: frozenset[str] = frozenset()
    """Out of the view; they finish what they have."""
    retire: frozenset[str] = frozenset()
    """As ``drain``, and for good: a person asked for it, and others serve all that they serve."""
    take_back: frozenset[str] = frozenset()
    """Drains that are needed again."""
    unload: frozenset[str] = frozenset()
    """Withdrawn and quiet as far as can be estimated: Triton shall prove it by unloading."""
    stop: frozenset[str] = frozenset()
    """Withdrawn and quiet, broken, or at the drain limit."""


def plan(fleet: Fleet, rules: Rules, now_s: float) -> Plan:
    """Return the step that brings *fleet* closer to its desired size.

    Level-triggered: a step that failed leaves the fleet as it was, so the next tick plans it again.
    """
    condemn = tuple(
        (i.id, reason) for i in fleet.instances if (reason := _broken(i, fleet, rules, now_s))
    )
    broken = frozenset(id_ for id_, _ in condemn)
    replace = {
        id_: why for id_, why in leave_at_once(fleet, rules, now_s).items() if id_ not in broken
    }
    broken |= replace.keys()
    active = [
        i for i in fleet.instances if i.state is not InstanceState.DRAINING and i.id not in broken
    ]
    retiring = [i for i in active if i.retiring is not None]
    staying = [i for i in active if i.retiring is None]
    missing = fleet.desired - len(staying)
    too_many = surplus(staying, -missing, fleet) if missing < 0 else []
    retire = _retired(fleet, rules, staying, retiring)
    missing = min(missing, most(fleet, rules) - len(active))  # a replacement is one too many
    take_back = _taken_back(fleet, missing) if missing > 0 else frozenset()
    launching = not (fleet.halted or fleet.ending) and now_s >= fleet.retry_s
    going = frozenset(i.id for i in too_many)
    starting = [i for i in active if i.state is InstanceState.STARTING]
    leaving = {
        i.id: _next(i, fleet, rules, now_s)
        for i in fleet.instances
        if i.state is InstanceState.DRAINING and not i.stop_posted and i.id not in take_back
    }
    return Plan(
        launch=max(0, missing - len(take_back)) if launching else 0,
        cancel=frozenset(i.id for i in too_many if i.state is InstanceState.REQUESTED),
        admit=frozenset(i.id for i in starting if i.serving and i.id not in going),
        condemn=condemn,
        replace=tuple(replace.items()),
        drain=frozenset(i.id for i in too_many if i.state is not InstanceState.REQUESTED),
        retire=retire,
        take_back=take_back,
        unload=frozenset(id_ for id_, step in leaving.items() if step is _Next.UNLOAD),
        stop=frozenset(id_ for id_, step in leaving.items() if step is _Next.STOP),
    )


def _retired(
    fleet: Fleet, rules: Rules, staying: list[Instance], retiring: list[Instance]
) -> frozenset[str]:
    """Return those of *retiring* that leave now: no more are kept than the fleet may have."""
    if not retiring:
        return frozenset()
    left = leaver(staying, retiring, fleet.desired)
    kept = [i for i in retiring if i.id != left]
    beyond = min(len(kept), len(kept) + min(len(staying), fleet.desired) - most(fleet, rules))
    forced = surplus(kept, beyond, fleet) if beyond > 0 else []
    return frozenset(filter(None, (left, *(i.id for i in forced))))


def _taken_back(fleet: Fleet, missing: int) -> frozenset[str]:
    returned = [
        i for i in fleet.instances if i.returnable and not any(i.calls.pending(fleet.control))
    ]
    returned.sort(key=_value_of_drain, reverse=True)
    return frozenset(i.id for i in returned[:missing])


def _value_of_drain(instance: Instance) -> tuple[bool, float, str]:
    """Prefer to take back what has not yet left every follower, then the youngest drain."""
    return instance.withdrawn_s is None, instance.since_s, instance.id


def _broken(instance: Instance, fleet: Fleet, rules: Rules, now_s: float) -> str:
    """Say why an instance must be replaced now; empty when it need not."""
    spec = rules.spec.instance
    starting = instance.state is InstanceState.STARTING
    if starting and instance.stuck_s is not None and now_s - instance.stuck_s >= STUCK_AFTER_S:
        return instance.reason
    timed = starting and not instance.serving and not fleet.blind
    if timed and now_s - instance.since_s >= spec.start_timeout_s:
        why = instance.reason or "it never answered"
        return f"not ready {spec.start_timeout_s:g} s after its start: {why}"
    served = instance.state is InstanceState.READY or (starting and instance.adopted)
    if not served or instance.silent_s is None:
        return ""
    if now_s - instance.silent_s < spec.replace_after_s:
        return ""
    if fleet.frozen_s is not None and not instance.gone:
        return ""
    return f"silent for {spec.replace_after_s:g} s: {instance.suspect or 'no answer'}"


def _next(instance: Instance, fleet: Fleet, rules: Rules, now_s: float) -> _Next:
    """Never before the followers' word and the quiesce; then when quiet, broken, or too late.

    Quiet: the instance says so, and no follower has a session open there (what is on its way
    through a load balancer is not in the instance's own numbers yet). One that never was in any
    view has nothing to finish; one that is gone for certain has no session left.
    """
    if instance.untouched:
        return _Next.STOP
    if instance.withdrawn_s is None:
        return _Next.WAIT
    quiesced_s = instance.withdrawn_s + rules.spec.drain.quiesce_s
    if now_s < quiesced_s and not instance.condemned:
        return _Next.WAIT
    late = now_s - instance.since_s >= rules.spec.drain.timeout_s
    if instance.condemned or late or _stands_still(instance, fleet, rules, now_s):
        return _Next.STOP
    if open_sessions(instance, fleet) and not instance.gone:
        return _Next.WAIT
    quiet = instance.quiet and instance.busy_s is not None and instance.busy_s >= quiesced_s
    return _proof(instance, rules, quiet=quiet)


def _stands_still(instance: Instance, fleet: Fleet, rules: Rules, now_s: float) -> bool:
    """Say whether an unwell one drains no further: nothing ended well in it for long enough."""
    if instance.unwell is None or not instance.unwell.severe:
        return False
    moved_s = None if instance.drain is None else instance.drain.moved_s
    since_s = instance.since_s if moved_s is None else max(instance.since_s, moved_s)
    outcomes = fleet.outcomes.newest.get(instance.id, {}).values()
    mean_s = max((one.mean_s or 0.0 for one in outcomes), default=0.0)
    return now_s - since_s >= stalled_after_s(rules.spec.instance.unwell, mean_s)


def _proof(instance: Instance, rules: Rules, *, quiet: bool) -> _Next:
    """Return what follows when nobody sends to it any more: *quiet* is an estimate only.

    Where models may be unloaded, Triton proves it: a model is UNLOADING until its last request
    ended. They are asked to only once the estimate says quiet: a model that calls another one
    fails when that one was unloaded before (seen on 2.51), and until then the drain can be taken
    back. A Triton that refuses is taken at its estimate.
    """
    drain = instance.drain
    provable = rules.spec.models.control == "explicit" and not instance.gone
    if not provable or (drain is not None and drain.refused):
        return _Next.STOP if quiet else _Next.WAIT
    if drain is not None and drain.unload_s is not None:
        return _Next.STOP if drain.proven else _Next.WAIT
    return _Next.UNLOAD if quiet else _Next.WAIT
