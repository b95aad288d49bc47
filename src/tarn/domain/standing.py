"""How a cluster stands, in one word and in words.

``docs/reference/states.md`` has the table of it for people; this is the one place that decides.
"""

from tarn.domain.fleet import Fleet, Rules
from tarn.domain.instance import InstanceState
from tarn.domain.mixed import mixture
from tarn.domain.reading import NOT_LOADED
from tarn.domain.replacing import lacks
from tarn.domain.sizing import fresh_demand
from tarn.domain.status import ClusterState

__all__ = ["standing"]


def standing(fleet: Fleet, rules: Rules, now_s: float) -> tuple[ClusterState, str]:
    """Return the cluster's state, and why; empty when there is nothing to say.

    Degraded is one that serves less than it did or should: a model, or an instance. One that grows
    serves what it did, and is ready.
    """
    ready = len(fleet.view.members)
    if fleet.ending:
        left = len(fleet.instances)
        over = ClusterState.STOPPING if left else ClusterState.STOPPED
        return over, f"{left} instances still drain or stop" if left else ""
    if fleet.halted:
        state = ClusterState.DEGRADED if ready else ClusterState.FAILED
        return state, fleet.halted
    if bad := _unavailable(fleet):
        return (ClusterState.DEGRADED if ready else ClusterState.STARTING), bad
    if held := _held(fleet) or _missing(fleet, now_s):
        return ClusterState.DEGRADED, held
    if ready < fleet.desired:
        return _short(fleet, rules, now_s, ready)
    return ClusterState.READY, ""


def _short(fleet: Fleet, rules: Rules, now_s: float, ready: int) -> tuple[ClusterState, str]:
    short_for_s = 0.0 if fleet.short_s is None else now_s - fleet.short_s
    why = _first_reason(fleet) or _asked_for(fleet, now_s)
    reason = f"{ready} of {fleet.desired} ready"
    if fleet.strikes and ready:
        return ClusterState.DEGRADED, reason + (_last_failure(fleet) or why)
    reason += why
    if ready < fleet.served and not fleet.unprobed:
        return ClusterState.DEGRADED, reason
    if ready and short_for_s >= rules.spec.instance.start_timeout_s:
        return ClusterState.DEGRADED, f"{reason}, for {short_for_s:.0f} s"
    return (ClusterState.READY if ready else ClusterState.STARTING), reason


def _held(fleet: Fleet) -> str:
    """Say why an instance that a person wants gone is kept, where no replacement is on its way."""
    retiring = [i for i in fleet.of(InstanceState.READY) if i.retiring is not None]
    if not retiring:
        return ""
    staying = [
        i for i in fleet.instances if i.retiring is None and i.state is not InstanceState.DRAINING
    ]
    kept = f"{retiring[0].id} is kept although its drain was requested"
    if fleet.strikes:
        return kept + _last_failure(fleet)
    if sum(i.in_view for i in staying) < fleet.desired:
        return ""
    why = lacks(retiring[0], fleet.instances, fleet.desired)
    return f"{kept}: {why}" if why else ""


def _missing(fleet: Fleet, now_s: float) -> str:
    mixed = mixture(fleet, now_s)
    return mixed.said if mixed is not None and mixed.missing else ""


def _last_failure(fleet: Fleet) -> str:
    failed = [i for i in fleet.ended if i.state is InstanceState.FAILED]
    return f"; {failed[-1].id} failed: {_line(failed[-1].reason)}" if failed else ""


def _first_reason(fleet: Fleet) -> str:
    for instance in fleet.instances:
        why = instance.out_for or instance.reason
        if not instance.in_view and why and instance.state is not InstanceState.DRAINING:
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
        if instance.state not in (InstanceState.READY, InstanceState.STARTING):
            continue
        for name, state, reason in instance.models:
            if state == "UNAVAILABLE" and reason and reason != NOT_LOADED:
                return f"model {name} is unavailable on {instance.id}: {_line(reason)}"
    return ""


def _line(reason: str) -> str:
    """Return the first line: the rest is a traceback, for `tarn logs`."""
    return reason.partition("\n")[0]
