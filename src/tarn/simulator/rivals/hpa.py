"""The rules of Kubernetes' HorizontalPodAutoscaler, over utilization.

Every 15 s: the mean utilization of the ready pods over the target is the ratio; within the
tolerance of 1 nothing changes, else the size is the ratio times the ready pods, rounded up. Pods
that are not ready yet count as idle when it would grow, and not at all when it would shrink; where
that turns the ratio to the other side of 1, nothing changes. Growth is limited to the greater of
100 % and 4 pods in 15 s; shrinking goes by the greatest recommendation of the last 300 s (that is
our guard's ``down.window``). It neither goes to zero nor leaves it.

Utilization is what the metrics pipeline would say: the mean over its own window of 15 s.

Sources: kubernetes.io, "Horizontal Pod Autoscaling" (algorithm details, default behaviour, "Support
for metrics"); kubernetes/kubernetes, pkg/controller/podautoscaler/replica_calculator.go
(GetResourceReplicas); kubernetes-sigs/metrics-server, ``--metric-resolution`` 15 s. The target of
80 % has no default of its own: it is that of the walk-throughs of older versions, and the greatest
one in wide use.
"""

import math

import attrs
from attrs.validators import ge, gt, le

from tarn.domain import FleetView, InstanceState, Known, Wish
from tarn.domain.spec import ScalingSpec, WindowSpec
from tarn.hookspecs import Factory
from tarn.interfaces import MasterContext, ScalingPolicy
from tarn.simulator.rivals.rival import Rival

__all__ = ["HPA", "Hpa", "HpaSettings"]

_NOISE = 1e-9


@attrs.frozen
class HpaSettings:
    """Its options; the defaults are those of Kubernetes 1.30."""

    target: float = attrs.field(default=0.8, validator=[gt(0), le(1)])
    """Utilization that each pod should have, a fraction."""
    tolerance: float = attrs.field(default=0.1, validator=ge(0))
    """``--horizontal-pod-autoscaler-tolerance``."""
    grow_percent: float = attrs.field(default=100.0, validator=gt(0))
    """``behavior.scaleUp.policies``: of the present size, in 15 s; the greater one counts."""
    grow_pods: int = attrs.field(default=4, validator=ge(1))
    metrics_window_s: float = attrs.field(default=15.0, validator=gt(0))
    """Over which utilization is measured."""


@attrs.frozen
class Hpa:
    """One HorizontalPodAutoscaler."""

    settings: HpaSettings

    def wanted(self, fleet: FleetView) -> Wish:
        """Return its recommendation; None keeps the size, as it does without metrics."""
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
