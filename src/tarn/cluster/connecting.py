"""`connect`: a cluster by its name, also one that was started from another machine or home."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import cast

from tarn import config
from tarn.cluster.entries import reference
from tarn.cluster.environment import ClusterEnvironment, current_environment
from tarn.cluster.handle import Cluster
from tarn.cluster.link import NOT_RUNNING_STEP
from tarn.domain import Epoch
from tarn.errors import NotFoundError, TarnError, UnreachableError
from tarn.hookspecs import RuntimeFactory
from tarn.interfaces import ClusterRef, Deployer

__all__ = ["connect", "remembered"]

_NOT_HERE = ("TARN-3120", "TARN-3121", "TARN-3122", "TARN-6001")
"""This machine has no client of that runtime, so nothing of it can be meant."""


def connect(name: str, *, environment: ClusterEnvironment | None = None) -> Cluster:
    """Return a cluster that was started before, here or in another process, by its name.

    One of which nothing is kept here is looked for where masters run on other machines. One that
    is over is found as long as its runtime remembers it.

    Raises:
        NotFoundError: This user has no cluster of that name.
        UnreachableError: A runtime that might know it could not be asked.
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
    """Return a cluster as `connect` does, or one that is over and left nothing but logs here.

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
    """Return who knows a cluster *name* that runs or ran, and why others could not be asked.

    Runtimes whose masters run on other machines are asked: the one that ``./tarn.yaml`` names,
    where it is of this cluster, with its options; every other one with its defaults. What this
    machine lacks of a live cluster (reference, api token, spec) is fetched by asking.
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
    """Yield runtimes that reach beyond this machine, with options."""
    factories = cast("Mapping[str, RuntimeFactory]", around.plugins().offers("runtime"))
    offered = {
        use: dict[str, object]() for use, made in factories.items() if made.capabilities.remote
    }
    file = Path("tarn.yaml")
    if offered and file.is_file():
        try:
            spec = config.load(file, environ=around.environ).spec
        except TarnError:  # it is of no help; whoever uses it says what is wrong with it
            spec = None
        if spec is not None and spec.name == name and spec.runtime.use in offered:
            offered.pop(spec.runtime.use)
            yield spec.runtime.use, spec.runtime.options
    yield from offered.items()
