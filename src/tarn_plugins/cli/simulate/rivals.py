"""Policies of other projects with their documented defaults, only for `tarn simulate`."""

import math
from collections import deque
from collections.abc import Mapping
from types import MappingProxyType

import attrs
from attrs.validators import ge, gt, le

from tarn.domain import FleetView, InstanceState, Known, Wish
from tarn.domain.spec import ScalingSpec, WindowSpec
from tarn.hookspecs import Factory
from tarn.interfaces import MasterContext, ScalingPolicy

__all__ = [
    "HPA",
    "JAVA",
    "KNATIVE",
    "RIVALS",
    "Hpa",
    "HpaSettings",
    "JavaTarnPolicy",
    "JavaTarnSettings",
    "Knative",
    "KnativeSettings",
    "Rival",
]


@attrs.frozen
class Rival:
    """A policy to compare with. It may keep state, so no cluster can use it."""

    factory: Factory[ScalingPolicy]
    guard: ScalingSpec
    """Its windows, cooldown and interval, as settings of TARN's guard."""


_NOISE = 1e-9


# The rules of Kubernetes' HorizontalPodAutoscaler, over utilization.
#
# Every 15 s: the mean utilization of the ready pods over the target is the ratio; within the
# tolerance of 1 nothing changes, else the size is the ratio times the ready pods, rounded up. Pods
# that are not ready yet count as idle when it would grow, and not at all when it would shrink;
# where that turns the ratio to the other side of 1, nothing changes. Growth is limited to the
# greater of 100 % and 4 pods in 15 s; shrinking goes by the greatest recommendation of the last 300
# s (that is our guard's ``down.window``). It neither goes to zero nor leaves it.
#
# Utilization is what the metrics pipeline would say: the mean over its own window of 15 s.
#
# Sources: kubernetes.io, "Horizontal Pod Autoscaling" (algorithm details, default behaviour,
# "Support for metrics"); kubernetes/kubernetes, pkg/controller/podautoscaler/replica_calculator.go
# (GetResourceReplicas); kubernetes-sigs/metrics-server, ``--metric-resolution`` 15 s. The target of
# 80 % has no default of its own: it is that of the walk-throughs of older versions, and the
# greatest one in wide use.


@attrs.frozen
class HpaSettings:
    """The options of `Hpa`; the defaults are those of Kubernetes 1.30."""

    target: float = attrs.field(default=0.8, validator=[gt(0), le(1)])
    """Wanted utilization of each pod, a fraction."""
    tolerance: float = attrs.field(default=0.1, validator=ge(0))
    """``--horizontal-pod-autoscaler-tolerance``."""
    grow_percent: float = attrs.field(default=100.0, validator=gt(0))
    """``behavior.scaleUp.policies``: percent of the present size in 15 s, if it is more than
    ``grow_pods``."""
    grow_pods: int = attrs.field(default=4, validator=ge(1))
    """``behavior.scaleUp.policies``: pods in 15 s, if it is more than ``grow_percent``."""
    metrics_window_s: float = attrs.field(default=15.0, validator=gt(0))
    """Seconds over which utilization is measured."""


@attrs.frozen
class Hpa:
    """One HorizontalPodAutoscaler."""

    settings: HpaSettings

    def wanted(self, fleet: FleetView) -> Wish:
        """Return its recommendation; without metrics it keeps the size."""
        present = max(1, fleet.desired)
        sample = fleet.mean("gpu_utilization", self.settings.metrics_window_s)
        if not isinstance(sample, Known):
            return Wish(present, f"utilization is unknown: {sample.reason}")
        ready = sum(i.state is InstanceState.READY for i in fleet.instances)
        unready = sum(
            i.state in (InstanceState.REQUESTED, InstanceState.STARTING) for i in fleet.instances
        )
        need = self._recommended(sample.value, ready, unready, present)
        growth = max(present * self.settings.grow_percent / 100, self.settings.grow_pods)
        limited = min(need, present + math.floor(growth))
        told = f"utilization {sample.value:.0%} of {ready} ready, target {self.settings.target:.0%}"
        return Wish(max(1, limited), told)

    def _recommended(self, utilization: float, ready: int, unready: int, present: int) -> int:
        ratio = utilization / self.settings.target
        if ratio <= 1 or not unready:
            if abs(1 - ratio) <= self.settings.tolerance:
                return present
            return math.ceil(ratio * ready - _NOISE)
        counted = ready + unready
        diluted = utilization * ready / counted / self.settings.target
        if abs(1 - diluted) <= self.settings.tolerance or diluted < 1:
            return present
        return max(present, math.ceil(diluted * counted - _NOISE))


def _create(settings: HpaSettings, _context: MasterContext) -> ScalingPolicy:
    return Hpa(settings)


HPA = Rival(
    Factory(HpaSettings, _create, "Kubernetes' HorizontalPodAutoscaler over utilization"),
    ScalingSpec("hpa", {}, WindowSpec(0.0), WindowSpec(300.0), cooldown_s=0.0, interval_s=15.0),
)


# The rules of the Java TARN, as they were meant.
#
# Every 15 s: ``load = max(gpu, min(1, queue / (instances x capacity)))``; above the upper threshold
# one instance more, below the lower one an instance fewer, and at most one change in 60 s. With no
# instance the load is 1 when a request waits.
#
# To its advantage the faults are left out that kept it from scaling at all: its utilization was a
# hundredth of the real one, and a fleet without instances stayed so.
#
# Source: the Java TARN's ``ScalingPolicy.java``, ``MetricsCollector.java`` and ``TarnConfig.java``
# (defaults); how a cluster moves from it is in docs/how-to/move-from-the-java-tarn.md.


@attrs.frozen
class JavaTarnSettings:
    """The options of `JavaTarnPolicy`, with its defaults."""

    capacity: float = attrs.field(default=16.0, validator=gt(0))
    """Queued requests that fill an instance."""
    scale_up: float = attrs.field(default=0.7, validator=[gt(0), le(1)])
    scale_down: float = attrs.field(default=0.2, validator=[ge(0), le(1)])


@attrs.frozen
class JavaTarnPolicy:
    """One ``ScalingPolicy`` in the mode ``composite``."""

    settings: JavaTarnSettings

    def wanted(self, fleet: FleetView) -> Wish:
        """Return one more, one fewer or the same."""
        load = self._load(fleet)
        told = f"load {load:.2f}"
        if load > self.settings.scale_up:
            return Wish(fleet.desired + 1, f"{told} is above {self.settings.scale_up:g}")
        if load < self.settings.scale_down and fleet.desired > fleet.limits.min:
            return Wish(fleet.desired - 1, f"{told} is below {self.settings.scale_down:g}")
        return Wish(fleet.desired, told)

    def _load(self, fleet: FleetView) -> float:
        running = sum(i.state is InstanceState.READY for i in fleet.instances)
        if not running:
            return 1.0 if fleet.waiting else 0.0
        busy, queue = fleet.latest("gpu_utilization"), fleet.latest("pending")
        full = running * self.settings.capacity
        queued = min(1.0, queue.value / full) if isinstance(queue, Known) else 0.0
        return max(busy.value if isinstance(busy, Known) else 0.0, queued)


def _create_java(settings: JavaTarnSettings, _context: MasterContext) -> ScalingPolicy:
    return JavaTarnPolicy(settings)


JAVA = Rival(
    Factory(
        JavaTarnSettings, _create_java, "the Java TARN: one step a minute between two thresholds"
    ),
    ScalingSpec("java", {}, WindowSpec(0.0), WindowSpec(0.0), cooldown_s=60.0, interval_s=15.0),
)


# The rules of Knative's pod autoscaler (KPA), over concurrency.
#
# Every 2 s: the requests in flight (those that wait count, the activator's too) are averaged over a
# stable window of 60 s and a panic window of a tenth of it, and each mean over the target per pod
# is a size, rounded up. The stable one counts, until the panic one is twice the ready pods: from
# then until the stable window has passed without that, the greater of both counts and nothing
# shrinks. A size is at most ``max-scale-up-rate`` times the ready pods and at least their
# ``max-scale-down-rate``-th part. The last pod goes after a whole stable window without a request,
# and the grace period (here all of it, its upper bound).
#
# It begins in panic where there is more than one pod, so that it does not shrink before it has seen
# a stable window.
#
# It remembers its panic, as the original does, so it is made again for each run. The activator's
# buffering while capacity is short (target burst capacity) is not modelled: our load balancer has
# none.
#
# Sources: knative/serving, pkg/autoscaler/scaling/autoscaler.go (Scale) and
# config/core/configmaps/autoscaler.yaml for the defaults; knative.dev, "Autoscaling", "Additional
# autoscaling configuration for Knative Pod Autoscaler".


@attrs.frozen
class KnativeSettings:
    """The options of `Knative`; the defaults are those of Knative 1.15."""

    container_concurrency: float = attrs.field(default=16.0, validator=gt(0))
    """Requests that a pod executes at once: the model's slots."""
    target: float = attrs.field(default=0.7, validator=[gt(0), le(1)])
    """``container-concurrency-target-percentage``, a fraction."""
    stable_window_s: float = attrs.field(default=60.0, validator=ge(6))
    panic_window: float = attrs.field(default=0.1, validator=[gt(0), le(1)])
    """``panic-window-percentage``, a fraction of the stable window."""
    panic_threshold: float = attrs.field(default=2.0, validator=gt(1))
    """``panic-threshold-percentage``, as a multiple of the ready pods."""
    max_scale_up_rate: float = attrs.field(default=1000.0, validator=gt(1))
    max_scale_down_rate: float = attrs.field(default=2.0, validator=gt(1))
    grace_s: float = attrs.field(default=30.0, validator=ge(0))
    """``scale-to-zero-grace-period``."""


class Knative:
    """One KPA; it remembers its panic."""

    def __init__(self, settings: KnativeSettings) -> None:
        self._settings = settings
        self._seen: deque[tuple[float, float]] = deque()
        """(moment, requests in flight) within the stable window."""
        self._panics_s: float | None = None
        """When the panic threshold was last exceeded; None: no panic."""
        self._most = 0
        """The most pods during the present panic."""
        self._idle_s: float | None = None
        """Since when it wants no pod."""

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
        """Return the size, which keeps the last pod for the grace period."""
        if desired > 0 or fleet.desired == 0:
            self._idle_s = None
            return desired
        self._idle_s = fleet.now_s if self._idle_s is None else self._idle_s
        return 0 if fleet.now_s - self._idle_s >= self._settings.grace_s else 1


def _create_knative(settings: KnativeSettings, _context: MasterContext) -> ScalingPolicy:
    return Knative(settings)


KNATIVE = Rival(
    Factory(KnativeSettings, _create_knative, "Knative's pod autoscaler over concurrency"),
    ScalingSpec("knative", {}, WindowSpec(0.0), WindowSpec(0.0), cooldown_s=0.0, interval_s=2.0),
)


RIVALS: Mapping[str, Rival] = MappingProxyType({"hpa": HPA, "knative": KNATIVE, "java": JAVA})
"""The policies of `--policy` and `--against`, in addition to those of plugins."""
