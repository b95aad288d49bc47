"""The settings for YARN's Docker runtime, and what it refuses. Pure.

Names and forms are those of Hadoop 3.4.2 (``DockerLinuxContainerRuntime``, ``docker-util.c``), but
without characters that a shell interprets: YARN writes all of them into a script, where ``$(...)``
would run.
"""

import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

import attrs

from tarn.domain import ClusterSpec, Endpoint, Launch
from tarn.domain.spec import TritonSpec
from tarn.errors import LaunchError
from tarn.interfaces import Finding
from tarn_plugins.runtime.yarn import Docker

__all__ = ["HOST", "REPOSITORY", "environment", "notes", "problems"]

# On this network, a container's ports are the node's.
HOST = "host"
# The place of the model repository in every Docker container.
REPOSITORY = "/models"
# A tmpfs of each container, whose size cannot be set.
SHM = "/dev/shm"  # noqa: S108 (a path in the container)

_WHERE = "runtime.options.docker"
_IMAGE = re.compile(
    r"([a-zA-Z0-9.-]+(:[0-9]+)?/)?[a-z0-9_./-]+(:[a-zA-Z0-9_.-]+)?(@sha256:[a-z0-9]{12,64})?"
)
_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_PATH = r"[A-Za-z0-9_./@+=-]+"
_PLAIN_PATH = re.compile(rf"/{_PATH}")
_MOUNT = re.compile(
    rf"(?P<source>{_PATH}):(?P<destination>/{_PATH})"
    r"(:(?P<mode>r[ow]|(r[ow]\+)?(r?shared|r?slave|r?private)))?"
)
_PORTS = re.compile(r"((?P<address>[0-9]{1,3}(\.[0-9]{1,3}){3}):)?(?P<host>\d*):(?P<inner>\d{1,5})")
_LAST_PORT = 65_535
_EVERYWHERE = frozenset({None, "0.0.0.0", "::"})  # noqa: S104 (compared, not bound)
_CHARACTERS = "letters, digits and _ . / @ + = -"

_PREFIX = "YARN_CONTAINER_RUNTIME_DOCKER_"


@attrs.frozen
class DockerMount:
    """One entry of ``mounts``."""

    source: str
    destination: str
    """Normalized: without a slash at the end, or ``..``."""


def mount(text: str) -> DockerMount | None:
    """Parse ``source:/destination[:mode]``; return None for another form."""
    found = _MOUNT.fullmatch(text)
    if found is None:
        return None
    return DockerMount(found["source"], posixpath.normpath(found["destination"]))


def problems(
    docker: Docker, triton: TritonSpec, repository: str, ports: Iterable[int]
) -> Iterator[Finding]:
    """Yield the settings with which no container can start.

    Args:
        docker: ``runtime.options.docker``.
        triton: The image, and its address.
        repository: A path on the nodes, or a URI that they localize.
        ports: The ports of instances.
    """
    yield from _names(docker, triton)
    yield from _network(docker, triton)
    yield from _mount_findings(docker.mounts, repository)
    yield from _port_findings(docker.ports, frozenset(ports))


def notes(docker: Docker, spec: ClusterSpec) -> Iterator[Finding]:
    """Yield warnings about settings that do not work as expected."""
    if docker.privileged:
        found = (
            "YARN's newer container-executors start privileged containers only by their image's "
            "entry point, and so cannot start an instance"
        )
        step = "Remove it, unless you know that it works on your nodes"
        yield Finding("TARN-3155", f"{_WHERE}.privileged", found, step, fatal=False)
    if not docker.ports:
        return
    where = f"{_WHERE}.ports"
    if docker.network == HOST:
        found = "has no effect: on the network 'host' a container has all ports of its node"
        yield Finding("TARN-2005", where, found, "Remove it", fatal=False)
    elif spec.placement.spread == "none":
        found = "two instances on one node cannot both have these ports; the second would not start"
        step = "Remove it, or set placement.spread to node"
        yield Finding("TARN-2003", where, found, step, fatal=False)


def _names(docker: Docker, triton: TritonSpec) -> Iterator[Finding]:
    named = (
        (
            "triton.image",
            triton.image,
            _IMAGE,
            "an image",
            "registry/name:tag, the name in lower case",
        ),
        (f"{_WHERE}.network", docker.network, _WORD, "a network", "host"),
        (f"{_WHERE}.gpu_runtime", docker.gpu_runtime or "none", _WORD, "a runtime", "nvidia"),
    )
    for where, value, form, kind, right in named:
        if not form.fullmatch(value):
            yield _wrong(where, f"= {value!r} is not the name of {kind}", right)


def _network(docker: Docker, triton: TritonSpec) -> Iterator[Finding]:
    if docker.network == "none":
        found = "= 'none': nothing could reach Triton, and no instance would ever be ready"
        yield _clash(f"{_WHERE}.network", found, "Choose host, or bridge")
    elif docker.network != HOST and triton.bind not in _EVERYWHERE:
        found = (
            f"= {triton.bind!r} is an address of the node; a container on the network "
            f"'{docker.network}' has none of the node's addresses"
        )
        yield _clash("triton.bind", found, f"Remove it, or set {_WHERE}.network to host")


def _mount_findings(texts: Sequence[str], repository: str) -> Iterator[Finding]:
    where, localized = f"{_WHERE}.mounts", "://" in repository
    seen: dict[str, str] = {}
    for text in texts:
        read = mount(text)
        if read is None:
            right = f"source:/destination:ro or :rw, of {_CHARACTERS}"
            yield _wrong(where, f"has {text!r}", right)
            continue
        yield from _one_mount(text, read, where, localized=localized)
        if read.destination in seen:
            found = f"has '{read.destination}' twice: {seen[read.destination]!r} and {text!r}"
            yield _clash(where, found, "Remove one of them")
        seen[read.destination] = text
    if not localized and REPOSITORY not in seen and not _absolute(repository):
        found = f"= {repository!r} cannot be mounted at {REPOSITORY}: YARN takes {_CHARACTERS}"
        step = "Use an absolute path of these characters, without '..'"
        yield _clash("models.repository", found, step)


def _one_mount(text: str, read: DockerMount, where: str, *, localized: bool) -> Iterator[Finding]:
    if not _absolute(read.source):
        found = f"has {text!r}, whose source is not an absolute path on the nodes without '..'"
        yield _wrong(where, found, f"/absolute/source:{read.destination}:ro")
    taken = {SHM: "the shared memory of Triton's Python models"}
    if localized:
        taken[REPOSITORY] = "the model repository, which YARN mounts"
    for path, what in taken.items():
        if read.destination == path or read.destination.startswith(f"{path}/"):
            yield _clash(where, f"has {text!r}; at {path} is {what}", "Choose another destination")


def _absolute(path: str) -> bool:
    return _PLAIN_PATH.fullmatch(path) is not None and ".." not in path.split("/")


def _port_findings(texts: Sequence[str], own: frozenset[int]) -> Iterator[Finding]:
    where = f"{_WHERE}.ports"
    seen: dict[str, str] = {}
    for text in texts:
        found = _PORTS.fullmatch(text)
        ports = () if found is None else (found["inner"], found["host"] or found["inner"])
        if found is None or not all(0 < int(port) <= _LAST_PORT for port in ports):
            yield _wrong(where, f"has {text!r}", "host:container, like 9000:9000")
            continue
        host = found["host"].lstrip("0")
        if not host:
            continue  # Docker chooses one
        if int(host) in own:
            said = f"has {text!r}; port {host} is Triton's own, and is mapped automatically"
            yield _clash(where, said, "Remove it, or choose another port")
        if host in seen:
            said = f"has port {host} of the node twice: {seen[host]!r} and {text!r}"
            yield _clash(where, said, "Remove one of them")
        seen[host] = text


def _wrong(where: str, found: str, right: str) -> Finding:
    return Finding("TARN-2002", where, found, f"Expected {right}")


def _clash(where: str, found: str, step: str) -> Finding:
    return Finding("TARN-2003", where, found, step)


def environment(
    docker: Docker, launch: Launch, container_id: str, endpoint: Endpoint | None = None
) -> Mapping[str, str]:
    """Return the variables of a container for YARN, which does not keep them secret.

    Args:
        docker: ``runtime.options.docker``.
        launch: What to serve.
        container_id: YARN's name of the container.
        endpoint: Triton's; None: no port is mapped.

    Raises:
        LaunchError: A setting is not possible (final).
    """
    ports = (
        () if endpoint is None else (endpoint.http_port, endpoint.grpc_port, endpoint.metrics_port)
    )
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
    # If YARN's override were disabled, the image's entry point would run without the launch script:
    # without localized files and redirections.
    yield "RUN_OVERRIDE_DISABLE", "false"
    yield "CONTAINER_NETWORK", docker.network
    localized = "://" in launch.repository
    # Docker's own /dev/shm of 64 MB is too small for a third Python model, and YARN accepts no
    # size. The run script links localized models in a tmpfs at /models, which needs no permission,
    # as a mount would.
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
    """Return the user's mounts, and that of the repository unless they contain it."""
    held = {read.destination for read in map(mount, docker.mounts) if read is not None}
    if localized or REPOSITORY in held:
        return docker.mounts
    return (f"{repository}:{REPOSITORY}:ro", *docker.mounts)
