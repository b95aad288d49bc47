"""What no container could be started with, known before YARN is asked. Pure but `stubs`."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from tarn.domain import ClusterSpec
from tarn.interfaces import Finding
from tarn.triton.lint import Stubs
from tarn_plugins.runtime.yarn import Docker
from tarn_plugins.runtime.yarn.client.overview import YarnOverview
from tarn_plugins.runtime.yarn.launch import docker_rules, python_models, shared_memory

__all__ = ["findings", "stubs"]


def findings(
    spec: ClusterSpec, docker: Docker | None, overview: YarnOverview, local: Sequence[Stubs] = ()
) -> Iterator[Finding]:
    """Yield everything, at once.

    Args:
        spec: The cluster.
        docker: ``runtime.options.docker``.
        overview: What YARN told; an empty one where it told nothing.
        local: See `stubs`.
    """
    if docker is not None:
        ports = docker_rules.own_ports(spec.triton)
        yield from docker_rules.problems(docker, spec.triton, spec.models.repository, ports)
        yield from docker_rules.notes(docker, spec)
    largest_mib = overview.maximum.get("memory-mb", 0)
    yield from shared_memory.findings(spec, docker, overview.python or local, largest_mib)


def stubs(spec: ClusterSpec) -> tuple[Stubs, ...]:
    """Return the Python models of a repository at a path, as far as this machine sees it."""
    location = spec.models.repository
    return () if "://" in location else python_models.at(Path(location))
