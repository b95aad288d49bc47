"""Contexts, specs and launches like those of a master, for tests."""

import os
from collections.abc import Callable
from pathlib import Path

from tarn.clock import SystemClock
from tarn.domain import ClusterSpec, Epoch, Launch
from tarn.domain.spec import ModelsSpec
from tarn.interfaces import ClientContext, Clock, MasterContext, Paths

__all__ = [
    "client_context",
    "cluster_spec",
    "launch_of",
    "master_context",
]


_ENVIRON = {"PATH": os.defpath}


def cluster_spec(name: str = "fleet", repository: str = "/models") -> ClusterSpec:
    """Return the smallest spec; change parts of it with `attrs.evolve`."""
    return ClusterSpec(name, ModelsSpec(repository))


def launch_of(spec: ClusterSpec, spec_hash: str = "aaaaaaaaaaaa") -> Launch:
    """Return the launch of an instance of *spec*, with the repository in place."""
    return Launch(spec.models, spec.triton, spec.instance, spec.models.repository, spec_hash)


def client_context(directory: Path, clock: Clock | None = None) -> ClientContext:
    """Return a client's context whose home and cache are below *directory*."""
    paths = Paths(directory / "home", directory / "cache")
    return ClientContext(clock or SystemClock(), dict(_ENVIRON), paths)


def master_context(
    root: Path,
    *,
    spec: ClusterSpec | None = None,
    epoch: Epoch | None = None,
    clock: Clock | None = None,
    wake: Callable[[], None] = lambda: None,
) -> MasterContext:
    """Return a master's context; its cluster's directory is created below *root*."""
    client = client_context(root, clock)
    spec = spec or cluster_spec()
    directory = client.paths.cluster(spec.name)
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    return MasterContext(
        client.clock,
        client.environ,
        client.paths,
        spec,
        epoch or Epoch(1, 1),
        directory,
        wake,
    )
