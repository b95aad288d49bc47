"""The scaling policy `threshold`: the rule of the Java TARN, without its faults.

One number, the load, says how full the fleet is. Above one threshold the fleet grows to the size
that the queue fills, and not only by one replica a minute. Below another threshold it shrinks by
one. A missing metric does not count as zero.
"""

import math
from collections.abc import Iterable, Mapping
from typing import Literal

import attrs
from attrs.validators import ge

from tarn.domain import FleetView, Known, Sample, Unknown, Wish
from tarn.domain.counted import replicas, requests_wait
from tarn.domain.samples import finite
from tarn.domain.scaling import Capacity, capacity, is_nothing
from tarn.hookspecs import Factory, hookimpl
from tarn.interfaces import MasterContext, ScalingPolicy
from tarn.plain import Within, amount, amount_text

__all__ = ["ThresholdPolicy", "ThresholdSettings", "tarn_scaling_policies"]


@attrs.frozen
class ThresholdSettings:
    """The settings in ``scaling.options`` for ``use: threshold``."""

    mode: Literal["composite", "gpu_util", "queue_depth"] = "composite"
    """What the load measures: the GPUs, the queue, or the fuller of both."""
    queue_capacity: int = attrs.field(default=16, validator=ge(1))
    """Queued requests at which a replica counts as full."""
    scale_up: float | str = attrs.field(
        default=0.7, validator=Within("fraction", more_than=0, at_most=1)
    )
    """The load above which replicas are added, as a fraction of a full fleet."""
    scale_down: float | str = attrs.field(
        default=0.2, validator=Within("fraction", at_least=0, less_than=1)
    )
    """The load below which a replica is given up."""

    def __attrs_post_init__(self) -> None:
        """Refuse thresholds in the wrong order."""
        if self.down >= self.up:
            marks = f"scale_down = {self.down:g} is not below scale_up = {self.up:g}"
            raise ValueError(f"{marks}; lower the one or raise the other")

    @property
    def up(self) -> float:
        """The upper threshold, a fraction."""
        return amount(self.scale_up).value

    @property
    def down(self) -> float:
        """The lower threshold, a fraction."""
        return amount(self.scale_down).value


@attrs.frozen
class _Load:
    """How full the fleet is."""

    value: float
    """In [0, 1]."""
    told: str
    fits: int
    """Replicas that the queue fills."""


@attrs.frozen
class ThresholdPolicy:
    """Grows above one threshold, shrinks by one below the other, and else keeps the size."""

    settings: ThresholdSettings

    def wanted(self, fleet: FleetView) -> Wish:
        """Return the size by the thresholds; no opinion while the mode's metrics are unknown."""
        there = capacity(fleet)
        if not there.ready:
            return self._without_instances(fleet)
        load = self._load(fleet, there)
        if isinstance(load, Unknown):
            return Wish(None, load.reason)
        up, down = self.settings.up, self.settings.down
        told = f"load is {amount_text(load.value.value, 'fraction')} ({load.value.told})"
        if load.value.value > up:
            return self._more(f"{told}, above {up:.0%}", load.value.fits, fleet, there)
        if load.value.value < down:
            return self._fewer(f"{told}, below {down:.0%}", fleet)
        return Wish(
            fleet.desired, f"{told}, from {down:.0%} to {up:.0%}: {replicas(fleet.desired)}"
        )

    def _without_instances(self, fleet: FleetView) -> Wish:
        """Return the size by the requests that wait for an instance; none is ready."""
        if not fleet.waiting:
            return Wish(None, "no instance is ready, and no request waits for one")
        size = max(fleet.desired, self._fits(fleet.waiting))
        rule = f"{self.settings.queue_capacity} fill a replica"
        return Wish(size, f"{requests_wait(fleet.waiting)} ({rule}): {replicas(size)}")

    def _more(self, why: str, fits: int, fleet: FleetView, there: Capacity) -> Wish:
        """Return the size that the queue fills, and at least one replica more."""
        if there.coming:  # not one more at each tick until the last one is ready
            size = max(fleet.desired, fits)
            return Wish(size, f"{why}: {replicas(size)}, of which {there.coming} still start")
        size = max(fleet.desired + 1, fits)
        return Wish(size, f"{why}: {replicas(size)}")

    def _fewer(self, why: str, fleet: FleetView) -> Wish:
        """Return one replica fewer; the last one goes only if it may, and nothing is in flight."""
        size = max(0, fleet.desired - 1)
        quiet = is_nothing(fleet, "in_flight") and not fleet.waiting
        if size or (quiet and fleet.limits.min == 0):
            return Wish(size, f"{why}: {replicas(size)}")
        busy = "" if quiet else ", since requests may be in flight"
        return Wish(min(1, fleet.desired), f"{why}: the last replica stays{busy}")

    def _load(self, fleet: FleetView, there: Capacity) -> Sample[_Load]:
        """Return the load by the mode's metrics; of two, the fuller one counts."""
        mode = self.settings.mode
        parts = [self._gpu(fleet)] if mode != "queue_depth" else []
        parts += [self._queue(fleet, there)] if mode != "gpu_util" else []
        known = [part.value for part in parts if isinstance(part, Known)]
        missing = [part.reason for part in parts if isinstance(part, Unknown)]
        if not known:
            return Unknown("; ".join(missing))
        fullest = max(part.value for part in known)
        told = ", ".join([*(part.told for part in known), *missing])
        return Known(_Load(fullest, told, max(part.fits for part in known)))

    def _gpu(self, fleet: FleetView) -> Sample[_Load]:
        sample = _not_negative(fleet.latest("gpu_utilization"))
        if isinstance(sample, Unknown):
            return Unknown(f"GPU utilization is unknown: {sample.reason}")
        busy = min(1.0, sample.value)
        return Known(_Load(busy, f"GPUs {amount_text(busy, 'fraction')} busy", 0))

    def _queue(self, fleet: FleetView, there: Capacity) -> Sample[_Load]:
        sample = _not_negative(fleet.latest("pending"))
        if isinstance(sample, Unknown):
            return Unknown(f"the queue is unknown: {sample.reason}")
        queued = sample.value + fleet.waiting
        room = (there.ready + there.coming + there.late) * self.settings.queue_capacity
        told = f"{amount_text(queued)} queued where {room} are full"
        return Known(_Load(min(1.0, queued / room), told, self._fits(queued)))

    def _fits(self, queued: float) -> int:
        return math.ceil(queued / self.settings.queue_capacity)


def _not_negative(sample: Sample[float]) -> Sample[float]:
    sample = finite(sample)
    return sample if isinstance(sample, Unknown) else Known(max(0.0, sample.value))


def _create(settings: ThresholdSettings, _context: MasterContext) -> ScalingPolicy:
    return ThresholdPolicy(settings)


def _reads(settings: ThresholdSettings) -> Iterable[str]:
    reads = {"gpu_util": ("gpu_utilization",), "queue_depth": ("pending",)}
    return reads.get(settings.mode, ("gpu_utilization", "pending"))


@hookimpl
def tarn_scaling_policies() -> Mapping[str, Factory[ScalingPolicy]]:
    """Offer the policy that the options of the Java TARN mean."""
    summary = "grows above one mark of load and shrinks below another, as the Java TARN did"
    return {"threshold": Factory(ThresholdSettings, _create, summary, reads=_reads)}
