"""From what is wanted to what is desired: limits, a person's word, demand, pause, cooldown."""

import attrs

from tarn.domain.fleet import Demanded, Fleet, Rules
from tarn.domain.samples import Known, Sample
from tarn.domain.scaling import Decision, Wish

__all__ = ["DEMAND_HOLDS_S", "fresh_demand", "kept_by_demand", "size"]

DEMAND_HOLDS_S = 10.0
"""Who waits says so about each second; older than this, nobody may be there any more."""


def size(fleet: Fleet, rules: Rules, wish: Sample[Wish], now_s: float, at: float) -> Fleet:
    """Return *fleet* with its desired size decided again.

    A person's size wins over the policy, ``down`` over both; limits and ceiling hold for all.
    An unknown wish keeps the present size, and says why. Requests that wait wake a fleet of size 0
    whatever the policy says, since nothing that a policy looks at can move there: no cooldown
    stands in the way, and none begins. What they woke stays for the window in which a policy
    looks back before it goes down.
    """
    limits = fleet.limits(rules)
    if fleet.ending:
        return _change(fleet, Decision(at, 0, 0, "down", "the cluster ends"))
    if fleet.manual is not None:
        return _change(fleet, _clamped(fleet.manual, limits.clamp(fleet.manual), at, "scale"))
    kept = limits.clamp(fleet.desired)
    if kept != fleet.desired:
        return _change(fleet, Decision(at, None, kept, "limits", _bounds(fleet, rules)))
    woken = _woken(fleet, rules, now_s, at)
    if woken is not fleet:
        return woken
    if (
        not isinstance(wish, Known)
        or wish.value.replicas is None
        or _held_back(fleet, rules, now_s)
    ):
        return fleet
    changed = _change(fleet, _by_policy(fleet, rules, wish.value, now_s, at))
    return fleet if changed is fleet else attrs.evolve(changed, changed_s=now_s)


def fresh_demand(fleet: Fleet, now_s: float) -> Demanded | None:
    """Return who waits for an instance at *now_s*; None: nobody says so."""
    demand = fleet.demand
    if demand is None or not demand.waiting or now_s - demand.heard_s >= DEMAND_HOLDS_S:
        return None
    return demand


def kept_by_demand(fleet: Fleet, rules: Rules, now_s: float) -> bool:
    """Say whether requests waited so lately that the last instance stays."""
    if fleet.demand is None:
        return False
    window_s = max(DEMAND_HOLDS_S, rules.spec.scaling.down.window_s)
    return now_s - fleet.demand.heard_s < window_s


def _woken(fleet: Fleet, rules: Rules, now_s: float, at: float) -> Fleet:
    """Return *fleet* with one replica where it has none, may have one, and requests wait."""
    demand = fresh_demand(fleet, now_s)
    allowed = fleet.limits(rules).clamp(1) >= 1 and fleet.pause is None
    if fleet.desired > 0 or demand is None or not allowed:
        return fleet
    requests = "1 request waits" if demand.waiting == 1 else f"{demand.waiting} requests wait"
    reason = f"{requests} at {demand.source}"
    return _change(fleet, Decision(at, 1, 1, "demand", reason), "TARN-1204")


def _by_policy(fleet: Fleet, rules: Rules, wish: Wish, now_s: float, at: float) -> Decision:
    wanted = wish.replicas or 0
    desired = fleet.limits(rules).clamp(wanted)
    held_back = "" if desired == wanted else _bounds(fleet, rules)
    if desired == 0 < fleet.desired and kept_by_demand(fleet, rules, now_s):
        desired, held_back = 1, "requests waited for it a short while ago"
    return Decision(at, wanted, desired, f"policy {rules.spec.scaling.use}", wish.reason, held_back)


def _held_back(fleet: Fleet, rules: Rules, now_s: float) -> bool:
    cooling = (
        fleet.changed_s is not None and now_s - fleet.changed_s < rules.spec.scaling.cooldown_s
    )
    return fleet.pause is not None or cooling


def _clamped(wanted: int, desired: int, at: float, by: str) -> Decision:
    held_back = "" if wanted == desired else f"the limits allow {desired}"
    return Decision(at, wanted, desired, by, f"a person set {wanted}", held_back)


def _bounds(fleet: Fleet, rules: Rules) -> str:
    limits = fleet.limits(rules)
    text = f"limits {limits.min} to {limits.max}"
    if limits.ceiling is not None:
        text += f", ceiling {limits.ceiling} ({limits.ceiling_reason})"
    return text


def _change(fleet: Fleet, decision: Decision, code: str = "TARN-1200") -> Fleet:
    if decision.desired == fleet.desired:
        return fleet
    message = f"{fleet.desired} → {decision.desired} by {decision.by}: {decision.reason}"
    fleet = attrs.evolve(fleet.decided(decision), settled=False, short_s=None)
    return fleet.note(decision.at, code, fleet.name, message)
