"""The guard: when and how far the size follows the policy's wish, the same for every policy.

The size grows to the least wish within ``scaling.up.window``, and shrinks to the greatest wish
within ``scaling.down.window``. Between two changes lies ``scaling.cooldown``. An urgent growth
waits for none of them. During a pause, and while a person has set the size, the wish is for the
present size. A policy without an answer or an opinion keeps the size at once, and after `SILENCE_S`
this counts as a wish for the present size, too.
"""

import enum
import math

import attrs

from tarn.domain.fleet import DemandReport, Fleet, Rules
from tarn.domain.samples import Known, Sample
from tarn.domain.scaling import Decision, Wish

__all__ = [
    "DEMAND_HOLDS_S",
    "SILENCE_S",
    "GuardedSize",
    "Hold",
    "SizeHold",
    "fresh_demand",
    "in_words",
    "judge",
    "kept_by_demand",
    "size",
]

_IN_MINUTES_FROM_S = 600
_IN_HOURS_FROM_S = 7200


class Hold(enum.StrEnum):
    """What holds a size back."""

    END = "end"
    """``down`` was requested: the size stays 0."""
    MANUAL = "manual"
    """A person set the size; the policy's wish does not count."""
    PAUSE = "pause"
    """Scaling is paused."""
    UNKNOWN = "unknown"
    """The policy has no answer, or no opinion: the present size is kept."""
    LIMITS = "limits"
    """The fewest and the most replicas that are allowed."""
    CEILING = "ceiling"
    """The most replicas that a farm grants at present."""
    UP_WINDOW = "up_window"
    """The policy wanted less within ``scaling.up.window``."""
    DOWN_WINDOW = "down_window"
    """The policy wanted more within ``scaling.down.window``."""
    DEMAND = "demand"
    """Requests have waited for the last instance lately."""
    COOLDOWN = "cooldown"
    """The policy changed the size within ``scaling.cooldown``."""


@attrs.frozen
class SizeHold:
    """One reason why the size does not change."""

    by: Hold
    reason: str
    """Text that follows "held back by"."""
    until_s: float | None = None
    """Monotonic second at which it ends if the wish stays; None: it does not end by itself."""

    def said(self, now_s: float) -> str:
        """Return the reason, and the time left."""
        if self.until_s is None:
            return self.reason
        return f"{self.reason}, {in_words(self.until_s - now_s)} left"


def in_words(seconds: float) -> str:
    """Return a duration, rounded up: in seconds up to ten minutes, then in minutes or hours."""
    whole = max(0, math.ceil(seconds))
    if whole < _IN_MINUTES_FROM_S:
        return f"{whole} s"
    if whole < _IN_HOURS_FROM_S:
        return f"{math.ceil(whole / 60)} min"
    return f"{math.ceil(whole / 3600)} h"


DEMAND_HOLDS_S = 10.0
"""For how long a demand counts. A client or load balancer with waiting requests repeats it about
every second, so after this time it has probably none any more."""

SILENCE_S = 10.0
"""For how long a policy may have no opinion before that counts. One failed scrape among a hundred
instances makes a signal unknown; if every such second counted as a wish for the present size, a
large fleet would never shrink."""


@attrs.frozen
class GuardedSize:
    """The guard's answer to a policy's wish at one moment."""

    desired: int
    held: tuple[SizeHold, ...] = ()
    """Why that is not the wanted size; empty when it is."""


def size(fleet: Fleet, rules: Rules, wish: Sample[Wish], now_s: float, at: float) -> Fleet:
    """Return *fleet* with its desired size decided again.

    A person's size wins over the policy, and ``down`` over both; limits and ceiling hold for all.
    An unknown wish keeps the present size. Requests that wait wake a fleet of size 0 regardless of
    the policy and of the cooldown; the instance then stays for ``scaling.down.window``. A wish that
    is held back is not a decision: only changes are noted, with the reason that held back the rest.
    """
    fleet = _heard(fleet, rules, wish, now_s)
    limits = fleet.limits(rules)
    if fleet.ending:
        ends = Decision(at, 0, 0, "down", "the cluster ends", asker=fleet.sized_by)
        return _change(fleet, ends)
    if (manual := fleet.manual) is not None:
        allowed = limits.clamp(manual)
        held_back = "" if manual == allowed else f"the limits allow {allowed}"
        decision = Decision(at, manual, allowed, "scale", f"a person set {manual}", held_back)
        return _change(fleet, attrs.evolve(decision, asker=fleet.sized_by))
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
    """Return the size that *wish* leads to at *now_s* if it stays, and what holds it back.

    The size is within the limits if the present one is, and between the present and the wanted one.
    """
    wanted = fleet.desired if wish.replicas is None else wish.replicas
    limits = fleet.limits(rules)
    allowed = limits.clamp(wanted)
    held: tuple[SizeHold, ...] = ()
    if allowed != wanted:
        by_farm = limits.ceiling is not None and wanted > limits.ceiling
        held = (SizeHold(Hold.CEILING if by_farm else Hold.LIMITS, _bounds(fleet, rules)),)
    desired = allowed
    in_time: tuple[SizeHold, ...] = ()
    if allowed > fleet.desired:
        desired, in_time = _grown(fleet, rules, wish, allowed, now_s)
    elif allowed < fleet.desired:
        desired, in_time = _shrunk(fleet, rules, wanted, allowed, now_s)
    return GuardedSize(desired, (*held, *in_time))


def fresh_demand(fleet: Fleet, now_s: float) -> DemandReport | None:
    """Return the demand that counts at *now_s*; None: no request is known to wait."""
    demand = fleet.demand
    if demand is None or not demand.said or now_s - demand.heard_s >= DEMAND_HOLDS_S:
        return None
    return demand


def kept_by_demand(fleet: Fleet, rules: Rules) -> float | None:
    """Return until when requests that waited keep the last instance; None: none ever waited."""
    if fleet.demand is None:
        return None
    return fleet.demand.heard_s + max(DEMAND_HOLDS_S, rules.spec.scaling.down.window_s)


def _heard(fleet: Fleet, rules: Rules, wish: Sample[Wish], now_s: float) -> Fleet:
    """Return *fleet* with the policy's answer, or its silence, in the lookback."""
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
    """Return *desired*, or the present size if the policy changed it within the cooldown."""
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
    """Return *fleet* with one replica if it has none, may have one, and requests wait."""
    # The signals of a policy cannot change while there is no instance, so it cannot decide this.
    demand = fresh_demand(fleet, now_s)
    allowed = fleet.limits(rules).clamp(1) >= 1 and fleet.pause is None
    if fleet.desired > 0 or demand is None or not allowed:
        return fleet
    reason = f"{demand.said} at {demand.source}"
    return _change(fleet, Decision(at, 1, 1, "demand", reason), "TARN-1204")


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
