"""The image of ``triton.image`` as YARN's Docker runtime wants to be told. Pure.

YARN writes these variables into a shell script, where ``$(...)`` would run: `docker_rules` lets
nothing pass that could mean anything to a shell. The names are those of Hadoop 3.4.2.
"""

from collections.abc import Iterator, Mapping, Sequence

from tarn.domain import Endpoint, Launch
from tarn.errors import LaunchError
from tarn_plugins.runtime.yarn import Docker
from tarn_plugins.runtime.yarn.launch.docker_rules import HOST, REPOSITORY, SHM, mount, problems

__all__ = ["environment"]

_PREFIX = "YARN_CONTAINER_RUNTIME_DOCKER_"


def environment(
    docker: Docker, launch: Launch, container_id: str, endpoint: Endpoint | None = None
) -> Mapping[str, str]:
    """Return the variables of a container; YARN reads them, and hides them from nobody.

    Args:
        docker: ``runtime.options.docker``.
        launch: What to serve.
        container_id: YARN's name of the container.
        endpoint: Where Triton listens; None: nothing listens, so no port is mapped.

    Raises:
        LaunchError: A setting cannot be passed on (final).
    """
    ports = () if endpoint is None else _ports(endpoint)
    for finding in problems(docker, launch.triton, launch.repository, ports):
        raise LaunchError(
            "yarn", finding.found, code=finding.code, where=finding.where,
            next_step=finding.next_step,
        )  # fmt: skip
    return {
        "YARN_CONTAINER_RUNTIME_TYPE": "docker",
        **{_PREFIX + name: value for name, value in _settings(docker, launch, container_id, ports)},
    }


def _settings(
    docker: Docker, launch: Launch, container_id: str, ports: Sequence[int]
) -> Iterator[tuple[str, str]]:
    yield "IMAGE", launch.triton.image
    # With the override disabled there is no launch script: no localized files, no redirections.
    yield "RUN_OVERRIDE_DISABLE", "false"
    yield "CONTAINER_NETWORK", docker.network
    localized = "://" in launch.repository
    # Docker's own /dev/shm of 64 MB ends with the third Python model; YARN takes no size. A tmpfs
    # at /models is where `run_script` shows what YARN has brought: no mount, so no permission.
    yield "TMPFS_MOUNTS", f"{SHM},{REPOSITORY}" if localized else SHM
    if mounts := _mounts(docker, launch.repository, localized=localized):
        yield "MOUNTS", ",".join(mounts)
    if docker.network != HOST:  # on the host's network it has the host's name, and its ports
        yield "CONTAINER_HOSTNAME", container_id
        if ports:
            own = (f"{port}:{port}" for port in ports)
            yield "PORTS_MAPPING", ",".join((*own, *docker.ports))
    if docker.privileged:
        yield "RUN_PRIVILEGED_CONTAINER", "true"
    if docker.delayed_removal:
        yield "DELAYED_REMOVAL", "true"
    if launch.instance.resources.gpus and docker.gpu_runtime:
        yield "RUNTIME", docker.gpu_runtime


def _mounts(docker: Docker, repository: str, *, localized: bool) -> tuple[str, ...]:
    """Return the user's mounts, and the repository's where none of them is at its place."""
    held = {read.destination for read in map(mount, docker.mounts) if read is not None}
    if localized or REPOSITORY in held:
        return docker.mounts
    return (f"{repository}:{REPOSITORY}:ro", *docker.mounts)


def _ports(endpoint: Endpoint) -> tuple[int, int, int]:
    return endpoint.http_port, endpoint.grpc_port, endpoint.metrics_port
