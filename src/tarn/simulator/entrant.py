"""Who takes part in a simulation: a policy with its options, and the guard it is used with."""

from collections.abc import Callable, Mapping

import attrs

from tarn.control.probe import Families
from tarn.control.scaling import Scaling, scaling
from tarn.domain import ClusterSpec
from tarn.domain.plugin_signals import PluginSignals
from tarn.domain.signals import SignalSelection
from tarn.errors import ProviderMissingError
from tarn.interfaces import MasterContext
from tarn.plain import did_you_mean
from tarn.plugins import Plugins
from tarn.plugins.kinds import instead
from tarn.simulator.rivals import RIVALS, Rival

__all__ = ["Entrant", "enter"]


@attrs.frozen
class Entrant:
    """One policy, ready to be made for a run, and the spec whose guard holds for it."""

    name: str
    spec: ClusterSpec
    make: Callable[[MasterContext], Scaling] = attrs.field(repr=False)
    """Called once for each run: what a policy remembers is of one run only."""


def enter(
    spec: ClusterSpec,
    plugins: Plugins,
    use: str | None = None,
    options: Mapping[str, object] | None = None,
) -> Entrant:
    """Return the entrant that *spec* describes, or *use* with *options* in its place.

    A rival comes with the guard that its own documentation describes; a policy that plugins offer
    keeps the guard of the spec, and the spec's options too where it is the spec's own policy.

    Raises:
        ConfigErrors: *options* cannot be meant.
        ProviderMissingError: Nobody offers the policy, and it is not a rival.
    """
    given = spec.scaling
    if use is None or use == given.use:
        use, options = given.use, {**given.options, **(options or {})}
    rival = RIVALS.get(use)
    if rival:
        return _rival(spec, plugins, rival, use, options or {})
    offered = plugins.scaling_policies
    if use not in offered and not instead("scaling", use):
        known = (*offered, *RIVALS)
        raise ProviderMissingError(
            use,
            f"there is no policy '{use}'",
            right=f"Expected one of {', '.join(known)}",
            next_step=did_you_mean(use, known),
        )
    factory = plugins.choose("scaling", use, "scaling.use")
    plugins.settings(factory, options or {}, "scaling.options")  # wrong ones are refused here
    chosen = attrs.evolve(given, use=use, options=options or {})
    return Entrant(
        use, attrs.evolve(spec, scaling=chosen), lambda context: scaling(plugins, context)
    )


def _rival(
    spec: ClusterSpec, plugins: Plugins, rival: Rival, use: str, options: Mapping[str, object]
) -> Entrant:
    settings = plugins.settings(rival.factory, options, "scaling.options")
    guarded = attrs.evolve(spec, scaling=attrs.evolve(rival.guard, options=options))

    def make(context: MasterContext) -> Scaling:
        policy = rival.factory.create(settings, context)
        return Scaling(policy, PluginSignals(), SignalSelection(), Families())

    return Entrant(use, guarded, make)
