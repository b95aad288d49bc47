"""What ``runtime.options.docker`` may say, and which of its parts contradict one another. Pure.

Names and forms are those of Hadoop 3.4.2 (``DockerLinuxContainerRuntime``, ``docker-util.c``), and
narrower where a shell could make something of a character: YARN writes all of it into a script.
"""

import posixpath
import re
from collections.abc import Iterable, Iterator, Sequence

import attrs

from tarn.domain import ClusterSpec
from tarn.domain.spec import TritonSpec
from tarn.interfaces import Finding
from tarn_plugins.runtime.yarn import Docker
from tarn_plugins.runtime.yarn.launch.ports import wanted_ports

__all__ = ["HOST", "REPOSITORY", "SHM", "DockerMount", "mount", "notes", "own_ports", "problems"]

HOST = "host"
"""The network that makes a container's ports the node's own."""
REPOSITORY = "/models"
"""Where the model repository is in every container of Docker's."""
SHM = "/dev/shm"  # noqa: S108 (a path in the container)
"""A tmpfs of the container's own; its size cannot be asked for."""

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


@attrs.frozen
class DockerMount:
    """One entry of ``mounts``."""

    source: str
    destination: str
    """Without a slash at the end, or ``..`` in it."""


def mount(text: str) -> DockerMount | None:
    """Return what ``source:/destination[:mode]`` says; None where it has another form."""
    found = _MOUNT.fullmatch(text)
    if found is None:
        return None
    return DockerMount(found["source"], posixpath.normpath(found["destination"]))


def own_ports(triton: TritonSpec) -> tuple[int, ...]:
    """Return the ports at which a first instance listens, without those that are chosen late."""
    return tuple(port for port in wanted_ports(triton) if port)


def problems(
    docker: Docker, triton: TritonSpec, repository: str, ports: Iterable[int]
) -> Iterator[Finding]:
    """Yield everything that no container can be started with.

    Args:
        docker: ``runtime.options.docker``.
        triton: The image, and where it listens.
        repository: A path of the nodes, or a URI that is brought to them.
        ports: Where instances listen.
    """
    yield from _names(docker, triton)
    yield from _network(docker, triton)
    yield from _mounts(docker.mounts, repository)
    yield from _ports(docker.ports, frozenset(ports))


def notes(docker: Docker, spec: ClusterSpec) -> Iterator[Finding]:
    """Yield what works less well than it may seem."""
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
            "image",
            "registry/name:tag, the name in lower case",
        ),
        (f"{_WHERE}.network", docker.network, _WORD, "network", "host"),
        (f"{_WHERE}.gpu_runtime", docker.gpu_runtime or "none", _WORD, "runtime", "nvidia"),
    )
    for where, value, form, kind, right in named:
        if not form.fullmatch(value):
            yield _wrong(where, f"= {value!r} is not the name of {_article(kind)}", right)


def _article(kind: str) -> str:
    return f"an {kind}" if kind[0] in "aeiou" else f"a {kind}"


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


def _mounts(texts: Sequence[str], repository: str) -> Iterator[Finding]:
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


def _ports(texts: Sequence[str], own: frozenset[int]) -> Iterator[Finding]:
    where = f"{_WHERE}.ports"
    seen: dict[str, str] = {}
    for text in texts:
        found = _PORTS.fullmatch(text)
        if found is None or not _in_range(found["inner"], found["host"] or found["inner"]):
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


def _in_range(*ports: str) -> bool:
    return all(0 < int(port) <= _LAST_PORT for port in ports)


def _wrong(where: str, found: str, right: str) -> Finding:
    return Finding("TARN-2002", where, found, f"Expected {right}")


def _clash(where: str, found: str, step: str) -> Finding:
    return Finding("TARN-2003", where, found, step)
