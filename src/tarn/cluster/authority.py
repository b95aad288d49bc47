"""What keeps the authorizer from working, as far as this machine can see it."""

from collections.abc import Iterable

from tarn.domain import ClusterSpec
from tarn.hookspecs import Factory
from tarn.interfaces import Authorizer, Finding
from tarn.plugins import Plugins

__all__ = ["authority"]


def authority(spec: ClusterSpec, plugins: Plugins) -> tuple[Finding, ...]:
    """Return the findings of the authorizer's own look; none where the master runs elsewhere.

    Raises:
        ConfigErrors: It has no such options.
        ProviderMissingError: There is no such authorizer, or it lacks modules.
    """
    runtime = plugins.choose("runtime", spec.runtime.use, "runtime.use")
    if runtime.capabilities.remote:
        return ()
    chosen = spec.authorizer
    factory: Factory[Authorizer] = plugins.choose("authorizer", chosen.use, "authorizer.use")
    settings = plugins.settings(factory, chosen.options, "authorizer.options")
    found: Iterable[Finding] = factory.looks(settings)
    return tuple(found)
