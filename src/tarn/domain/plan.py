"""Decide the next step. Pure: no I/O, no clock, no logging; same input, same plan."""

import attrs

from tarn.domain.fleet import Fleet, Rules
from tarn.domain.follow_up import open_sessions
from tarn.domain.instance import Instance, State
from tarn.domain.samples import Known

__all__ = ["Plan", "plan"]

STUCK_AFTER_S = 2.0
"""A start that can come to nothing is given up after this long."""

_LEAST_VALUABLE_FIRST = {State.REQUESTED: 0, State.STARTING: 1, State.READY: 2}


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
    drain: frozenset[str] = frozenset()
    """Out of the view; they finish what they have."""
    take_back: frozenset[str] = frozenset()
    """Drains that are needed again."""
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
    active = [i for i in fleet.instances if i.state is not State.DRAINING and i.id not in broken]
    missing = fleet.desired - len(active)
    surplus = sorted(active, key=_value)[:-missing] if missing < 0 else []
    take_back = _taken_back(fleet, missing) if missing > 0 else frozenset()
    launching = not (fleet.halted or fleet.ending) and now_s >= fleet.retry_s
    going = frozenset(i.id for i in surplus)
    staying = [i for i in fleet.instances if i.id not in take_back]
    return Plan(
        launch=max(0, missing - len(take_back)) if launching else 0,
        cancel=frozenset(i.id for i in surplus if i.state is State.REQUESTED),
        admit=frozenset(
            i.id for i in active if i.state is State.STARTING and i.serving and i.id not in going
        ),
        condemn=condemn,
        drain=frozenset(i.id for i in surplus if i.state is not State.REQUESTED),
        take_back=take_back,
        stop=frozenset(i.id for i in staying if _may_stop(i, fleet, rules, now_s)),
    )


def _taken_back(fleet: Fleet, missing: int) -> frozenset[str]:
    returned = [i for i in fleet.instances if i.returnable]
    returned.sort(key=_value_of_drain, reverse=True)
    return frozenset(i.id for i in returned[:missing])


def _value(instance: Instance) -> tuple[int, bool, float, int]:
    """Order by what losing it costs: not serving first, then the least busy; newest first."""
    busy = instance.busy.value if isinstance(instance.busy, Known) else float("inf")
    rank = _LEAST_VALUABLE_FIRST[instance.state]
    return rank, not instance.suspect, busy, -instance.number


def _value_of_drain(instance: Instance) -> tuple[bool, float, str]:
    """Prefer to take back what has not yet left every follower, then the youngest drain."""
    return instance.withdrawn_s is None, instance.since_s, instance.id


def _broken(instance: Instance, fleet: Fleet, rules: Rules, now_s: float) -> str:
    """Say why an instance must be replaced now; empty when it need not."""
    spec = rules.spec.instance
    starting = instance.state is State.STARTING
    if starting and instance.stuck_s is not None and now_s - instance.stuck_s >= STUCK_AFTER_S:
        return instance.reason
    if starting and now_s - instance.since_s >= spec.start_timeout_s:
        why = instance.reason or "it never answered"
        return f"not ready {spec.start_timeout_s:g} s after its start: {why}"
    served = instance.state is State.READY or (starting and instance.adopted)
    if not served or instance.silent_s is None:
        return ""
    if now_s - instance.silent_s < spec.replace_after_s:
        return ""
    if fleet.frozen_s is not None and not instance.gone:
        return ""
    return f"silent for {spec.replace_after_s:g} s: {instance.suspect or 'no answer'}"


def _may_stop(instance: Instance, fleet: Fleet, rules: Rules, now_s: float) -> bool:
    """Never before the followers' word and the quiesce; then when quiet, broken, or too late.

    Quiet: the instance says so, and no follower has a session open there (what is on its way
    through a load balancer is not in the instance's own numbers yet). One that never was in any
    view has nothing to finish; one that is gone for certain has no session left.
    """
    if instance.state is not State.DRAINING or instance.stop_posted:
        return False
    if instance.untouched:
        return True
    if instance.withdrawn_s is None:
        return False
    quiesced_s = instance.withdrawn_s + rules.spec.drain.quiesce_s
    if now_s < quiesced_s and not instance.condemned:
        return False
    if instance.condemned or now_s - instance.since_s >= rules.spec.drain.timeout_s:
        return True
    quiet = instance.quiet and instance.busy_s is not None and instance.busy_s >= quiesced_s
    return quiet and (instance.gone or not open_sessions(instance, fleet))
