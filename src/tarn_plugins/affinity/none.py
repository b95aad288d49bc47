"""The affinity `none`: every request may reach any instance."""

from collections.abc import Mapping, Sequence

import attrs

from tarn.domain import AffinityRule, ModelTraits
from tarn.hookspecs import Factory, hookimpl
from tarn.interfaces import Affinity, MasterContext

__all__ = ["NoAffinity", "NoAffinitySettings", "tarn_affinities"]


@attrs.frozen
class NoAffinitySettings:
    """``affinity.options`` of ``use: none``, which has no options."""


@attrs.frozen
class NoAffinity:
    """Has no rules, whatever the models are."""

    def rules(self, _models: Sequence[ModelTraits]) -> tuple[AffinityRule, ...]:
        """Return no rules."""
        return ()


def _create(_settings: NoAffinitySettings, _context: MasterContext) -> Affinity:
    return NoAffinity()


@hookimpl
def tarn_affinities() -> Mapping[str, Factory[Affinity]]:
    """Offer the affinity that keeps nothing together."""
    summary = "every request may reach any instance, even those of a sequence"
    return {"none": Factory(NoAffinitySettings, _create, summary)}
