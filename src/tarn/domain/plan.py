"""Decide the next step, and which instances leave. Pure: the same input gives the same plan."""

import enum
import math
from collections import Counter
from collections.abc import Iterable, Sequence

import attrs

from tarn.domain.fleet import Fleet, Rules
from tarn.domain.follow_up import open_sessions
from tarn.domain.instance import Instance, InstanceState
from tarn.domain.renewal import leave_at_once, leaver, most
from tarn.domain.samples import Known
from tarn.domain.symptoms import stalled_after_s

__all__ = ["Plan", "plan", "surplus"]

# A start that cannot succeed is given up after this long; a model's state may still change.
STUCK_AFTER_S = 2.0


class _Next(enum.Enum):
    WAIT = "wait"
    UNLOAD = "unload"
    STOP = "stop"


@attrs.frozen
class Plan:
    """One step. ``Plan()``: nothing to do, or waiting for a start, a drain or a back-off."""

    launch: int = 0
    """How many new instances to ask for."""
    cancel: frozenset[str] = frozenset()
    """Instances that were only asked for, and are not needed any more."""
    admit: frozenset[str] = frozenset()
    """Instances that serve now, and enter the view."""
    condemn: tuple[tuple[str, str], ...] = ()
    """(instance id, reason) of the broken ones, to be withdrawn, stopped and replaced."""
    replace: tuple[tuple[str, str], ...] = ()
    """(instance id, reason) of the unwell ones, to be drained as far as possible, and replaced."""
    drain: frozenset[str] = frozenset()
    """Instances that leave the view, and finish their requests."""
    retire: frozenset[str] = frozenset()
    """As ``drain``, but they cannot be taken back: others serve all that they serve."""
    take_back: frozenset[str] = frozenset()
    """Draining instances that are needed again."""
    unload: frozenset[str] = frozenset()
    """Instances that are withdrawn, and quiet by estimate: unloading their models proves it."""
    stop: frozenset[str] = frozenset()
    """Instances to stop: withdrawn and quiet, broken, or at the drain limit."""


def plan(fleet: Fleet, rules: Rules, now_s: float) -> Plan:
    """Return the step that brings *fleet* closer to its desired size."""
    # Level-triggered: a step that failed leaves the fleet as it was, so the next tick repeats it.
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
    missing = min(missing, most(fleet, rules) - len(active))  # a replacement is beyond the size
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
    """Return those of *retiring* that leave now, so that the fleet has no more than it may."""
    if not retiring:
        return frozenset()
    left = leaver(staying, retiring, fleet, rules)
    kept = [i for i in retiring if i.id != left]
    beyond = min(len(kept), len(kept) + min(len(staying), fleet.desired) - most(fleet, rules))
    forced = surplus(kept, beyond, fleet) if beyond > 0 else []
    return frozenset(filter(None, (left, *(i.id for i in forced))))


def _taken_back(fleet: Fleet, missing: int) -> frozenset[str]:
    returned = [
        i for i in fleet.instances if i.returnable and not any(i.calls.pending(fleet.control))
    ]
    # First those that some follower still has in its view, then the youngest drains.
    returned.sort(key=lambda i: (i.withdrawn_s is None, i.since_s, i.id), reverse=True)
    return frozenset(i.id for i in returned[:missing])


def _broken(instance: Instance, fleet: Fleet, rules: Rules, now_s: float) -> str:
    """Say why an instance must be replaced now; empty if it need not be."""
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
    if instance.silent_for_s(now_s) < spec.replace_after_s:
        return ""
    if fleet.frozen_s is not None and not instance.gone:
        return ""
    return f"silent for {spec.replace_after_s:g} s: {instance.suspect or 'no answer'}"


def _next(instance: Instance, fleet: Fleet, rules: Rules, now_s: float) -> _Next:
    """Return what follows in the drain of *instance*."""
    # An instance that never was in a view has nothing to finish.
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
    # A request on its way through a load balancer is not in the instance's own numbers yet, so the
    # sessions of followers count too. An instance that is certainly gone has none left.
    if open_sessions(instance, fleet) and not instance.gone:
        return _Next.WAIT
    quiet = instance.quiet and instance.busy_s is not None and instance.busy_s >= quiesced_s
    return _proof(instance, rules, quiet=quiet)


def _stands_still(instance: Instance, fleet: Fleet, rules: Rules, now_s: float) -> bool:
    """Say whether the drain of an unwell instance has stopped: no request has ended well lately."""
    if instance.unwell is None or not instance.unwell.severe:
        return False
    moved_s = None if instance.drain is None else instance.drain.moved_s
    since_s = instance.since_s if moved_s is None else max(instance.since_s, moved_s)
    outcomes = fleet.outcomes.newest.get(instance.id, {}).values()
    mean_s = max((one.mean_s or 0.0 for one in outcomes), default=0.0)
    return now_s - since_s >= stalled_after_s(rules.spec.instance.unwell, mean_s)


def _proof(instance: Instance, rules: Rules, *, quiet: bool) -> _Next:
    """Return what follows for an instance that gets no more requests; *quiet* is an estimate."""
    # If models may be unloaded, Triton proves that nothing executes: a model is UNLOADING until its
    # last request has ended. TARN asks for that only when the estimate says quiet, for two reasons:
    # a model that calls another one fails if that one is unloaded first (seen on 2.51), and the
    # drain can be taken back until then. If Triton refuses, the estimate has to do.
    drain = instance.drain
    provable = rules.spec.models.control == "explicit" and not instance.gone
    if not provable or (drain is not None and drain.refused):
        return _Next.STOP if quiet else _Next.WAIT
    if drain is not None and drain.unload_s is not None:
        return _Next.STOP if drain.proven else _Next.WAIT
    return _Next.UNLOAD if quiet else _Next.WAIT


_RANK = {InstanceState.REQUESTED: 0, InstanceState.STARTING: 1, InstanceState.READY: 2}


def surplus(active: Iterable[Instance], count: int, fleet: Fleet) -> list[Instance]:
    """Return *count* of *active* that are to leave, the least valuable first.

    Unwell ones go first, then those that are not ready (only asked for, then starting), then
    suspect ones, then the least busy. How busy one is, in whole requests, is what Triton says or
    the number of open sessions, whichever is more; unknown counts as most. Among equals, one goes
    from the node that has the most instances, to keep the spread; then the newest.
    """
    sessions: Counter[str] = Counter()
    for follower in fleet.followers.values():
        if not follower.lost:
            sessions.update(follower.sessions)
    cheapest = sorted(active, key=lambda i: (*_cost(i, sessions), -i.number))
    together = _together(cheapest)
    cheapest.sort(key=lambda i: (*_cost(i, sessions), -together[i.id], -i.number))
    return cheapest[:count]


def _cost(instance: Instance, sessions: Counter[str]) -> tuple[int, bool, float]:
    busy = instance.busy
    requests = math.ceil(busy.value) if isinstance(busy, Known) else math.inf
    at_work = max(requests, sessions[instance.id])
    rank = _RANK[instance.state]
    if instance.unwell is not None and instance.unwell.severe and not instance.unwell.for_all:
        rank = -1
    return rank, not instance.suspect, at_work


def _together(cheapest: Sequence[Instance]) -> dict[str, int]:
    """Return how many are on each one's node when all cheaper ones there have left."""
    # Among equals, taking the highest is the same as counting again after each one that leaves.
    left = Counter(instance.node for instance in cheapest)
    together = {}
    for instance in cheapest:
        together[instance.id] = left[instance.node] if instance.node is not None else 0
        left[instance.node] -= 1
    return together
