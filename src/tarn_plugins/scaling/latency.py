"""The scaling policy `latency`: keeps the time that requests take near an objective.

A time tells that a fleet is too small, but not by how much: it hardly changes until the replicas
are full, and then has no bound. If replicas were full lately, what they executed then tells the
size; otherwise one step at most doubles the fleet. The next step waits until the instances of the
last one serve. To shrink, the policy tries one replica fewer, and remembers which size was too
small.
"""

import math
from collections.abc import Iterable, Mapping

import attrs
from attrs.validators import ge, gt

from tarn.domain import FleetView, Known, Unknown, Wish
from tarn.domain.counted import callers_wait, replicas, requests_wait
from tarn.domain.samples import finite
from tarn.domain.scaling import (
    OF_FULL,
    Capacity,
    capacity,
    executed_when_full,
    idle,
    load_of_callers,
)
from tarn.domain.signals import SIGNALS
from tarn.hookspecs import Factory, hookimpl
from tarn.interfaces import MasterContext, ScalingPolicy
from tarn.plain import Within, amount, amount_text

__all__ = ["LatencyPolicy", "LatencySettings", "tarn_scaling_policies"]

_MOST_GROWTH = 2.0  # times the present size, in one step without a measurement
_PANIC = 2.0  # times the objective: beyond it a growth is urgent
_DURATIONS = tuple(name for name, meaning in SIGNALS.items() if meaning.unit == "s")


@attrs.frozen
class LatencySettings:
    """The settings in ``scaling.options`` for ``use: latency``."""

    signal: str = "queue_time"
    """A duration: ``queue_time``, ``request_time``, or a plugin's, such as ``latency_p95``."""
    objective_s: float = attrs.field(default=0.05, validator=gt(0))
    """The longest time that is wanted."""
    tolerance: float | str = attrs.field(
        default=0.1, validator=Within("fraction", at_least=0, less_than=1)
    )
    """How far the time may exceed the objective before the fleet grows."""
    low: float | str = attrs.field(
        default=0.5, validator=Within("fraction", at_least=0, less_than=1)
    )
    """The part of the objective below which one replica fewer is tried."""
    window_s: float = attrs.field(default=10.0, validator=ge(0))
    """Seconds over which the time is averaged; 0: the newest sample."""
    remember_s: float = attrs.field(default=1800.0, validator=ge(0))
    """Seconds for which a size that was too small is not tried again, unless the fleet is idle."""

    def __attrs_post_init__(self) -> None:
        """Refuse a signal that is known not to be a duration."""
        if self.signal in SIGNALS and self.signal not in _DURATIONS:
            raise ValueError(
                f"signal = '{self.signal}' is not a duration; use {', '.join(_DURATIONS)} or "
                "latency_p95; for other signals there is 'use: target'"
            )


@attrs.frozen
class LatencyPolicy:
    """Wants more while requests take too long, and one fewer while they take much less."""

    settings: LatencySettings

    def wanted(self, fleet: FleetView) -> Wish:
        """Return the size by the objective; no opinion while the time is unknown."""
        there = capacity(fleet)
        if not there.ready:
            return _without_instances(fleet)
        if idle(fleet):
            size = 0 if fleet.limits.min == 0 else 1
            return Wish(size, f"no request waits, executes or ended: {replicas(size)}")
        sample = finite(fleet.mean(self.settings.signal, self.settings.window_s))
        if isinstance(sample, Unknown):
            return Wish(None, f"{self.settings.signal} is unknown: {sample.reason}")
        objective_s = self.settings.objective_s
        times = sample.value / objective_s
        shown = f"{amount_text(sample.value, 's')} (objective {amount_text(objective_s, 's')})"
        told = f"{self.settings.signal} is {shown}"
        if times > 1 + amount(self.settings.tolerance).value:
            return _more(told, times, fleet, there)
        if times < amount(self.settings.low).value:
            return self._fewer(told, fleet)
        return Wish(fleet.desired, f"{told}: {replicas(fleet.desired)}")

    def _fewer(self, told: str, fleet: FleetView) -> Wish:
        size = max(1, fleet.desired - 1)
        if size < fleet.desired and size <= self._too_small(fleet):
            minutes = f"{self.settings.remember_s / 60:g} min"
            why = f"{replicas(size)} proved too few in the last {minutes}"
            return Wish(fleet.desired, f"{told}: {replicas(fleet.desired)}, since {why}")
        below = f"below {amount_text(amount(self.settings.low).value, 'fraction')} of it"
        return Wish(size, f"{told}, {below}: {replicas(size)}")

    def _too_small(self, fleet: FleetView) -> int:
        """Return the largest size from which the policy had to grow lately; 0: there is none."""
        since = fleet.at - self.settings.remember_s
        pairs = zip(fleet.decisions, fleet.decisions[1:], strict=False)
        left = (
            before.desired
            for before, after in pairs
            if after.at >= since and after.kind == "policy" and after.desired > before.desired
        )
        return max((size for size in left if size < fleet.desired), default=0)


def _more(told: str, times: float, fleet: FleetView, there: Capacity) -> Wish:
    """Return the size that the load needs, or at most double; the same while some still start."""
    if there.coming:
        coming = f"{replicas(fleet.desired)}, of which {there.coming} still start"
        return Wish(fleet.desired, f"{told}: {coming}")
    full, offered = executed_when_full(fleet, there.ready), finite(fleet.latest("offered_load"))
    if full is not None and isinstance(offered, Known):
        value = max(offered.value, load_of_callers(fleet) or 0.0)
        needed = math.ceil(value / (full * OF_FULL) - 1e-9)
        load = f"offered_load is {amount_text(offered.value)}"
        if value > offered.value:
            load += f"; {callers_wait(value)}"
        told += f"; {load}, and a full replica executes {amount_text(full)}"
    else:
        needed = math.ceil(fleet.desired * min(times, _MOST_GROWTH) - 1e-9)
    size = max(fleet.desired + 1, needed)
    return Wish(size, f"{told}: {replicas(size)}", urgent=times > _PANIC)


def _without_instances(fleet: FleetView) -> Wish:
    if not fleet.waiting:
        return Wish(None, "no instance is ready, and no request waits for one")
    size = max(1, fleet.desired)
    waits = f"{requests_wait(fleet.waiting)} for an instance"
    return Wish(size, f"{waits}: {replicas(size)}", urgent=size > fleet.desired)


def _create(settings: LatencySettings, _context: MasterContext) -> ScalingPolicy:
    return LatencyPolicy(settings)


def _reads(settings: LatencySettings) -> Iterable[str]:
    return (settings.signal, "in_flight", "requests_per_s")


@hookimpl
def tarn_scaling_policies() -> Mapping[str, Factory[ScalingPolicy]]:
    """Offer the policy for fleets with an objective in time."""
    summary = "keeps the time that requests take near an objective"
    return {"latency": Factory(LatencySettings, _create, summary, reads=_reads)}
