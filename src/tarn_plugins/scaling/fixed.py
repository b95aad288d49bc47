"""The scaling policy `fixed`: the size that a person chose."""

from collections.abc import Mapping

import attrs
from attrs.validators import ge, optional

from tarn.domain import FleetView, Wish
from tarn.hookspecs import Factory, hookimpl
from tarn.interfaces import MasterContext, ScalingPolicy

__all__ = ["FixedPolicy", "FixedSettings", "tarn_scaling_policies"]


@attrs.frozen
class FixedSettings:
    """The settings in ``scaling.options`` for ``use: fixed``."""

    replicas: int | None = attrs.field(default=None, validator=optional(ge(0)))
    """The wanted size; None keeps the present one, which starts at ``replicas.initial``."""


@attrs.frozen
class FixedPolicy:
    """Wants the size in its settings; without one it has no opinion."""

    settings: FixedSettings

    def wanted(self, fleet: FleetView) -> Wish:
        """Return the same wish for every fleet."""
        if self.settings.replicas is None:
            return Wish(None, "the size is fixed by a person")
        return Wish(self.settings.replicas, "scaling.options.replicas")


def _create(settings: FixedSettings, _context: MasterContext) -> ScalingPolicy:
    return FixedPolicy(settings)


@hookimpl
def tarn_scaling_policies() -> Mapping[str, Factory[ScalingPolicy]]:
    """Offer the policy that a spec gets when it names none."""
    return {"fixed": Factory(FixedSettings, _create, "keeps the size that a person chose")}
