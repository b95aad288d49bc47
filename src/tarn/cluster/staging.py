"""Where the model repository is used from: in place, by the nodes themselves, or as a copy.

A runtime whose instances run on other machines reads some URIs by itself, and a bare path is a
directory of those machines: this one may not have it.
"""

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import urlsplit

import attrs

from tarn.cluster.test_requests import look_at_tests
from tarn.domain import ClusterSpec
from tarn.errors import ConfigError
from tarn.interfaces import ClientContext, Finding, RuntimeCapabilities, Staged
from tarn.plain import masked
from tarn.plugins import Plugins
from tarn.triton import fitting, mounts, repository

__all__ = ["examined", "guessed", "look", "stage"]


def stage(spec: ClusterSpec, plugins: Plugins, context: ClientContext) -> Staged:
    """Make the repository usable for instances; a copy is made only where it is needed.

    Raises:
        StorageError: Missing, unreadable, or not enough space.
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
    """Return what `stage` would return, as far as that is known without copying.

    Raises:
        ProviderMissingError: No storage takes the URI, or its modules are not installed.
    """
    unmoved = _unmoved(spec, _capabilities(spec, plugins))
    if unmoved is not None:
        return unmoved
    plugins.storage_for(spec.models.repository)
    if "://" in spec.models.repository:
        return Staged(f"<copy of {masked(spec.models.repository)}>", "local")
    return Staged(spec.models.repository, "in_place")


def examined(spec: ClusterSpec, plugins: Plugins, environ: Mapping[str, str]) -> Iterator[Finding]:
    """Yield what is wrong with test requests, metrics and repository, as far as this machine sees.

    A URI is looked at once it is staged, or by the runtime that reads it.

    Raises:
        ConfigError: A directory cannot be read.
    """
    yield from look_at_tests(spec)
    yield from _unmeasured(spec)
    location, remote = spec.models.repository, _capabilities(spec, plugins).remote
    if "://" in location:
        if remote and spec.instance.warmup is not None:
            yield _no_warmup(spec)
    elif not remote:
        yield from look(location, spec, environ)
    elif (away := mounts.unanswered(Path(location), "models.repository")) is not None:
        yield attrs.evolve(away, fatal=False)
    elif not Path(location).is_dir():
        yield _elsewhere(location)
    else:
        with contextlib.suppress(OSError):  # perhaps only the nodes' user may read it
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
    """Yield what is wrong with a repository that lies on this machine, and is used here.

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
    """Return the repository where it is, if the instances' machines use it there."""
    location = spec.models.repository
    if not runtime.remote:
        return None
    if "://" not in location:
        return Staged(location, "in_place")
    return Staged(location, "localize") if urlsplit(location).scheme in runtime.reads else None


def _no_warmup(spec: ClusterSpec) -> Finding:
    return Finding(
        "TARN-2004",
        f"instance.warmup = '{spec.instance.warmup}'",
        "the requests are in a repository at a URI, which the master of a remote runtime cannot "
        "read in this version",
        "Set models.repository to a path that the nodes have mounted, or remove instance.warmup",
    )


def _elsewhere(location: str) -> Finding:
    return Finding(
        "TARN-2200",
        f"models.repository = '{location}'",
        "is not a directory on this machine; it must be one on every node where instances may run",
        "Check the path on the nodes; TARN copies only a repository at a URI to them",
        fatal=False,
    )
