"""How a cluster stands, in one word and in words."""

from tarn.domain.fleet import Fleet, Rules
from tarn.domain.instance import State
from tarn.domain.sizing import fresh_demand
from tarn.domain.status import ClusterState

__all__ = ["standing"]


def standing(fleet: Fleet, rules: Rules, now_s: float) -> tuple[ClusterState, str]:
    """Return the cluster's state, and why; empty when there is nothing to say."""
    ready = len(fleet.view.members)
    if fleet.ending:
        left = len(fleet.instances)
        if not left:
            return ClusterState.STOPPED, ""
        return ClusterState.STOPPING, f"{left} instances still drain or stop"
    if fleet.halted:
        state = ClusterState.DEGRADED if ready else ClusterState.FAILED
        return state, fleet.halted
    if bad := _unavailable(fleet):
        return (ClusterState.DEGRADED if ready else ClusterState.STARTING), bad
    if ready < fleet.desired:
        return _short(fleet, rules, now_s, ready)
    return ClusterState.READY, ""


def _short(fleet: Fleet, rules: Rules, now_s: float, ready: int) -> tuple[ClusterState, str]:
    short_for_s = 0.0 if fleet.short_s is None else now_s - fleet.short_s
    reason = f"{ready} of {fleet.desired} ready{_first_reason(fleet) or _asked_for(fleet, now_s)}"
    if ready and short_for_s >= rules.spec.instance.start_timeout_s:
        return ClusterState.DEGRADED, f"{reason}, for {short_for_s:.0f} s"
    if ready and fleet.settled:
        return ClusterState.READY, reason
    return ClusterState.STARTING, reason


def _first_reason(fleet: Fleet) -> str:
    for instance in fleet.instances:
        why = instance.suspect or instance.reason
        if not instance.in_view and why and instance.state is not State.DRAINING:
            return f"; {instance.id}: {why}"
    return ""


def _asked_for(fleet: Fleet, now_s: float) -> str:
    """Say who is waiting still, where that is why an instance is started."""
    if fresh_demand(fleet, now_s) is None:
        return ""  # the last decision may be days old, and something else be missing
    last = fleet.decisions[-1] if fleet.decisions else None
    return f"; {last.reason}" if last is not None and last.by == "demand" else ""


def _unavailable(fleet: Fleet) -> str:
    for instance in fleet.instances:
        if instance.state not in (State.READY, State.STARTING):
            continue
        for name, state, reason in instance.models:
            if state == "UNAVAILABLE" and reason:
                first = reason.partition("\n")[0]  # the rest is a traceback, for `tarn logs`
                return f"model {name} is unavailable on {instance.id}: {first}"
    return ""
