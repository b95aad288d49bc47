"""Explain why YARN's Docker runtime did not start a container, or Docker ended it. Pure.

Texts are matched, not exit codes, which differ between versions of Hadoop. Sources:
``DockerLinuxContainerRuntime`` and ``OCIContainerRuntime`` of Hadoop 3.4.2, ``docker-util.c`` (in
the wording of several versions), Docker's own client and daemon.

A failure is *permanent* if every node refuses this spec. If only one node lacks something, it is a
fault of the node, and another one is tried.
"""

import enum
import re
from collections.abc import Iterator
from typing import Final

import attrs

from tarn.plain import masked

__all__ = ["DockerFailure", "docker_failure"]


SITE = "in yarn-site.xml of the NodeManagers"
CFG = "in the section [docker] of container-executor.cfg on the NodeManagers' nodes"
DOCKER = "runtime.options.docker"
RUNTIME = "yarn.nodemanager.runtime.linux"


class Blame(enum.Enum):
    """The cause, which decides what is tried next."""

    SPEC = enum.auto()
    """Every node refuses this spec; nothing is retried."""
    NODE = enum.auto()
    """This node lacks something; another node is tried."""
    PORT = enum.auto()
    """Another program has the port on this node; the next set is tried."""
    NOBODY = enum.auto()
    """It may work later."""


@attrs.frozen
class FailurePattern:
    """A kind of failure. The texts refer to named groups of *pattern*."""

    code: str
    pattern: re.Pattern[str]
    found: str
    step: str
    blame: Blame
    needs: str = ""
    """A text that the diagnostics must also contain."""


def row(  # noqa: PLR0913, PLR0917
    code: str, blame: Blame, pattern: str, found: str, step: str, needs: str = ""
) -> FailurePattern:
    """Return one row of the table."""
    return FailurePattern(code, re.compile(pattern), found, step, blame, needs)


_NAMES = (
    row("TARN-3152", Blame.SPEC,
        r"image: (?P<image>\S+) is not trusted",
        "the nodes do not trust the image '{image}'",
        f"Add '{{registry}}' to docker.trusted.registries {CFG}, or use an image from a "
        "registry that is listed"),
    row("TARN-3150", Blame.SPEC,
        r"Image name '(?P<image>[^'\n]*)' doesn't match docker image name pattern",
        "YARN does not accept '{image}' as the name of an image",
        "Correct triton.image: registry/name:tag, the name in lower case"),
    row("TARN-3150", Blame.SPEC,
        r"error message='Invalid docker image name'",
        "container-executor does not accept the image's name",
        "Correct triton.image: some versions of container-executor accept a tag, but not a "
        "digest (@sha256)"),
    row("TARN-3150", Blame.SPEC,
        r"YARN_CONTAINER_RUNTIME_DOCKER_IMAGE not set",
        "no image was named",
        "Set triton.image"),
    row("TARN-3150", Blame.SPEC,
        r"Unable to parse (?:user supplied mount list|some mounts in user supplied mount list): "
        r"?(?P<what>[^\n]*)",
        "YARN cannot read the mounts '{what}'",
        f"Correct {DOCKER}.mounts: /source:/destination:ro or :rw"),
    row("TARN-3150", Blame.SPEC,
        r"Mount (?:must be a localized resource|must be absolute|cannot be a symlink): "
        r"?(?P<what>[^\n]*)",
        "YARN will not mount '{what}': the source must be the absolute path of a directory or file",
        f"Correct {DOCKER}.mounts"),
    row("TARN-3150", Blame.SPEC,
        r"Invalid tmpfs mount : ?(?P<what>[^\n]*)",
        "YARN will not mount the tmpfs '{what}': it must not have a size",
        f"Correct {RUNTIME}.docker.default-tmpfs-mounts {SITE}: paths only"),
    row("TARN-3150", Blame.NODE,
        r"Invalid mount : ?(?P<what>[^\n]*)",
        "YARN's own default mount '{what}' is malformed",
        f"Correct {RUNTIME}.docker.default-ro-mounts or default-rw-mounts {SITE}"),
    row("TARN-3150", Blame.SPEC,
        r"Invalid port mappings: ?(?P<what>[^\n]*)",
        "YARN cannot read the port '{what}'",
        f"Correct {DOCKER}.ports: host:container"),
)  # fmt: skip

_NETWORKS = (
    row("TARN-3153", Blame.SPEC,
        r"Disallowed network: +'(?P<name>[^'\n]*)' specified\. Allowed networks: are "
        r"\[(?P<allowed>[^\]\n]*)\]",
        "YARN does not allow the network '{name}'; it allows {allowed}",
        f"Set {DOCKER}.network to one of them, or add '{{name}}' to {RUNTIME}.docker."
        f"allowed-container-networks {SITE}"),
    row("TARN-3153", Blame.SPEC,
        r"Invalid param '(?P<name>[^'\n]*)' requested[^\n]*\s+Could not find requested network",
        "the nodes do not allow the network '{name}'",
        f"Add '{{name}}' to docker.allowed.networks {CFG}, or set another {DOCKER}.network"),
    row("TARN-3153", Blame.SPEC,
        r"error message='Invalid docker network'",
        "the nodes do not allow the network",
        f"Add it to docker.allowed.networks {CFG}, or set another {DOCKER}.network"),
    row("TARN-3153", Blame.NODE,
        r"docker: Error response from daemon: network (?P<name>\S+) not found",
        "Docker on the node has no network '{name}'",
        f"Make it there (docker network create), or set {DOCKER}.network to host"),
    row("TARN-3103", Blame.PORT,
        r"Bind for \S*:(?P<port>\d+) failed: port is already allocated"
        r"|listen \w+ \S*:(?P<again>\d+): bind: address already in use",
        "a port of the container is already in use on the node ({daemon})",
        f"TARN tries the next ports; if it is one of {DOCKER}.ports, choose another",
        needs="docker: "),
)  # fmt: skip

_MOUNTS = (
    row("TARN-3154", Blame.NODE,
        r"Unable to find permitted docker mounts on disk",
        "a directory that container-executor.cfg allows to be mounted is not on the node",
        f"Make it there, or take it out of docker.allowed.ro-mounts and rw-mounts {CFG}"),
    row("TARN-3154", Blame.SPEC,
        r"Configuration does not allow docker mount '(?P<mount>[^'\n]*)'",
        "the nodes do not allow '{mount}' to be mounted for writing",
        f"Add {{source}} to docker.allowed.rw-mounts {CFG} (yarn.nodemanager.local-dirs and "
        "log-dirs must be there too), or mount it with :ro", needs="read-write mount"),
    row("TARN-3154", Blame.SPEC,
        r"Configuration does not allow docker mount '(?P<mount>[^'\n]*)'",
        "the nodes do not allow '{mount}' to be mounted",
        f"Add {{source}} to docker.allowed.ro-mounts {CFG}"),
    row("TARN-3154", Blame.SPEC,
        r"Attempting to mount a parent directory '(?P<mount>[^'\n]*)'",
        "'{mount}' would let a container write container-executor.cfg",
        f"Mount another directory, or with :ro: {DOCKER}.mounts"),
    row("TARN-3154", Blame.NODE,
        r"(?:Could not determine real path of mount|Invalid docker mount) '(?P<mount>[^'\n]*)'",
        "the node has nothing at {source}, which should be mounted",
        "Mount or make it on every node where instances may run, or correct models.repository "
        f"or {DOCKER}.mounts"),
)  # fmt: skip

_RIGHTS = (
    row("TARN-3155", Blame.SPEC,
        r"Privileged container being requested but privileged containers are not enabled",
        "YARN does not allow privileged containers",
        f"Remove {DOCKER}.privileged; or set {RUNTIME}.docker.privileged-containers.allowed = "
        f"true {SITE}, and docker.privileged-containers.enabled=true {CFG}"),
    row("TARN-3155", Blame.SPEC,
        r"Cannot launch privileged container\. Submitting user \((?P<user>[^)\n]*)\) fails ACL",
        "{user} may not start privileged containers",
        f"Remove {DOCKER}.privileged; or add {{user}} to {RUNTIME}.docker."
        f"privileged-containers.acl {SITE}"),
    row("TARN-3155", Blame.SPEC,
        r"Privileged containers are disabled for non-entry-point mode",
        "this version of container-executor starts privileged containers only by their image's "
        "entry point, and so none with a model repository",
        f"Remove {DOCKER}.privileged"),
    row("TARN-3155", Blame.SPEC,
        r"Privileged containers are disabled for user: (?P<user>\S+)",
        "the nodes do not let {user} start privileged containers",
        f"Remove {DOCKER}.privileged, or add {{user}} to the group docker on the nodes"),
    row("TARN-3155", Blame.SPEC,
        r"Privileged containers are disabled",
        "the nodes do not allow privileged containers",
        f"Remove {DOCKER}.privileged; or set docker.privileged-containers.enabled=true {CFG}"),
    row("TARN-3155", Blame.NODE,
        r"Invalid docker capability requested|error message='Invalid docker capability'",
        "the nodes do not allow a capability that YARN gives every container",
        f"docker.allowed.capabilities {CFG} must list all of {RUNTIME}.docker.capabilities"),
    row("TARN-3155", Blame.SPEC,
        r"(?P<kind>[ug]id): (?P<number>\d+) below threshold: (?P<least>\d+)",
        "YARN does not start a container as {kind} {number}: the lowest allowed is {least}",
        f"Submit as another user, or lower {RUNTIME}.docker.userremapping-{{kind}}-threshold "
        f"{SITE}"),
)  # fmt: skip

# An untrusted image comes first: it also loses its mounts, and fails for that.
REFUSED: Final = (*_NAMES, *_NETWORKS, *_MOUNTS, *_RIGHTS)


_GPUS = (
    row("TARN-3156", Blame.SPEC,
        r"Disallowed runtime: +'(?P<name>[^'\n]*)' specified\. Allowed runtimes: are "
        r"\[(?P<allowed>[^\]\n]*)\]",
        "YARN does not allow the container runtime '{name}'; it allows {allowed}",
        f"Add '{{name}}' to {RUNTIME}.docker.allowed-container-runtimes {SITE}, or set "
        f"{DOCKER}.gpu_runtime"),
    row("TARN-3156", Blame.SPEC,
        r"Invalid param '(?P<name>[^'\n]*)' requested[^\n]*\s+Could not find requested runtime",
        "the nodes do not allow the container runtime '{name}'",
        f"Add '{{name}}' to docker.allowed.runtimes {CFG}, or set {DOCKER}.gpu_runtime"),
    row("TARN-3156", Blame.NODE,
        r"(?i:unknown)(?: or invalid)? runtime (?:specified|name:?) '?(?P<name>[\w.-]*\w)",
        "Docker on the node has no container runtime '{name}'",
        "Install NVIDIA's container toolkit there (nvidia-ctk runtime configure --runtime=docker, "
        f"then restart Docker), or set {DOCKER}.gpu_runtime"),
    row("TARN-3156", Blame.NODE,
        r"nvidia-container-cli: |could not select device driver",
        "Docker on the node cannot give the container its GPUs: {daemon}",
        "Check `nvidia-smi` and NVIDIA's container toolkit there"),
)  # fmt: skip

_NODES = (
    row("TARN-3157", Blame.NODE,
        r"Cannot connect to the Docker daemon",
        "Docker does not run on the node",
        "Start it there (systemctl start docker); live-restore keeps containers over its restarts",
        ),
    row("TARN-3157", Blame.NODE,
        r"Feature disabled: docker|Error - the feature: docker",
        "container-executor on the node has Docker switched off",
        f"Set module.enabled=true {CFG}"),
    row("TARN-3157", Blame.NODE,
        r"Requested runtime not allowed",
        "the NodeManager does not allow Docker containers",
        f"Add docker to {RUNTIME}.allowed-runtimes {SITE}"),
    row("TARN-3157", Blame.NODE,
        r"tarn: /models is not there: this container was not started by Docker",
        "the NodeManager did not use Docker",
        "Set yarn.nodemanager.container-executor.class to org.apache.hadoop.yarn.server."
        f"nodemanager.LinuxContainerExecutor, and add docker to {RUNTIME}.allowed-runtimes, "
        f"{SITE}; or set {DOCKER} to null"),
    row("TARN-3158", Blame.SPEC,
        r"tarn: /models of the image cannot be written",
        "the image has a directory /models that the container's user may not write, and the "
        "repository must be linked there",
        "Take it out of the image, or let everybody write it (chmod 1777)"),
    row("TARN-3159", Blame.NOBODY,
        r"No space left on device",
        "there is no shared memory left for Triton's Python models",
        "Raise instance.resources.memory, have fewer copies (instance_group) or smaller tensors, "
        "or use nodes with more memory: a container's /dev/shm holds half of it (without Docker "
        "it is the node's own, for all its processes)", needs="shm"),
)  # fmt: skip

_IMAGES = (
    row("TARN-3157", Blame.NODE,
        r"docker: [^\n]*[Nn]o space left on device",
        "Docker's disk on the node is full",
        "Free space there: docker system df"),
    row("TARN-3151", Blame.NOBODY,
        r"toomanyrequests|rate limit",
        "the registry does not give the node an image for now: {daemon}",
        "Log the nodes in to the registry, or keep the image in one of your own",
        needs="docker: "),
    row("TARN-3151", Blame.SPEC,
        r"manifest unknown|manifest for \S+ not found|pull access denied|no matching manifest"
        r"|repository \S+ not found|requested access to the resource is denied"
        r"|unauthorized: |no basic auth credentials|name unknown",
        "the registry has no such image, or does not give it to the nodes: {daemon}",
        "Correct triton.image, push the image, or log the nodes in (docker login as the user "
        "that runs Docker's client there)", needs="docker: "),
    row("TARN-3151", Blame.NODE,
        r"Unable to find image '(?P<image>[^'\n]*)' locally",
        "the node does not have the image '{image}', and cannot get it: {daemon}",
        "Let the node reach the registry, or load the image on every node (docker load)",
        needs="docker: "),
)  # fmt: skip

_PROGRAMS = (
    row("TARN-3158", Blame.SPEC,
        r"exec: \\?\"(?P<program>[^\"\\\n]+)\\?\": executable file not found",
        "the image has no '{program}'",
        "Use an image with bash, sh and tritonserver on its PATH"),
    row("TARN-3158", Blame.SPEC,
        r"exec: (?:line \d+: )?(?P<program>[^\s:]+): (?:not found|cannot execute)",
        "the image has no program '{program}'",
        "Use an image with bash, sh and tritonserver on its PATH, such as "
        "nvcr.io/nvidia/tritonserver", needs="Docker container exit code"),
    row("TARN-3157", Blame.NODE,
        r"launch_container\.sh: No such file or directory",
        "the container did not get YARN's own directories",
        f"yarn.nodemanager.local-dirs and log-dirs must be in docker.allowed.rw-mounts {CFG}"),
)  # fmt: skip

LACKS: Final = (*_GPUS, *_IMAGES, *_PROGRAMS, *_NODES)


# The first that fits is said.
ROWS = (*REFUSED, *LACKS)

_LONGEST = 200
# Characters that are looked through for passwords: no address of a registry is as long.
_ENOUGH = 1000
_LAUNCH = "Exception from container-launch"
_REFUSED = re.compile(r"docker error code=\d+, error message='(?P<what>[^'\n]+)'")
_DAEMON = re.compile(r"^(?:Shell error output: )?docker: (?P<what>[^\n]+)", re.MULTILINE)
# What Java itself refused; an exit code of its own would be the program's.
_MESSAGE = re.compile(
    r"^Exit code: -1\s+Exception message: (?P<what>(?!Launch container failed)\S[^\n]*)",
    re.MULTILINE,
)
_UNTOLD = "no reason was given"


@attrs.frozen
class DockerFailure:
    """An explained failure."""

    code: str
    found: str
    """What happened, a sentence without its full stop."""
    step: str
    """The exact fix, and where to make it."""
    permanent: bool = False
    node_fault: bool = False
    port_taken: bool = False

    def __str__(self) -> str:
        """Return both as sentences on one line."""
        return f"{self.found}. {self.step}; `tarn help {self.code}` says more"


def docker_failure(diagnostics: str) -> DockerFailure | None:
    """Return the failure in *diagnostics*; None if it is not one of Docker."""
    for row in ROWS:
        found = row.pattern.search(diagnostics)
        if found is not None and (not row.needs or row.needs in diagnostics):
            return _said(row, found, diagnostics)
    if _LAUNCH not in diagnostics:
        return None
    return next(_unknown(diagnostics), None)


def _said(row: FailurePattern, found: re.Match[str], diagnostics: str) -> DockerFailure:
    parts = {name: _short(value) for name, value in found.groupdict().items()}
    if "image" in parts:
        parts["registry"] = parts["image"].rpartition("/")[0] or "library"
    if "mount" in parts:
        parts["source"] = parts["mount"].partition(":")[0]
    said = _DAEMON.search(diagnostics)
    parts["daemon"] = _end(said["what"]) if said else _UNTOLD
    return DockerFailure(
        row.code,
        row.found.format_map(parts),
        row.step.format_map(parts),
        permanent=row.blame is Blame.SPEC,
        node_fault=row.blame in (Blame.NODE, Blame.PORT),
        port_taken=row.blame is Blame.PORT,
    )


def _unknown(diagnostics: str) -> Iterator[DockerFailure]:
    """Yield the quoted text of a failure that the table does not contain."""
    for pattern, who in (
        (_REFUSED, "container-executor refused the container"),
        (_DAEMON, "Docker did not start the container"),
        (_MESSAGE, "the NodeManager did not start the container"),
    ):
        if found := pattern.search(diagnostics):
            step = "See the NodeManager's log on the instance's node, and container-executor.cfg"
            yield DockerFailure("TARN-3157", f"{who}: {_end(found['what'])}", step)


def _end(value: str) -> str:
    # The end, since Docker names the cause last.
    text = masked(value.strip().rstrip(".")[-_ENOUGH:]).removeprefix("Error response from daemon: ")
    return text if len(text) <= _LONGEST else f"… {text[-_LONGEST:]}"


def _short(value: str | None) -> str:
    text = masked((value or "").strip().rstrip(".")[:_ENOUGH])
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} …"
