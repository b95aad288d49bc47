"""From what is wanted to what is desired: limits, a person's word, pause, cooldown."""

import attrs

from tarn.domain.fleet import Fleet, Rules
from tarn.domain.samples import Known, Sample
from tarn.domain.scaling import Decision, Wish

__all__ = ["size"]


def size(fleet: Fleet, rules: Rules, wish: Sample[Wish], now_s: float, at: float) -> Fleet:
    """Return *fleet* with its desired size decided again.

    A person's size wins over the policy, ``down`` over both; limits and ceiling hold for all.
    An unknown wish keeps the present size, and says why.
    """
    limits = fleet.limits(rules)
    if fleet.ending:
        return _change(fleet, Decision(at, 0, 0, "down", "the cluster ends"))
    if fleet.manual is not None:
        return _change(fleet, _clamped(fleet.manual, limits.clamp(fleet.manual), at, "scale"))
    kept = limits.clamp(fleet.desired)
    if kept != fleet.desired:
        return _change(fleet, Decision(at, None, kept, "limits", _bounds(fleet, rules)))
    if (
        not isinstance(wish, Known)
        or wish.value.replicas is None
        or _held_back(fleet, rules, now_s)
    ):
        return fleet
    wanted = wish.value.replicas
    by = f"policy {rules.spec.scaling.use}"
    desired = limits.clamp(wanted)
    held_back = "" if desired == wanted else _bounds(fleet, rules)
    decision = Decision(at, wanted, desired, by, wish.value.reason, held_back)
    changed = _change(fleet, decision)
    return fleet if changed is fleet else attrs.evolve(changed, changed_s=now_s)


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


def _change(fleet: Fleet, decision: Decision) -> Fleet:
    if decision.desired == fleet.desired:
        return fleet
    message = f"{fleet.desired} → {decision.desired} by {decision.by}: {decision.reason}"
    fleet = attrs.evolve(fleet.decided(decision), settled=False, short_s=None)
    return fleet.note(decision.at, "TARN-1200", fleet.name, message)
