"""The guard: from what is wanted to what is desired. Limits, a person's word, demand, pause, time.

A policy says what it wants; when and how far the size follows is decided here, the same for every
policy. Growing goes by the least wish of ``scaling.up.window``, shrinking by the greatest one of
``scaling.down.window``; between two changes lies ``scaling.cooldown``. An urgent growth waits for
neither. A pause and a person's size count as a wish for the present size, and so does a policy
without an answer or an opinion: at once it keeps the size, and after `SILENCE_S` it counts.
"""

import attrs

from tarn.domain.fleet import DemandReport, Fleet, Rules
from tarn.domain.samples import Known, Sample
from tarn.domain.scaling import Decision, Wish
from tarn.domain.size_holds import Hold, SizeHold

__all__ = [
    "DEMAND_HOLDS_S",
    "SILENCE_S",
    "GuardedSize",
    "fresh_demand",
    "judge",
    "kept_by_demand",
    "size",
]

DEMAND_HOLDS_S = 10.0
"""Who waits says so about each second; older than this, nobody may be there any more."""

SILENCE_S = 10.0
"""One scrape that failed among a hundred instances makes a signal unknown: were each such second a
wish for the present size, a large fleet would never shrink."""


@attrs.frozen
class GuardedSize:
    """What the guard makes of a policy's wish at one moment."""

    desired: int
    held: tuple[SizeHold, ...] = ()
    """Why that is not what is wanted; empty when it is."""


def size(fleet: Fleet, rules: Rules, wish: Sample[Wish], now_s: float, at: float) -> Fleet:
    """Return *fleet* with its desired size decided again.

    A person's size wins over the policy, ``down`` over both; limits and ceiling hold for all.
    An unknown wish keeps the present size. Requests that wait wake a fleet of size 0 whatever the
    policy says, since nothing that a policy looks at can move there: no cooldown stands in the
    way, and none begins. What they woke stays for the window in which a policy looks back before
    it goes down.

    A wish that is held back is not a decision: only changes are noted, with what held back the
    rest.
    """
    fleet = _heard(fleet, rules, wish, now_s)
    limits = fleet.limits(rules)
    if fleet.ending:
        return _change(fleet, _asked(Decision(at, 0, 0, "down", "the cluster ends"), fleet))
    if fleet.manual is not None:
        decision = _clamped(fleet.manual, limits.clamp(fleet.manual), at, "scale")
        return _change(fleet, _asked(decision, fleet))
    kept = limits.clamp(fleet.desired)
    if kept != fleet.desired:
        return _change(fleet, Decision(at, None, kept, "limits", _bounds(fleet, rules)))
    woken = _woken(fleet, rules, now_s, at)
    counted = fleet.lookback.wish if fleet.lookback.silent_s is None else None
    if woken is not fleet or counted is None:
        return woken
    verdict = judge(fleet, rules, counted, now_s)
    if verdict.desired == fleet.desired:
        return fleet
    by = f"policy {rules.spec.scaling.use}"
    held_back = "; ".join(held.said(now_s) for held in verdict.held)
    decision = Decision(at, counted.replicas, verdict.desired, by, counted.reason, held_back)
    return attrs.evolve(_change(fleet, decision), changed_s=now_s)


def judge(fleet: Fleet, rules: Rules, wish: Wish, now_s: float) -> GuardedSize:
    """Return the size that *wish* leads to at *now_s* if no other comes, and what holds it back.

    The size is always within the limits if the present one is, and between it and the wanted one.
    """
    wanted = fleet.desired if wish.replicas is None else wish.replicas
    allowed = fleet.limits(rules).clamp(wanted)
    held = () if allowed == wanted else (_limited(fleet, rules, wanted),)
    desired = allowed
    in_time: tuple[SizeHold, ...] = ()
    if allowed > fleet.desired:
        desired, in_time = _grown(fleet, rules, wish, allowed, now_s)
    elif allowed < fleet.desired:
        desired, in_time = _shrunk(fleet, rules, wanted, allowed, now_s)
    return GuardedSize(desired, (*held, *in_time))


def fresh_demand(fleet: Fleet, now_s: float) -> DemandReport | None:
    """Return who waits for an instance at *now_s*; None: nobody says so."""
    demand = fleet.demand
    if demand is None or not demand.said or now_s - demand.heard_s >= DEMAND_HOLDS_S:
        return None
    return demand


def kept_by_demand(fleet: Fleet, rules: Rules) -> float | None:
    """Return until when requests that waited keep the last instance; None: nobody ever waited."""
    if fleet.demand is None:
        return None
    return fleet.demand.heard_s + max(DEMAND_HOLDS_S, rules.spec.scaling.down.window_s)


def _heard(fleet: Fleet, rules: Rules, wish: Sample[Wish], now_s: float) -> Fleet:
    """Return *fleet* with the policy's answer in its lookback, or with its silence."""
    counts = fleet.manual is None and fleet.pause is None and not fleet.ending
    known = wish.value if counts and isinstance(wish, Known) else None
    counted = known if known is not None and known.replicas is not None else None
    before, scaling = fleet.lookback, rules.spec.scaling
    since_s = now_s if before.silent_s is None else before.silent_s
    fell_silent = counts and counted is None and before.wish is not None
    if fell_silent and now_s - since_s < SILENCE_S:
        lookback = before.unheard(now_s)
    else:
        windows = (scaling.up.window_s, scaling.down.window_s)
        lookback = before.heard(counted, fleet.desired, now_s, *windows)
    return fleet if lookback is before else attrs.evolve(fleet, lookback=lookback)


def _grown(
    fleet: Fleet, rules: Rules, wish: Wish, allowed: int, now_s: float
) -> tuple[int, tuple[SizeHold, ...]]:
    if wish.urgent:
        return allowed, ()
    window_s = rules.spec.scaling.up.window_s
    least = fleet.lookback.least_since(now_s, window_s, allowed)
    desired = max(least, fleet.desired)
    held: tuple[SizeHold, ...] = ()
    if desired < allowed:
        reason = f"a wish for only {least} in the last {window_s:g} s (scaling.up.window)"
        held = (SizeHold(Hold.UP_WINDOW, reason, fleet.lookback.rises_s(desired, window_s)),)
    return _cooled(fleet, rules, desired, held, now_s)


def _shrunk(
    fleet: Fleet, rules: Rules, wanted: int, allowed: int, now_s: float
) -> tuple[int, tuple[SizeHold, ...]]:
    window_s = rules.spec.scaling.down.window_s
    greatest = fleet.lookback.greatest_since(now_s, window_s, wanted)
    desired = min(max(greatest, allowed), fleet.desired)
    held: tuple[SizeHold, ...] = ()
    demand_s = kept_by_demand(fleet, rules)
    if desired > allowed:
        reason = f"a wish for {greatest} in the last {window_s:g} s (scaling.down.window)"
        held = (SizeHold(Hold.DOWN_WINDOW, reason, fleet.lookback.falls_s(desired, window_s)),)
    elif desired == 0 and demand_s is not None and demand_s > now_s:
        desired = 1
        held = (SizeHold(Hold.DEMAND, "requests that waited for it a short while ago", demand_s),)
    return _cooled(fleet, rules, desired, held, now_s)


def _cooled(
    fleet: Fleet, rules: Rules, desired: int, held: tuple[SizeHold, ...], now_s: float
) -> tuple[int, tuple[SizeHold, ...]]:
    """Return *desired* unless the policy changed the size too lately."""
    cooldown_s = rules.spec.scaling.cooldown_s
    if desired == fleet.desired or fleet.changed_s is None:
        return desired, held
    until_s = fleet.changed_s + cooldown_s
    if until_s <= now_s:
        return desired, held
    reason = f"a change less than {cooldown_s:g} s ago (scaling.cooldown)"
    cooling = SizeHold(Hold.COOLDOWN, reason, until_s)
    return fleet.desired, (*held, cooling)


def _woken(fleet: Fleet, rules: Rules, now_s: float, at: float) -> Fleet:
    """Return *fleet* with one replica where it has none, may have one, and requests wait."""
    demand = fresh_demand(fleet, now_s)
    allowed = fleet.limits(rules).clamp(1) >= 1 and fleet.pause is None
    if fleet.desired > 0 or demand is None or not allowed:
        return fleet
    reason = f"{demand.said} at {demand.source}"
    return _change(fleet, Decision(at, 1, 1, "demand", reason), "TARN-1204")


def _clamped(wanted: int, desired: int, at: float, by: str) -> Decision:
    held_back = "" if wanted == desired else f"the limits allow {desired}"
    return Decision(at, wanted, desired, by, f"a person set {wanted}", held_back)


def _asked(decision: Decision, fleet: Fleet) -> Decision:
    return attrs.evolve(decision, asker=fleet.sized_by)


def _limited(fleet: Fleet, rules: Rules, wanted: int) -> SizeHold:
    limits = fleet.limits(rules)
    by_farm = limits.ceiling is not None and wanted > limits.ceiling
    return SizeHold(Hold.CEILING if by_farm else Hold.LIMITS, _bounds(fleet, rules))


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
    if decision.held_back and decision.wanted is not None:
        message += f" ({decision.wanted} wanted; {decision.held_back})"
    fleet = attrs.evolve(fleet.decided(decision), short_s=None)
    return fleet.note(decision.at, code, fleet.name, message, fleet.decisions[-1].cause)
