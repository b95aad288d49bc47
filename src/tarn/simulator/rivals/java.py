"""The rules of the Java TARN, as they were meant.

Every 15 s: ``load = max(gpu, min(1, queue / (instances x capacity)))``; above the upper threshold
one instance more, below the lower one an instance fewer, and at most one change in 60 s. With no
instance the load is 1 when a request waits.

To its advantage the faults are left out that kept it from scaling at all: its utilization was a
hundredth of the real one, and a fleet without instances stayed so.

Source: the Java TARN's ``ScalingPolicy.java``, ``MetricsCollector.java`` and ``TarnConfig.java``
(defaults); how a cluster moves from it is in docs/how-to/move-from-the-java-tarn.md.
"""

import attrs
from attrs.validators import ge, gt, le

from tarn.domain import FleetView, InstanceState, Known, Wish
from tarn.domain.spec import ScalingSpec, WindowSpec
from tarn.hookspecs import Factory
from tarn.interfaces import MasterContext, ScalingPolicy
from tarn.simulator.rivals.rival import Rival

__all__ = ["JAVA", "JavaTarnPolicy", "JavaTarnSettings"]


@attrs.frozen
class JavaTarnSettings:
    """Its options, with its defaults."""

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


def _create(settings: JavaTarnSettings, _context: MasterContext) -> ScalingPolicy:
    return JavaTarnPolicy(settings)


JAVA = Rival(
    Factory(JavaTarnSettings, _create, "the Java TARN: one step a minute between two thresholds"),
    ScalingSpec("java", {}, WindowSpec(0.0), WindowSpec(0.0), cooldown_s=60.0, interval_s=15.0),
)
