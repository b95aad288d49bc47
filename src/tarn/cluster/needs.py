"""Which extras of tarn a spec's master needs: those of every provider that it chooses.

Tickets belong to no provider: a master that takes them needs `gssapi`.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

from tarn import config
from tarn.cluster.environment import ClusterEnvironment
from tarn.domain import ClusterSpec

__all__ = ["needs"]


def needs(
    around: ClusterEnvironment, path: Path
) -> tuple[frozenset[str], str, Mapping[str, object]]:
    """Return the extras, and the runtime (its name and options), of the spec at *path*.

    Raises:
        ConfigErrors: The spec is wrong.
    """
    spec = config.load(path, environ=around.environ).spec
    offered = around.plugins()
    chosen = (offered.offers(kind).get(name) for kind, name in _choices(spec))
    extras = frozenset(factory.extra for factory in chosen if factory is not None)
    runtime = offered.runtimes.get(spec.runtime.use)
    if runtime is not None and runtime.capabilities.remote:
        extras |= {runtime.extra}
    if spec.api.spnego is not None:
        extras |= {"kerberos"}
    return extras - {""}, spec.runtime.use, spec.runtime.options


def _choices(spec: ClusterSpec) -> Iterator[tuple[str, str]]:
    """Yield the kind and the name of what a master of *spec* runs besides the runtime. Pure.

    Stores of secrets are read by clients: a master brings none.
    """
    yield "authorizer", spec.authorizer.use
    yield "scaling", spec.scaling.use
    for one in spec.discovery:
        yield "discovery", one.use
