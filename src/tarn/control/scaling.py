"""The scaling policy of a spec, made with the signals that it reads."""

from typing import cast

import attrs

from tarn.control.scrape import Families
from tarn.domain.plugin_signals import WINDOW_S, PluginSignals, Read
from tarn.domain.signals import SignalSelection
from tarn.domain.spec import Choice
from tarn.interfaces import MasterContext, ScalingPolicy
from tarn.plugins import Plugins

__all__ = ["Scaling", "scaling"]

_LOOKS = 3
"""The fewest looks that the signal of a plugin sees, however long the interval is."""


@attrs.frozen
class Scaling:
    """What a master asks for a size, and what it must read for that."""

    policy: ScalingPolicy
    signals: PluginSignals
    kept: SignalSelection
    families: Families


def scaling(offered: Plugins, context: MasterContext) -> Scaling:
    """Make the policy that the spec chooses, and of all signals those that it reads.

    Raises:
        ConfigErrors: Its options are wrong, or it reads a signal that does not exist, or one that
            needs a module that is not installed.
        ProviderMissingError: There is no such policy, or a module that it needs is not installed.
        PluginError: A plugin failed.
    """
    spec = context.spec.scaling
    factory = offered.choose("scaling", spec.use, "scaling.use")
    settings = offered.settings(factory, spec.options, "scaling.options")
    needs = offered.needs(factory, settings)
    reads: dict[str, Read] = {}
    series: dict[str, None] = {}
    for name in needs.plugins:
        signal = offered.signals[name]
        made = offered.settings(signal, {}, f"signal {name}")
        reads[name] = signal.create(made, context).read
        series.update(dict.fromkeys(offered.families(signal, made)))
    window_s = max(WINDOW_S, _LOOKS * spec.interval_s)

    def asked(choice: Choice) -> ScalingPolicy:
        made = offered.choose("scaling", choice.use, "scaling.use")
        return cast(
            ScalingPolicy,
            made.create(offered.settings(made, choice.options, "scaling.options"), asking),
        )

    asking = attrs.evolve(context, policy=asked)
    return Scaling(
        factory.create(settings, asking),
        PluginSignals(reads, window_s),
        SignalSelection(dict(needs.metrics), needs.names, window_s if reads else 0.0),
        Families(tuple(dict.fromkeys(family for _, family in needs.metrics)), tuple(series)),
    )
