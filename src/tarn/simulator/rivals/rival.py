"""What a rival is: a policy, and the guard that its own documentation describes."""

import attrs

from tarn.domain.spec import ScalingSpec
from tarn.hookspecs import Factory
from tarn.interfaces import ScalingPolicy

__all__ = ["Rival"]


@attrs.frozen
class Rival:
    """A policy to compare with. No cluster is offered it: it may remember, and knows no Unknown."""

    factory: Factory[ScalingPolicy]
    guard: ScalingSpec
    """Its windows, cooldown and interval, in the words of our guard."""
