"""A scaling policy whose wish is easy to foresee."""

import math

import attrs

from tarn.domain import FleetView, Known, Wish
from tarn.hookspecs import Factory
from tarn.interfaces import MasterContext, ScalingPolicy

__all__ = ["FakePolicy", "FakePolicySettings", "fake_policy_factory"]


@attrs.frozen
class FakePolicySettings:
    """What can be set on the fake policy."""

    signal: str = "load"
    """The signal that it follows."""
    per_replica: float = attrs.field(default=1.0, validator=attrs.validators.gt(0))
    """How much of the signal one replica carries."""


class FakePolicy:
    """Wants the newest value of one signal, divided by what a replica carries, rounded up."""

    def __init__(self, settings: FakePolicySettings | None = None) -> None:
        self.settings = settings or FakePolicySettings()

    def wanted(self, fleet: FleetView) -> Wish:
        """Return the wish; None when the signal is unknown or no number."""
        sample = fleet.latest(self.settings.signal)
        if not isinstance(sample, Known):
            return Wish(None, f"{self.settings.signal} is unknown: {sample.reason}")
        if not math.isfinite(sample.value):
            return Wish(None, f"{self.settings.signal} is {sample.value}")
        replicas = max(0, math.ceil(sample.value / self.settings.per_replica))
        return Wish(replicas, f"{self.settings.signal} is {sample.value:g}")


def fake_policy_factory(kind: type[FakePolicy] = FakePolicy) -> Factory[ScalingPolicy]:
    """Return a factory of policies of *kind*."""

    def create(settings: FakePolicySettings, _context: MasterContext) -> ScalingPolicy:
        return kind(settings)

    return Factory(FakePolicySettings, create, "follows one signal, for tests")
