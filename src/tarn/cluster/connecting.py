"""`connect`: find a cluster by name, even if another machine started it."""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import cast

import attrs

from tarn import config
from tarn.cluster.entries import choose, reference
from tarn.cluster.environment import ClusterEnvironment, current_environment
from tarn.cluster.handle import Cluster
from tarn.cluster.inspection import Inspection
from tarn.cluster.link import NOT_RUNNING_STEP
from tarn.domain import ClusterSpec, Epoch
from tarn.errors import ConfigError, NotFoundError, TarnError, UnreachableError
from tarn.hookspecs import RuntimeFactory
from tarn.interfaces import ClusterRef, Deployer, Progress

__all__ = ["connect", "inspect", "remembered"]

# Errors of a runtime whose client is not installed here: it cannot be the cluster's.
_NOT_HERE = ("TARN-3120", "TARN-3121", "TARN-3122", "TARN-6001")


def connect(name: str, *, environment: ClusterEnvironment | None = None) -> Cluster:
    """Return a cluster that was started before, by its name.

    If this machine does not know the cluster, the runtimes on other machines are asked. A cluster
    that has ended is found as long as its runtime remembers it.

    Raises:
        NotFoundError: This user has no cluster of that name.
        UnreachableError: A runtime that might know it does not answer.
    """
    around = environment or current_environment()
    cluster, directory = Cluster.named(name, around), around.paths.cluster(name)
    kept, spec = reference(directory) is not None, (directory / "spec.yaml").is_file()
    if spec and (kept or _knows(cluster.source.deployer, name)):
        return cluster
    deployer, silent = (None, "") if spec else _who_knows(name, around)
    if deployer is not None:
        return Cluster.named(name, around, deployer)
    if kept:
        return cluster
    if silent:
        raise UnreachableError(f"it is not known whether cluster '{name}' runs: {silent}")
    raise NotFoundError(
        f"cluster '{name}' does not run",
        next_step=NOT_RUNNING_STEP,
    )


def remembered(name: str, *, environment: ClusterEnvironment | None = None) -> Cluster:
    """Return a cluster as `connect` does, or one that has ended and left only logs here.

    Raises:
        NotFoundError, UnreachableError: As `connect`.
    """
    around = environment or current_environment()
    try:
        return connect(name, environment=around)
    except NotFoundError:
        if not (around.paths.cluster(name) / "logs").is_dir():
            raise
        factories = cast("Mapping[str, RuntimeFactory]", around.plugins().offers("runtime"))
        for use in (use for use, made in factories.items() if not made.capabilities.remote):
            deployer = around.deployer(use, {})
            if deployer.logged(ClusterRef(name, use, Epoch(0, 0))):
                return Cluster.named(name, around, deployer)
        raise


def _knows(deployer: Deployer, name: str) -> bool:
    return deployer.find(name) is not None or deployer.ended(name) is not None


def _who_knows(name: str, around: ClusterEnvironment) -> tuple[Deployer | None, str]:
    """Return the deployer that knows the cluster *name*, and why others did not answer.

    Only remote runtimes are asked. As a side effect, a deployer that knows a live cluster fetches
    its reference, api token and spec to this machine.
    """
    silent = []
    for use, options in _runtimes(name, around):
        try:
            deployer = around.deployer(use, options)
            known = _knows(deployer, name)
        except TarnError as error:
            if error.code not in _NOT_HERE:
                silent.append(f"{use} could not be asked: {error}")
            continue
        if known:
            return deployer, ""
    return None, "; ".join(silent)


def _runtimes(name: str, around: ClusterEnvironment) -> Iterator[tuple[str, Mapping[str, object]]]:
    """Yield each remote runtime with its options: those of ./tarn.yaml, or the defaults."""
    factories = cast("Mapping[str, RuntimeFactory]", around.plugins().offers("runtime"))
    offered = {
        use: dict[str, object]() for use, made in factories.items() if made.capabilities.remote
    }
    file = Path("tarn.yaml")
    if offered and file.is_file():
        try:
            spec = config.load(file, environ=around.environ).spec
        except TarnError:  # an invalid tarn.yaml is reported by the commands that need it
            spec = None
        if spec is not None and spec.name == name and spec.runtime.use in offered:
            offered.pop(spec.runtime.use)
            yield spec.runtime.use, spec.runtime.options
    yield from offered.items()


def inspect(
    name: str | None,
    file: Path | None,
    around: ClusterEnvironment,
    progress: Callable[[Progress], None],
    done: Callable[[], None],
) -> Inspection:
    """Return the inspection of a cluster for a plugin's tool, even if it cannot be reached.

    Args:
        name: The cluster; None: the one that `choose` finds, or without one, this machine only.
        file: Its ``tarn.yaml``, if the spec is not kept here; None: ``./tarn.yaml``.
        around: The environment of this process.
        progress: Called with each step.
        done: Called at the end, to finish the output of *progress*.

    Raises:
        NotFoundError, UnreachableError: Nothing is known under *name*.
        ConfigError: *file* is invalid, or is the spec of another cluster.
    """
    if name is None:
        try:
            name = choose(around)
        except NotFoundError:
            if file is None:
                return Inspection(around, progress=progress, done=done)
            name = config.load(file, environ=around.environ).spec.name
    planned = _planned(name, file, around)
    try:
        cluster = connect(name, environment=around)
    except (NotFoundError, UnreachableError) as error:
        if planned is None and not around.paths.cluster(name).is_dir():
            raise
        return Inspection(around, name, planned, unknown=error, progress=progress, done=done)
    return attrs.evolve(Inspection.of(cluster, around, progress, planned), done=done)


def _planned(name: str, file: Path | None, around: ClusterEnvironment) -> ClusterSpec | None:
    """Return the spec in *file*, or the one in ./tarn.yaml if it is of this cluster."""
    if file is None:
        with contextlib.suppress(TarnError):
            spec = config.load(Path("tarn.yaml"), environ=around.environ).spec
            return spec if spec.name == name else None
        return None
    spec = config.load(file, environ=around.environ).spec
    if spec.name != name:
        raise ConfigError(f"is the spec of '{spec.name}', not of '{name}'", where=str(file))
    return spec
