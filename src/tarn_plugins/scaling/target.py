"""The scaling policy `target`: straight to the size at which each replica has its share of load."""

import math
from collections.abc import Iterable, Mapping

import attrs
from attrs.validators import ge, gt, optional

from tarn.domain import FleetView, Known, Sample, Unknown, Wish
from tarn.domain.capacity import (
    NOTHING,
    OF_FULL,
    Capacity,
    capacity,
    executed_when_full,
    idle,
    is_nothing,
)
from tarn.domain.counted import replicas, requests_wait
from tarn.domain.samples import finite
from tarn.domain.signals import SIGNALS
from tarn.domain.trend import TREND_S, steady_growth
from tarn.hookspecs import Factory, hookimpl
from tarn.interfaces import MasterContext, ScalingPolicy
from tarn.plain import Within, amount, amount_text

__all__ = ["TargetPolicy", "TargetSettings", "tarn_scaling_policies"]

_NOISE = 1e-9
"""Replicas: what a sum of floats may be off by, and no reason for one replica more."""
_START_S = 30.0
"""A start is taken to last so long until one was seen."""
_MARGIN_S = 10.0
"""From the look at a load to the ask, and from ready to the first request."""
_SMALL_PART = 6
"""Where so many times the ready ones are needed, the others carry what these cannot: each has a
fifth more than its share, about 70 % of what it can."""
_SOON_S = 2.0
"""A next look so far away is waited for: the default interval is a second."""
_CLIMBS = 0.02
"""Of the load, within the lookahead: beyond, a growth that looks ahead is urgent. Ten replicas need
one more in three minutes then; below it is hard to tell from noise, and nothing is in a hurry."""


@attrs.frozen
class TargetSettings:
    """What ``scaling.options`` may hold for ``use: target``."""

    signal: str = "offered_load"
    """What is watched: a signal that is always there, a plugin's, or a metric of Triton."""
    target: float | str = attrs.field(default=10, validator=Within(more_than=0))
    """How much of it each replica should have, in the signal's unit: 10, 20ms, 60%. The default
    leaves six of sixteen slots free, for what comes while an instance starts. Of
    ``offered_load`` never more than three quarters of what a replica executes at once while
    requests wait for it: a target that is too high for a model is put right when that is seen."""
    tolerance: float | str = attrs.field(
        default=0.1, validator=Within("fraction", at_least=0, less_than=1)
    )
    """How far below the target the load of a replica may be before the size changes; of a mean
    also how far beyond. Beyond the target of a sum the size grows; so far beyond it, at once,
    whatever ``scaling.up.window`` and ``scaling.cooldown`` say."""
    lookahead_s: float | None = attrs.field(default=None, validator=optional(ge(0)))
    """A sum that grows steadily is carried so far forward, so that replicas are ready when they
    are needed. Null: as long as the slowest start took (30 s until one was seen) and 10 s, at most
    100 s; 0: not at all."""
    window_s: float = attrs.field(default=0.0, validator=ge(0))
    """The load is the mean over the last so many seconds; 0: the newest sample."""
    panic: float = attrs.field(default=1.5, validator=gt(1))
    """Times the target: a newest load of a replica beyond it is answered at once, whatever
    ``window``, ``scaling.up.window`` and ``scaling.cooldown`` say."""
    sleep_after_s: float | None = attrs.field(default=None, validator=optional(ge(0)))
    """Where `replicas.min` is 0: the last replica is kept until nothing was in flight for so long,
    and ``scaling.down.window`` after that. Null: as long as that window; never longer than samples
    are kept, 300 of them."""
    total: bool | None = None
    """Whether the signal is a sum over the fleet (true) or a mean (false). Null: as it is for a
    signal that is always there; a metric of Triton is a sum, a plugin's signal a mean."""

    def __attrs_post_init__(self) -> None:
        """Refuse a target that the signal cannot reach, or whose unit is not the signal's."""
        given = amount(self.target)
        unit = SIGNALS[self.signal].unit if self.signal in SIGNALS else given.unit
        found = f"target = {self.target if isinstance(self.target, str) else f'{self.target:g}'}"
        if unit == "s" and given.unit != "s":
            raise ValueError(f"{found}: {self.signal} is a duration; write its unit, as in 20ms")
        if unit == "fraction" and (given.unit == "s" or given.value > 1):
            raise ValueError(f"{found}: {self.signal} is a fraction of 1; write 0.6 or 60%")
        if unit not in ("s", "fraction") and given.unit not in ("", unit):
            raise ValueError(f"{found}: {self.signal} is counted; write a bare number, as in 10")

    @property
    def unit(self) -> str:
        """The signal's unit."""
        return SIGNALS[self.signal].unit if self.signal in SIGNALS else amount(self.target).unit

    @property
    def is_total(self) -> bool:
        """Whether the signal grows with the fleet."""
        if self.total is not None:
            return self.total
        if self.signal in SIGNALS:
            return SIGNALS[self.signal].total
        return self.signal.startswith(("nv_", "metric/")) or ":" in self.signal


@attrs.frozen
class TargetPolicy:
    """Wants as many replicas as bring the load of each to the target."""

    settings: TargetSettings
    full: float | None = None
    """Requests that a replica executes when it is full, where that sets the target."""

    def wanted(self, fleet: FleetView) -> Wish:
        """Return the size that fits the load; None while the load is unknown."""
        there = capacity(fleet)
        fitted = self._fitted(fleet, there)
        return fitted.with_instances(fleet, there) if there.ready else fitted.without(fleet)

    def _fitted(self, fleet: FleetView, there: Capacity) -> "TargetPolicy":
        """Return the policy with a target that a replica can bear, as far as that was seen.

        With a target above it requests wait, and what is offered is never seen to grow.
        """
        if self.settings.signal != "offered_load":
            return self
        full = executed_when_full(fleet, there.ready)
        if full is None or full * OF_FULL >= self._target:
            return self
        return TargetPolicy(attrs.evolve(self.settings, target=full * OF_FULL), full)

    def with_instances(self, fleet: FleetView, there: Capacity) -> Wish:
        """Judge by the signal: at least one instance is ready."""
        newest = self._sample(fleet, fleet.latest(self.settings.signal))
        if isinstance(newest, Unknown):
            return Wish(None, f"{self.settings.signal} is unknown: {newest.reason}")
        now = self._replicas(newest.value, fleet, there)
        panics = now / max(1, fleet.desired) > self.settings.panic
        value, over = newest.value, ""
        if self.settings.window_s and not panics:
            mean = fleet.mean(self.settings.signal, self.settings.window_s)
            value = max(0.0, mean.value) if isinstance(mean, Known) else value
            over = f" over the last {amount_text(self.settings.window_s, 's')}"
        ahead_s = self._lookahead_s(there)
        more = self._growth(fleet) * ahead_s
        load = self._told(value, there, over)
        if more:
            soon = amount_text(value + more, self.settings.unit)
            load += f", and {soon} in {amount_text(ahead_s, 's')} if it grows on"
        exact = self._replicas(value + more, fleet, there)
        urgent = panics or more > _CLIMBS * value or self._overflows(exact, fleet)
        if self._half_seen(newest.value, fleet, there):
            return Wish(fleet.desired, f"{load}: the next sample will show all of it")
        buried = self._buried(exact, fleet, there)
        if buried:
            load += f", and {buried:.1f} more while the ready ones are full of waiting requests"
        return self._sized(load, exact + buried, fleet, there, urgent=urgent)

    def _buried(self, exact: float, fleet: FleetView, there: Capacity) -> float:
        """Return how many replicas stand in for ready ones that a jump of the load will bury.

        What arrives until others are ready, beyond what the ready ones can do, waits inside them,
        and they do it first: what comes afterwards needs others in their place. Never more than
        are ready, none while they keep up (so clients that wait for their answers add none), and
        none where they are a small part: the target leaves room for that. No word on urgency: the
        load alone decides it. The guard looks back, so the size stays until the queue is done.
        """
        if self.settings.signal != "offered_load":
            return 0.0
        full = max(
            executed_when_full(fleet, there.ready) or 0.0, self.settings.panic * self._target
        )
        beyond = exact * self._target / full - there.ready
        return max(0.0, min(there.older, beyond, _SMALL_PART * there.older - exact))

    def _half_seen(self, load: float, fleet: FleetView, there: Capacity) -> bool:
        """Say whether a jump of the load fell into the time since the last look.

        Then a part of that time was before it, and the load is greater than it looks: a decision
        now would be followed by a second one. Where looks are far apart nothing waits for them.
        """
        history = fleet.signals.get(self.settings.signal, ())
        if len(history) == 1 or self.settings.window_s:
            return False
        (before_s, before), (now_s, _) = history[-2:]
        if not isinstance(before, Known) or now_s - before_s > _SOON_S:
            return False
        was, is_now = (self._replicas(each, fleet, there) for each in (before.value, load))
        jumped = is_now > was * (1 + amount(self.settings.tolerance).value)
        return jumped and self._overflows(is_now, fleet) and not self._overflows(was, fleet)

    def _overflows(self, exact: float, fleet: FleetView) -> bool:
        """Say whether a sum is beyond the tolerance: the first look at a jump saw a part of it."""
        beyond = exact / max(1, fleet.desired) - 1
        return self.settings.is_total and beyond > amount(self.settings.tolerance).value

    def _lookahead_s(self, there: Capacity) -> float:
        if self.settings.lookahead_s is not None:
            return self.settings.lookahead_s
        return min((there.start_s or _START_S) + _MARGIN_S, TREND_S)

    def _growth(self, fleet: FleetView) -> float:
        """Return the steady growth per second; that of a mean says nothing of the load."""
        if not self.settings.is_total:
            return 0.0
        return steady_growth(fleet.signals.get(self.settings.signal, ()), fleet.now_s)

    def without(self, fleet: FleetView) -> Wish:
        """Judge by the requests that wait for one: where none is ready, nothing else is known."""
        if not fleet.waiting:
            return Wish(None, "no instance is ready, and no request waits for one")
        waits = requests_wait(fleet.waiting)
        need, rule = 1, ""
        if self._counts_requests:
            need = max(1, self._rounded_up(fleet.waiting / self._target))
            rule = f" ({self._rule})"
        if need <= fleet.desired:
            return Wish(fleet.desired, f"{waits}{rule}: {replicas(fleet.desired)} are enough")
        return Wish(need, f"{waits}{rule}: {replicas(need)}", urgent=True)

    def _sample(self, fleet: FleetView, sample: Sample[float]) -> Sample[float]:
        """Return a load that can be reckoned with; nothing asked for is not a load."""
        if isinstance(sample, Unknown) and self.settings.unit == "s" and idle(fleet):
            return Known(0.0)
        sample = finite(sample)
        if isinstance(sample, Unknown):
            return sample
        return Known(sample.value if sample.value > NOTHING else 0.0, sample.age_s)

    def _replicas(self, value: float, fleet: FleetView, there: Capacity) -> float:
        """Return how many replicas, not rounded, bring *value* to the target."""
        if not self.settings.is_total:
            return value * there.ready / self._target
        return (value + (fleet.waiting if self._counts_requests else 0)) / self._target

    def _sized(
        self, load: str, exact: float, fleet: FleetView, there: Capacity, *, urgent: bool
    ) -> Wish:
        need = max(self._rounded_up(exact), self._least(exact, fleet))
        if not self.settings.is_total and there.ready < fleet.desired and need >= there.ready:
            held = self._held(need, fleet, there)
            if held:
                return Wish(fleet.desired, f"{load}: {held}")
        tolerance = amount(self.settings.tolerance).value
        beyond = 0.0 if self.settings.is_total else tolerance
        if fleet.desired and -tolerance - _NOISE <= exact / fleet.desired - 1 <= beyond + _NOISE:
            within = f"within {amount_text(tolerance, 'fraction')} of it"
            return Wish(fleet.desired, f"{load}: {replicas(fleet.desired)}, {within}")
        return Wish(need, f"{load}: {replicas(need)}", urgent=urgent and need > fleet.desired)

    def _held(self, need: int, fleet: FleetView, there: Capacity) -> str:
        """Say why a mean over the ready ones decides nothing yet; empty when it does."""
        if there.coming:
            return f"{replicas(fleet.desired)}, of which {there.coming} still start"
        return f"{replicas(fleet.desired)}, not all ready" if need < fleet.desired else ""

    def _least(self, exact: float, fleet: FleetView) -> int:
        """Return 0 only where the fleet may sleep, and nobody asks for anything."""
        quiet = is_nothing(fleet, "in_flight")
        if self._counts_requests:  # the signal itself would show them
            quiet = quiet or isinstance(fleet.latest("in_flight"), Unknown)
        if exact or not quiet or fleet.waiting or fleet.limits.min:
            return 1
        return 1 if self._asked_lately(fleet) else 0

    def _asked_lately(self, fleet: FleetView) -> bool:
        """Say whether anything was in flight within ``sleep_after``, as far as is remembered."""
        since_s = fleet.now_s - (self.settings.sleep_after_s or 0.0)
        return any(
            isinstance(sample, Known) and sample.value > NOTHING
            for at_s, sample in fleet.signals.get("in_flight", ())
            if at_s > since_s
        )

    def _told(self, value: float, there: Capacity, over: str = "") -> str:
        ready = "" if self.settings.is_total else f", {there.ready} ready"
        told = amount_text(value, self.settings.unit)
        return f"{self.settings.signal} is {told}{over} ({self._rule}{ready})"

    @property
    def _rule(self) -> str:
        each = " a replica" if self.settings.is_total else ""
        full = (
            "" if self.full is None else f", which executes {amount_text(self.full, '')} when full"
        )
        return f"target {amount_text(self._target, self.settings.unit)}{each}{full}"

    @property
    def _target(self) -> float:
        return amount(self.settings.target).value

    @property
    def _counts_requests(self) -> bool:
        return self.settings.unit == "requests" and self.settings.is_total

    @staticmethod
    def _rounded_up(exact: float) -> int:
        return math.ceil(exact - _NOISE)


def _create(settings: TargetSettings, context: MasterContext) -> ScalingPolicy:
    if settings.sleep_after_s is None:
        window_s = context.spec.scaling.down.window_s
        settings = attrs.evolve(settings, sleep_after_s=window_s)
    return TargetPolicy(settings)


def _reads(settings: TargetSettings) -> Iterable[str]:
    return (settings.signal,)


@hookimpl
def tarn_scaling_policies() -> Mapping[str, Factory[ScalingPolicy]]:
    """Offer the policy for fleets whose load comes and goes."""
    summary = "goes straight to the size at which each replica has its share of a signal"
    return {"target": Factory(TargetSettings, _create, summary, reads=_reads)}
