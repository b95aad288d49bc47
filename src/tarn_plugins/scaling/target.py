"""The scaling policy `target`: the size at which each replica has its share of the load."""

import math
from collections.abc import Iterable, Mapping
from itertools import pairwise

import attrs
from attrs.validators import ge, gt, optional

from tarn.domain import FleetView, Unknown, Wish
from tarn.domain.counted import callers_wait, replicas, requests_wait
from tarn.domain.samples import Known, Sample, finite
from tarn.domain.scaling import (
    NOTHING,
    OF_FULL,
    Capacity,
    capacity,
    executed_when_full,
    idle,
    is_nothing,
    load_of_callers,
)
from tarn.domain.signals import SIGNALS
from tarn.hookspecs import Factory, hookimpl
from tarn.interfaces import MasterContext, ScalingPolicy
from tarn.plain import Within, amount, amount_text

__all__ = ["TREND_S", "TargetPolicy", "TargetSettings", "steady_growth", "tarn_scaling_policies"]

TREND_S = 100.0
"""The seconds over which a trend is measured."""
_PARTS = 5


def steady_growth(history: Iterable[tuple[float, Sample[float]]], now_s: float) -> float:
    """Return the growth per second that lasted over the last `TREND_S`; 0 without one.

    Args:
        history: (monotonic seconds, sample), oldest first.
        now_s: The end of the last part.
    """
    # Of the four differences between the means of neighbouring parts, the second smallest counts. A
    # jump affects at most two of them, and those that noise makes are seldom both above zero.
    part_s = TREND_S / _PARTS
    sums, counts = [0.0] * _PARTS, [0] * _PARTS
    for at_s, sample in history:
        age_s = now_s - at_s
        if 0 <= age_s < TREND_S and isinstance(sample, Known):
            place = _PARTS - 1 - int(age_s / part_s)
            sums[place] += sample.value
            counts[place] += 1
    if not all(counts):
        return 0.0
    means = [total / count for total, count in zip(sums, counts, strict=True)]
    rises = sorted(later - earlier for earlier, later in pairwise(means))
    return max(0.0, rises[1] / part_s)


_NOISE = 1e-9  # replicas: the error of a sum of floats must not ask for one more
_START_S = 30.0  # the assumed time of a start, until one was seen
_MARGIN_S = 10.0  # from the sample to the request for a container, and from ready to the first use
# If six times the ready replicas are needed, the new ones carry what the ready ones cannot: each
# then has a fifth more than its share, about 70 % of its capacity.
_SMALL_PART = 6
_SOON_S = 2.0  # only a next sample within this time is worth a wait: the default interval is 1 s
# A growth by more than this fraction of the load within the lookahead is urgent: ten replicas then
# need one more in three minutes. A slower growth is hard to tell from noise, and not in a hurry.
_CLIMBS = 0.02


@attrs.frozen
class TargetSettings:
    """The settings in ``scaling.options`` for ``use: target``."""

    signal: str = "offered_load"
    """The signal: a built-in one, a plugin's, or a metric of Triton."""
    target: float | str = attrs.field(default=10, validator=Within(more_than=0))
    """The share of each replica, in the signal's unit: 10, 20ms, 60%. The default leaves six of
    sixteen slots free for the requests that arrive while an instance starts. For ``offered_load``,
    the target is lowered to three quarters of what a replica executes while requests wait for it,
    as soon as that is seen to be less."""
    tolerance: float | str = attrs.field(
        default=0.1, validator=Within("fraction", at_least=0, less_than=1)
    )
    """How far the load of a replica may be below the target before the fleet shrinks; for a mean
    also how far above it before the fleet grows. A sum above the target makes the fleet grow; above
    the tolerance it does so at once, without ``scaling.up.window`` and ``scaling.cooldown``."""
    lookahead_s: float | None = attrs.field(default=None, validator=optional(ge(0)))
    """How far a steady growth of a sum is extrapolated, so that replicas are ready when they are
    needed. Null: the slowest start (30 s until one was seen) plus 10 s, at most 100 s; 0: not at
    all."""
    window_s: float = attrs.field(default=0.0, validator=ge(0))
    """Seconds over which the load is averaged; 0: the newest sample."""
    panic: float = attrs.field(default=1.5, validator=gt(1))
    """Multiple of the target: if the newest load of a replica is above it, the fleet grows at once,
    without ``window``, ``scaling.up.window`` and ``scaling.cooldown``."""
    sleep_after_s: float | None = attrs.field(default=None, validator=optional(ge(0)))
    """If `replicas.min` is 0: how long nothing must be in flight, before ``scaling.down.window``
    begins, until the last replica goes. Null: as long as that window. Samples limit it: 300 of them
    are kept."""
    total: bool | None = None
    """Whether the signal is a sum over the fleet (true) or a mean (false). Null: a built-in signal
    knows; a metric of Triton is a sum, a plugin's signal a mean."""

    def __attrs_post_init__(self) -> None:
        """Refuse a target that the signal cannot reach, or with another unit."""
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
    """Requests that a full replica executes, if that limits the target."""

    def wanted(self, fleet: FleetView) -> Wish:
        """Return the size that fits the load; no opinion while the load is unknown."""
        there = capacity(fleet)
        fitted = self._fitted(fleet, there)
        if not there.ready:
            return fitted.without(fleet)
        return fitted.for_callers(fleet, there) or fitted.with_instances(fleet, there)

    def _fitted(self, fleet: FleetView, there: Capacity) -> "TargetPolicy":
        """Return the policy with a target that a replica can bear, as far as that was seen."""
        # With a higher target requests wait at the instances, and the load never seems to grow.
        if self.settings.signal != "offered_load":
            return self
        full = executed_when_full(fleet, there.ready)
        if full is None or full * OF_FULL >= self._target:
            return self
        return TargetPolicy(attrs.evolve(self.settings, target=full * OF_FULL), full)

    def for_callers(self, fleet: FleetView, there: Capacity) -> Wish | None:
        """Return the size for callers that wait for their answers; None: the load is not theirs."""
        load, offered = load_of_callers(fleet), fleet.latest(self.settings.signal)
        if self.settings.signal != "offered_load" or load is None or isinstance(offered, Unknown):
            return None
        if load <= offered.value:
            return None
        exact = self._replicas(load, fleet, there)
        told = f"{self._told(offered.value, there)}; {callers_wait(load)}"
        return self._sized(told, exact, fleet, there, urgent=self._overflows(exact, fleet))

    def with_instances(self, fleet: FleetView, there: Capacity) -> Wish:
        """Return the size by the signal; at least one instance is ready."""
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
        ahead_s, growth = self.settings.lookahead_s, 0.0
        if ahead_s is None:
            ahead_s = min((there.start_s or _START_S) + _MARGIN_S, TREND_S)
        if self.settings.is_total:  # the growth of a mean depends on the size, too
            growth = steady_growth(fleet.signals.get(self.settings.signal, ()), fleet.now_s)
        more = growth * ahead_s
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
        """Return how many replicas replace ready ones that a jump of the load will fill up."""
        # Until new replicas are ready, the requests beyond the capacity of the ready ones wait
        # inside those, which must do them first; later requests need other replicas meanwhile. The
        # number is at most that of the ready ones. It is zero while they keep up (so clients that
        # wait for their answers add none), and if they are a small part of what is needed, for
        # which the target leaves room. It does not make a growth urgent. The guard keeps the size
        # until the queue is done, since it looks back.
        if self.settings.signal != "offered_load":
            return 0.0
        full = max(
            executed_when_full(fleet, there.ready) or 0.0, self.settings.panic * self._target
        )
        beyond = exact * self._target / full - there.ready
        return max(0.0, min(there.older, beyond, _SMALL_PART * there.older - exact))

    def _half_seen(self, load: float, fleet: FleetView, there: Capacity) -> bool:
        """Return whether the load jumped since the last sample, so that it is seen in part."""
        # The sample averages the time before and after the jump, so the load is greater than it
        # seems, and a decision now would be followed by a second one. If samples are far apart,
        # waiting for the next one would cost too much.
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
        """Return whether a sum exceeds the tolerance."""
        beyond = exact / max(1, fleet.desired) - 1
        return self.settings.is_total and beyond > amount(self.settings.tolerance).value

    def without(self, fleet: FleetView) -> Wish:
        """Return the size by the requests that wait for an instance; none is ready."""
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
        """Return a finite load; a duration without requests counts as 0."""
        if isinstance(sample, Unknown) and self.settings.unit == "s" and idle(fleet):
            return Known(0.0)
        sample = finite(sample)
        if isinstance(sample, Unknown):
            return sample
        return Known(sample.value if sample.value > NOTHING else 0.0, sample.age_s)

    def _replicas(self, value: float, fleet: FleetView, there: Capacity) -> float:
        """Return the exact number of replicas that brings *value* to the target."""
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
        """Return why a mean over the ready replicas does not count yet; '' if it does."""
        if there.coming:
            return f"{replicas(fleet.desired)}, of which {there.coming} still start"
        return f"{replicas(fleet.desired)}, not all ready" if need < fleet.desired else ""

    def _least(self, exact: float, fleet: FleetView) -> int:
        """Return 0 if the fleet may have no replica and no request was seen lately, else 1."""
        quiet = is_nothing(fleet, "in_flight")
        if self._counts_requests:  # the signal itself would show requests in flight
            quiet = quiet or isinstance(fleet.latest("in_flight"), Unknown)
        if exact or not quiet or fleet.waiting or fleet.limits.min:
            return 1
        since_s = fleet.now_s - (self.settings.sleep_after_s or 0.0)
        return int(
            any(
                isinstance(sample, Known) and sample.value > NOTHING
                for at_s, sample in fleet.signals.get("in_flight", ())
                if at_s > since_s
            )
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
