"""The rules of Knative's pod autoscaler (KPA), over concurrency.

Every 2 s: the requests in flight (those that wait count, the activator's too) are averaged over a
stable window of 60 s and a panic window of a tenth of it, and each mean over the target per pod is
a size, rounded up. The stable one counts, until the panic one is twice the ready pods: from then
until the stable window has passed without that, the greater of both counts and nothing shrinks. A
size is at most ``max-scale-up-rate`` times the ready pods and at least their
``max-scale-down-rate``-th part. The last pod goes after a whole stable window without a request,
and the grace period (here all of it, its upper bound).

It begins in panic where there is more than one pod, so that it does not shrink before it has seen
a stable window.

It remembers its panic, as the original does, so it is made again for each run. The activator's
buffering while capacity is short (target burst capacity) is not modelled: our load balancer has
none.

Sources: knative/serving, pkg/autoscaler/scaling/autoscaler.go (Scale) and
config/core/configmaps/autoscaler.yaml for the defaults; knative.dev, "Autoscaling", "Additional
autoscaling configuration for Knative Pod Autoscaler".
"""

import math
from collections import deque

import attrs
from attrs.validators import ge, gt, le

from tarn.domain import FleetView, InstanceState, Known, Wish
from tarn.domain.spec import ScalingSpec, WindowSpec
from tarn.hookspecs import Factory
from tarn.interfaces import MasterContext, ScalingPolicy
from tarn.simulator.rivals.rival import Rival

__all__ = ["KNATIVE", "Knative", "KnativeSettings"]

_NOISE = 1e-9


@attrs.frozen
class KnativeSettings:
    """Its options; the defaults are those of Knative 1.15."""

    container_concurrency: float = attrs.field(default=16.0, validator=gt(0))
    """Requests that a pod executes at once: the model's slots."""
    target: float = attrs.field(default=0.7, validator=[gt(0), le(1)])
    """``container-concurrency-target-percentage``, a fraction."""
    stable_window_s: float = attrs.field(default=60.0, validator=ge(6))
    panic_window: float = attrs.field(default=0.1, validator=[gt(0), le(1)])
    """``panic-window-percentage``, a fraction of the stable window."""
    panic_threshold: float = attrs.field(default=2.0, validator=gt(1))
    """``panic-threshold-percentage``, in times the ready pods."""
    max_scale_up_rate: float = attrs.field(default=1000.0, validator=gt(1))
    max_scale_down_rate: float = attrs.field(default=2.0, validator=gt(1))
    grace_s: float = attrs.field(default=30.0, validator=ge(0))
    """``scale-to-zero-grace-period``."""


class Knative:
    """One KPA, and its panic."""

    def __init__(self, settings: KnativeSettings) -> None:
        self._settings = settings
        self._seen: deque[tuple[float, float]] = deque()
        """(moment, requests in flight) of the stable window."""
        self._panics_s: float | None = None
        self._most = 0
        """Pods of this panic."""
        self._idle_s: float | None = None
        """Since when it would have no pod."""

    def wanted(self, fleet: FleetView) -> Wish:
        """Return its desired scale."""
        s, now_s = self._settings, fleet.now_s
        sample = fleet.latest("in_flight")
        inside = sample.value if isinstance(sample, Known) else 0.0
        self._seen.append((now_s, inside + fleet.waiting))
        pods = max(1, sum(i.state is InstanceState.READY for i in fleet.instances))
        if len(self._seen) == 1 and pods > 1 and not self._most:
            self._panics_s, self._most = now_s, pods
        while now_s - self._seen[0][0] >= s.stable_window_s:
            self._seen.popleft()
        stable = self._mean(now_s, s.stable_window_s)
        hasty = self._mean(now_s, s.stable_window_s * s.panic_window)
        target = s.container_concurrency * s.target
        sizes = [math.ceil(value / target - _NOISE) for value in (stable, hasty)]
        self._panic(sizes[1] / pods >= s.panic_threshold, now_s)
        most, least = (
            math.ceil(s.max_scale_up_rate * pods),
            math.floor(pods / s.max_scale_down_rate),
        )
        bounded = [min(max(size, least), most) for size in sizes]
        desired = bounded[0]
        if self._panics_s is not None:
            self._most = max(self._most, *bounded)
            desired = self._most
        told = f"{stable:.1f} in flight over {s.stable_window_s:g} s, {hasty:.1f} lately"
        panic = " (panic)" if self._panics_s is not None else ""
        return Wish(self._kept(desired, fleet), f"{told}; target {target:g} a pod{panic}")

    def _mean(self, now_s: float, window_s: float) -> float:
        within = [value for at_s, value in self._seen if now_s - at_s < window_s]
        return sum(within) / len(within)

    def _panic(self, over: bool, now_s: float) -> None:  # noqa: FBT001 (private)
        if over:
            self._panics_s = now_s
        elif self._panics_s is not None and self._panics_s + self._settings.stable_window_s < now_s:
            self._panics_s, self._most = None, 0

    def _kept(self, desired: int, fleet: FleetView) -> int:
        """Keep the last pod for the grace period."""
        if desired > 0 or fleet.desired == 0:
            self._idle_s = None
            return desired
        self._idle_s = fleet.now_s if self._idle_s is None else self._idle_s
        return 0 if fleet.now_s - self._idle_s >= self._settings.grace_s else 1


def _create(settings: KnativeSettings, _context: MasterContext) -> ScalingPolicy:
    return Knative(settings)


KNATIVE = Rival(
    Factory(KnativeSettings, _create, "Knative's pod autoscaler over concurrency"),
    ScalingSpec("knative", {}, WindowSpec(0.0), WindowSpec(0.0), cooldown_s=0.0, interval_s=2.0),
)
