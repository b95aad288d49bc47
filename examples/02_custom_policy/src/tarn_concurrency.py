"""Scale on concurrency: each instance gets so many requests at once, and no more."""

import math
from collections.abc import Mapping

import attrs
from attrs.validators import gt

from tarn.domain import FleetView, Known, Wish
from tarn.hookspecs import Factory, hookimpl
from tarn.interfaces import MasterContext, ScalingPolicy


@attrs.frozen
class ConcurrencySettings:
    """What stands under ``scaling.options``."""

    requests_per_instance: float = attrs.field(default=4.0, validator=gt(0))
    """How many requests one instance may have at once, waiting ones counted too."""
    window_s: float = attrs.field(default=5.0, validator=gt(0))
    """How far back the requests are averaged; longer is calmer, and later."""


@attrs.frozen
class Concurrency:
    """Wants the requests at work, divided by what one instance may have, rounded up."""

    settings: ConcurrencySettings

    def wanted(self, fleet: FleetView) -> Wish:
        """Say how many replicas, and why; None keeps the present size."""
        waiting = fleet.mean("pending", self.settings.window_s)
        executing = fleet.mean("executing", self.settings.window_s)
        if not isinstance(waiting, Known):  # unknown is not zero
            return Wish(None, f"the waiting requests are unknown: {waiting.reason}")
        if not isinstance(executing, Known):
            return Wish(None, f"the executing requests are unknown: {executing.reason}")
        at_once = waiting.value + executing.value
        if not math.isfinite(at_once) or at_once < 0:
            return Wish(None, f"{at_once} requests at once cannot be")
        replicas = math.ceil(at_once / self.settings.requests_per_instance)
        limit = self.settings.requests_per_instance
        return Wish(replicas, f"{at_once:.1f} requests at once, {limit:g} for an instance")


def create(settings: ConcurrencySettings, _context: MasterContext) -> ScalingPolicy:
    """Make the policy: called once in a master, and only where the spec chooses it."""
    return Concurrency(settings)


FACTORY = Factory(ConcurrencySettings, create, "as many instances as the requests at work need")


@hookimpl
def tarn_scaling_policies() -> Mapping[str, Factory[ScalingPolicy]]:
    """Offer ``scaling: {use: concurrency}``."""
    return {"concurrency": FACTORY}
