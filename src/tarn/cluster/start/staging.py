"""Decide whether the model repository is used in place, fetched by the nodes, or copied.

A runtime on other machines reads some URIs itself, and a plain path names a directory on those
machines, which this machine may not have.
"""

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from urllib.parse import urlsplit

import attrs

from tarn.cluster.start.uploads import look_at_tests
from tarn.domain import ClusterSpec
from tarn.errors import ConfigError
from tarn.hookspecs import Factory
from tarn.interfaces import Authorizer, ClientContext, Finding, RuntimeCapabilities, Staged
from tarn.plain import masked
from tarn.plugins import Plugins
from tarn.triton import fitting, mounts, repository

__all__ = ["authority", "examined", "guessed", "look", "stage"]


def stage(spec: ClusterSpec, plugins: Plugins, context: ClientContext) -> Staged:
    """Make the repository usable for instances, by a copy only where needed.

    Raises:
        StorageError: The repository is missing or unreadable, or the disk is too full.
    """
    unmoved = _unmoved(spec, _capabilities(spec, plugins))
    if unmoved is not None:
        return unmoved
    return (
        plugins.storage_for(spec.models.repository)
        .create()
        .resolve(spec.models.repository, context)
    )


def guessed(spec: ClusterSpec, plugins: Plugins) -> Staged:
    """Return what `stage` would return, as far as is known without copying.

    Raises:
        ProviderMissingError: No storage reads the URI, or its modules are not installed.
    """
    unmoved = _unmoved(spec, _capabilities(spec, plugins))
    if unmoved is not None:
        return unmoved
    plugins.storage_for(spec.models.repository)
    if "://" in spec.models.repository:
        return Staged(f"<copy of {masked(spec.models.repository)}>", "local")
    return Staged(spec.models.repository, "in_place")


def examined(spec: ClusterSpec, plugins: Plugins, environ: Mapping[str, str]) -> Iterator[Finding]:
    """Yield findings on test requests, metrics and the repository.

    A repository at a URI is checked once it is staged, or by the runtime that reads it.

    Raises:
        ConfigError: A directory cannot be read.
    """
    yield from look_at_tests(spec)
    yield from _unmeasured(spec)
    location, remote = spec.models.repository, _capabilities(spec, plugins).remote
    if "://" in location:
        if remote and spec.instance.warmup is not None:
            yield Finding(
                "TARN-2004",
                f"instance.warmup = '{spec.instance.warmup}'",
                "the requests are in a repository at a URI, which the master of a remote runtime "
                "cannot read in this version",
                "Set models.repository to a path that the nodes have mounted, or remove "
                "instance.warmup",
            )
    elif not remote:
        yield from look(location, spec, environ)
    elif (away := mounts.unanswered(Path(location), "models.repository")) is not None:
        yield attrs.evolve(away, fatal=False)
    elif not Path(location).is_dir():
        yield Finding(
            "TARN-2200",
            f"models.repository = '{location}'",
            "is not a directory on this machine; it must be one on every node where instances may "
            "run",
            "Check the path on the nodes; TARN copies only a repository at a URI to them",
            fatal=False,
        )
    else:
        with contextlib.suppress(OSError):  # it may be readable for the nodes' user only
            yield from fitting.misfits(location, spec, None)


def _unmeasured(spec: ClusterSpec) -> Iterator[Finding]:
    for raw, value in spec.triton.args.items():
        name = raw.lstrip("-").replace("_", "-")
        if name == "allow-metrics" and str(value).lower() in ("false", "0", "off", "no"):
            yield Finding(
                "TARN-2007",
                f"triton.args.{raw}",
                "switches Triton's metrics off: what waits is only estimated, and nothing is "
                "known of the GPUs",
                "Remove it",
                fatal=False,
            )


def look(location: str, spec: ClusterSpec, environ: Mapping[str, str]) -> Iterator[Finding]:
    """Yield findings on a repository that instances on this machine use.

    Raises:
        ConfigError: A directory cannot be read.
    """
    away = mounts.unanswered(Path(location), "models.repository")
    if away is not None:
        yield away
        return
    path = Path(location)
    try:
        files = repository.listing(path) if path.exists() else None
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be read ({error.strerror})",
            code="TARN-2200",
            where="models.repository",
            right="Expected the directory that holds the model directories.",
        ) from error
    found = repository.examine(files, spec.models.serve, location)
    yield from found
    if files is not None and not any(one.fatal for one in found):
        yield from fitting.misfits(location, spec, fitting.here(spec, environ))


def _capabilities(spec: ClusterSpec, plugins: Plugins) -> RuntimeCapabilities:
    factory = plugins.choose("runtime", spec.runtime.use, "runtime.use")
    capabilities: RuntimeCapabilities = factory.capabilities
    return capabilities


def _unmoved(spec: ClusterSpec, runtime: RuntimeCapabilities) -> Staged | None:
    """Return the repository as staged if the nodes use it where it is; None: copy it."""
    location = spec.models.repository
    if not runtime.remote:
        return None
    if "://" not in location:
        return Staged(location, "in_place")
    return Staged(location, "localize") if urlsplit(location).scheme in runtime.reads else None


def authority(spec: ClusterSpec, plugins: Plugins) -> tuple[Finding, ...]:
    """Return the findings of the authorizer's own checks; none for a remote runtime.

    Raises:
        ConfigErrors: The authorizer has no such options.
        ProviderMissingError: There is no such authorizer, or its modules are not installed.
    """
    runtime = plugins.choose("runtime", spec.runtime.use, "runtime.use")
    if runtime.capabilities.remote:  # this machine is not the one where it will work
        return ()
    chosen = spec.authorizer
    factory: Factory[Authorizer] = plugins.choose("authorizer", chosen.use, "authorizer.use")
    settings = plugins.settings(factory, chosen.options, "authorizer.options")
    found: Iterable[Finding] = factory.looks(settings)
    return tuple(found)
