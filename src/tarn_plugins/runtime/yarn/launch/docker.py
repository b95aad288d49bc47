"""The image of ``triton.image`` as YARN's Docker runtime wants to be told. Pure.

YARN writes these variables into a shell script, where ``$(...)`` would run. So each is held against
the characters that its kind can need, and none of them can mean anything to a shell.
"""

import re
from collections.abc import Iterator, Mapping

from tarn.domain import Launch
from tarn.errors import LaunchError
from tarn_plugins.runtime.yarn import Docker

__all__ = ["environment", "problems"]

_PREFIX = "YARN_CONTAINER_RUNTIME_DOCKER_"
_IMAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/:@+-]*")
_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_PATH = r"[A-Za-z0-9_./@+=-]+"
_MOUNT = re.compile(rf"{_PATH}:/{_PATH}(:r[ow])?")
_PORTS = re.compile(r"[0-9]{1,5}:[0-9]{1,5}")

HOST = "host"
"""The network that makes a container's ports the node's own."""


def problems(docker: Docker, image: str) -> Iterator[tuple[str, str, str]]:
    """Yield (key, what is wrong, what would be right) for what no container can be given."""
    if not _IMAGE.fullmatch(image):
        yield "triton.image", f"= '{image}' is no name of an image", "registry/name:tag"
    where = "runtime.options.docker"
    if not _WORD.fullmatch(docker.network):
        yield f"{where}.network", f"= '{docker.network}' is no name of a network", "host"
    if docker.gpu_runtime and not _WORD.fullmatch(docker.gpu_runtime):
        yield f"{where}.gpu_runtime", f"= '{docker.gpu_runtime}' is no name of a runtime", "nvidia"
    right = "source:/destination:ro or :rw, of letters, digits and _ . / @ + = -"
    for mount in docker.mounts:
        if not _MOUNT.fullmatch(mount):
            yield f"{where}.mounts", f"has '{mount}'", right
    for ports in docker.ports:
        if not _PORTS.fullmatch(ports):
            yield f"{where}.ports", f"has '{ports}'", "host:container, like 8000:8000"


def environment(docker: Docker, launch: Launch, container_id: str) -> Mapping[str, str]:
    """Return the variables of a container; YARN reads them, and hides them from nobody.

    Raises:
        LaunchError: A setting cannot be passed on (final).
    """
    for where, found, right in problems(docker, launch.triton.image):
        raise LaunchError("yarn", found, where=where, right=f"Right would be {right}")
    return {
        "YARN_CONTAINER_RUNTIME_TYPE": "docker",
        **{_PREFIX + name: value for name, value in _settings(docker, launch, container_id)},
    }


def _settings(docker: Docker, launch: Launch, container_id: str) -> Iterator[tuple[str, str]]:
    yield "IMAGE", launch.triton.image
    # With the override disabled there is no launch script: no localized files, no redirections.
    yield "RUN_OVERRIDE_DISABLE", "false"
    yield "CONTAINER_NETWORK", docker.network
    # Docker's own /dev/shm of 64 MB ends with the third Python model; YARN takes no size.
    yield "TMPFS_MOUNTS", "/dev/shm"  # noqa: S108 (a path in the container)
    if docker.network != HOST:  # on the host's network it has the host's name
        yield "CONTAINER_HOSTNAME", container_id
    if docker.privileged:
        yield "RUN_PRIVILEGED_CONTAINER", "true"
    if docker.delayed_removal:
        yield "DELAYED_REMOVAL", "true"
    if docker.mounts:
        yield "MOUNTS", ",".join(docker.mounts)
    if docker.ports:
        yield "PORTS_MAPPING", ",".join(docker.ports)
    if launch.instance.resources.gpus and docker.gpu_runtime:
        yield "RUNTIME", docker.gpu_runtime
