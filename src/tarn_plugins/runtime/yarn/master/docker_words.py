"""The table of what goes wrong with Docker on YARN: pattern, words, fix, and who is to blame."""

import enum
import re
from typing import Final

import attrs

__all__ = ["ROWS", "Blame", "Row"]

_SITE = "in yarn-site.xml of the NodeManagers"
_CFG = "in the section [docker] of container-executor.cfg on the NodeManagers' nodes"
_DOCKER = "runtime.options.docker"
_RUNTIME = "yarn.nodemanager.runtime.linux"


class Blame(enum.Enum):
    """Whose fault it is, and so what is tried next."""

    SPEC = enum.auto()
    """Every node refuses this spec: nothing is tried again."""
    NODE = enum.auto()
    """This node lacks something; another one may not."""
    PORT = enum.auto()
    """Somebody holds the port on this node; the next set is tried."""
    NOBODY = enum.auto()
    """It may work later."""


@attrs.frozen
class Row:
    """One kind of failure. Named groups of *pattern* stand in the words."""

    code: str
    pattern: re.Pattern[str]
    found: str
    step: str
    blame: Blame
    needs: str = ""
    """Text that must be there too."""


def _row(code: str, pattern: str, found: str, step: str, blame: Blame, needs: str = "") -> Row:  # noqa: PLR0913, PLR0917
    return Row(code, re.compile(pattern), found, step, blame, needs)


_NAMES = (
    _row(
        "TARN-3152",
        r"image: (?P<image>\S+) is not trusted",
        "the nodes do not trust the image '{image}'",
        f"Add '{{registry}}' to docker.trusted.registries {_CFG}, or take triton.image from a "
        "registry that is there",
        Blame.SPEC,
    ),
    _row(
        "TARN-3150",
        r"Image name '(?P<image>[^'\n]*)' doesn't match docker image name pattern",
        "YARN takes '{image}' for no name of an image",
        "Mend triton.image: registry/name:tag, the name in lower case",
        Blame.SPEC,
    ),
    _row(
        "TARN-3150",
        r"error message='Invalid docker image name'",
        "container-executor takes the image's name for none",
        "Mend triton.image: some versions of it take a tag, and no digest (@sha256)",
        Blame.SPEC,
    ),
    _row(
        "TARN-3150",
        r"YARN_CONTAINER_RUNTIME_DOCKER_IMAGE not set",
        "no image was named",
        "Set triton.image",
        Blame.SPEC,
    ),
    _row(
        "TARN-3150",
        r"Unable to parse (?:user supplied mount list|some mounts in user supplied mount list): "
        r"?(?P<what>[^\n]*)",
        "YARN cannot read the mounts '{what}'",
        f"Mend {_DOCKER}.mounts: /source:/destination:ro or :rw",
        Blame.SPEC,
    ),
    _row(
        "TARN-3150",
        r"Mount (?:must be a localized resource|must be absolute|cannot be a symlink): "
        r"?(?P<what>[^\n]*)",
        "YARN mounts '{what}' not: its source is no absolute path of a directory or file",
        f"Mend {_DOCKER}.mounts",
        Blame.SPEC,
    ),
    _row(
        "TARN-3150",
        r"Invalid tmpfs mount : ?(?P<what>[^\n]*)",
        "YARN takes the tmpfs '{what}' not: it can be given no size",
        f"Mend {_RUNTIME}.docker.default-tmpfs-mounts {_SITE}: paths only",
        Blame.SPEC,
    ),
    _row(
        "TARN-3150",
        r"Invalid mount : ?(?P<what>[^\n]*)",
        "YARN's own default mount '{what}' is malformed",
        f"Mend {_RUNTIME}.docker.default-ro-mounts or default-rw-mounts {_SITE}",
        Blame.NODE,
    ),
    _row(
        "TARN-3150",
        r"Invalid port mappings: ?(?P<what>[^\n]*)",
        "YARN cannot read the port '{what}'",
        f"Mend {_DOCKER}.ports: host:container",
        Blame.SPEC,
    ),
)

_NETWORKS = (
    _row(
        "TARN-3153",
        r"Disallowed network: +'(?P<name>[^'\n]*)' specified\. Allowed networks: are "
        r"\[(?P<allowed>[^\]\n]*)\]",
        "YARN does not allow the network '{name}'; it allows {allowed}",
        f"Set {_DOCKER}.network to one of them, or add '{{name}}' to {_RUNTIME}.docker."
        f"allowed-container-networks {_SITE}",
        Blame.SPEC,
    ),
    _row(
        "TARN-3153",
        r"Invalid param '(?P<name>[^'\n]*)' requested[^\n]*\s+Could not find requested network",
        "the nodes do not allow the network '{name}'",
        f"Add '{{name}}' to docker.allowed.networks {_CFG}, or set another {_DOCKER}.network",
        Blame.SPEC,
    ),
    _row(
        "TARN-3153",
        r"error message='Invalid docker network'",
        "the nodes do not allow the network",
        f"Add it to docker.allowed.networks {_CFG}, or set another {_DOCKER}.network",
        Blame.SPEC,
    ),
    _row(
        "TARN-3153",
        r"docker: Error response from daemon: network (?P<name>\S+) not found",
        "Docker on the node has no network '{name}'",
        f"Make it there (docker network create), or set {_DOCKER}.network to host",
        Blame.NODE,
    ),
    _row(
        "TARN-3103",
        r"Bind for \S*:(?P<port>\d+) failed: port is already allocated"
        r"|listen \w+ \S*:(?P<again>\d+): bind: address already in use",
        "a port of the container is already in use on the node ({daemon})",
        f"TARN tries the next ports; where it is one of {_DOCKER}.ports, choose another",
        Blame.PORT,
        needs="docker: ",
    ),
)

_MOUNTS = (
    _row(
        "TARN-3154",
        r"Unable to find permitted docker mounts on disk",
        "a directory that container-executor.cfg allows to be mounted is not on the node",
        f"Make it there, or take it out of docker.allowed.ro-mounts and rw-mounts {_CFG}",
        Blame.NODE,
    ),
    _row(
        "TARN-3154",
        r"Configuration does not allow docker mount '(?P<mount>[^'\n]*)'",
        "the nodes do not allow '{mount}' to be mounted for writing",
        f"Add {{source}} to docker.allowed.rw-mounts {_CFG} (yarn.nodemanager.local-dirs and "
        "log-dirs must stand there too), or mount it with :ro",
        Blame.SPEC,
        needs="read-write mount",
    ),
    _row(
        "TARN-3154",
        r"Configuration does not allow docker mount '(?P<mount>[^'\n]*)'",
        "the nodes do not allow '{mount}' to be mounted",
        f"Add {{source}} to docker.allowed.ro-mounts {_CFG}",
        Blame.SPEC,
    ),
    _row(
        "TARN-3154",
        r"Attempting to mount a parent directory '(?P<mount>[^'\n]*)'",
        "'{mount}' would let a container write container-executor.cfg",
        f"Mount another directory, or with :ro: {_DOCKER}.mounts",
        Blame.SPEC,
    ),
    _row(
        "TARN-3154",
        r"(?:Could not determine real path of mount|Invalid docker mount) '(?P<mount>[^'\n]*)'",
        "the node has nothing at {source}, which is to be mounted",
        f"Mount or make it on every node where instances may run, or mend models.repository or "
        f"{_DOCKER}.mounts",
        Blame.NODE,
    ),
)

_RIGHTS = (
    _row(
        "TARN-3155",
        r"Privileged container being requested but privileged containers are not enabled",
        "YARN does not allow privileged containers",
        f"Remove {_DOCKER}.privileged; or set {_RUNTIME}.docker.privileged-containers.allowed = "
        f"true {_SITE}, and docker.privileged-containers.enabled=true {_CFG}",
        Blame.SPEC,
    ),
    _row(
        "TARN-3155",
        r"Cannot launch privileged container\. Submitting user \((?P<user>[^)\n]*)\) fails ACL",
        "{user} may not start privileged containers",
        f"Remove {_DOCKER}.privileged; or add {{user}} to {_RUNTIME}.docker."
        f"privileged-containers.acl {_SITE}",
        Blame.SPEC,
    ),
    _row(
        "TARN-3155",
        r"Privileged containers are disabled for non-entry-point mode",
        "this version of container-executor starts privileged containers by their image's entry "
        "point only, and so none that is given a model repository",
        f"Remove {_DOCKER}.privileged",
        Blame.SPEC,
    ),
    _row(
        "TARN-3155",
        r"Privileged containers are disabled for user: (?P<user>\S+)",
        "the nodes do not let {user} start privileged containers",
        f"Remove {_DOCKER}.privileged, or add {{user}} to the group docker on the nodes",
        Blame.SPEC,
    ),
    _row(
        "TARN-3155",
        r"Privileged containers are disabled",
        "the nodes do not allow privileged containers",
        f"Remove {_DOCKER}.privileged; or set docker.privileged-containers.enabled=true {_CFG}",
        Blame.SPEC,
    ),
    _row(
        "TARN-3155",
        r"Invalid docker capability requested|error message='Invalid docker capability'",
        "the nodes do not allow a capability that YARN gives every container",
        f"docker.allowed.capabilities {_CFG} must hold all of {_RUNTIME}.docker.capabilities",
        Blame.NODE,
    ),
    _row(
        "TARN-3155",
        r"(?P<kind>[ug]id): (?P<number>\d+) below threshold: (?P<least>\d+)",
        "YARN starts no container as {kind} {number}: the least is {least}",
        f"Submit as another user, or lower {_RUNTIME}.docker.userremapping-{{kind}}-threshold "
        f"{_SITE}",
        Blame.SPEC,
    ),
)

_GPUS = (
    _row(
        "TARN-3156",
        r"Disallowed runtime: +'(?P<name>[^'\n]*)' specified\. Allowed runtimes: are "
        r"\[(?P<allowed>[^\]\n]*)\]",
        "YARN does not allow the container runtime '{name}'; it allows {allowed}",
        f"Add '{{name}}' to {_RUNTIME}.docker.allowed-container-runtimes {_SITE}, or set "
        f"{_DOCKER}.gpu_runtime",
        Blame.SPEC,
    ),
    _row(
        "TARN-3156",
        r"Invalid param '(?P<name>[^'\n]*)' requested[^\n]*\s+Could not find requested runtime",
        "the nodes do not allow the container runtime '{name}'",
        f"Add '{{name}}' to docker.allowed.runtimes {_CFG}, or set {_DOCKER}.gpu_runtime",
        Blame.SPEC,
    ),
    _row(
        "TARN-3156",
        r"[Uu]nknown(?: or invalid)? runtime (?:specified|name:?) '?(?P<name>[\w.-]*\w)",
        "Docker on the node has no container runtime '{name}'",
        "Install NVIDIA's container toolkit there (nvidia-ctk runtime configure --runtime=docker, "
        f"then restart Docker), or set {_DOCKER}.gpu_runtime",
        Blame.NODE,
    ),
    _row(
        "TARN-3156",
        r"nvidia-container-cli: |could not select device driver",
        "Docker on the node cannot give the container its GPUs: {daemon}",
        "Check `nvidia-smi` and NVIDIA's container toolkit there",
        Blame.NODE,
    ),
)

_NODES = (
    _row(
        "TARN-3157",
        r"Cannot connect to the Docker daemon",
        "Docker does not run on the node",
        "Start it there (systemctl start docker); live-restore keeps containers over its restarts",
        Blame.NODE,
    ),
    _row(
        "TARN-3157",
        r"Feature disabled: docker|Error - the feature: docker",
        "container-executor on the node has Docker switched off",
        f"Set module.enabled=true {_CFG}",
        Blame.NODE,
    ),
    _row(
        "TARN-3157",
        r"Requested runtime not allowed",
        "the NodeManager allows no container of Docker's",
        f"Add docker to {_RUNTIME}.allowed-runtimes {_SITE}",
        Blame.NODE,
    ),
    _row(
        "TARN-3157",
        r"tarn: /models is not there: this container was not started by Docker",
        "the NodeManager did not use Docker",
        "Set yarn.nodemanager.container-executor.class to org.apache.hadoop.yarn.server."
        f"nodemanager.LinuxContainerExecutor, and add docker to {_RUNTIME}.allowed-runtimes, "
        f"{_SITE}; or set {_DOCKER} to null",
        Blame.NODE,
    ),
    _row(
        "TARN-3158",
        r"tarn: /models of the image cannot be written",
        "the image has a directory /models that the container's user may not write, and the "
        "repository is to be shown there",
        "Take it out of the image, or let everybody write it (chmod 1777)",
        Blame.SPEC,
    ),
    _row(
        "TARN-3159",
        r"No space left on device",
        "there is no shared memory left for Triton's Python models",
        "Raise instance.resources.memory, have fewer copies (instance_group) or smaller tensors, "
        "or use nodes with more memory: a container's /dev/shm holds half of it (without Docker "
        "it is the node's own, for all its processes)",
        Blame.NOBODY,
        needs="shm",
    ),
)

_IMAGES = (
    _row(
        "TARN-3157",
        r"docker: [^\n]*[Nn]o space left on device",
        "Docker's disk on the node is full",
        "Free space there: docker system df",
        Blame.NODE,
    ),
    _row(
        "TARN-3151",
        r"toomanyrequests|rate limit",
        "the registry gives the node no image for now: {daemon}",
        "Log the nodes in to the registry, or keep the image in one of your own",
        Blame.NOBODY,
        needs="docker: ",
    ),
    _row(
        "TARN-3151",
        r"manifest unknown|manifest for \S+ not found|pull access denied|no matching manifest"
        r"|repository \S+ not found|requested access to the resource is denied"
        r"|unauthorized: |no basic auth credentials|name unknown",
        "the registry has no such image, or gives it not to the nodes: {daemon}",
        "Mend triton.image, push it, or log the nodes in (docker login as the user that runs "
        "Docker's client there)",
        Blame.SPEC,
        needs="docker: ",
    ),
    _row(
        "TARN-3151",
        r"Unable to find image '(?P<image>[^'\n]*)' locally",
        "the node has not the image '{image}', and cannot get it: {daemon}",
        "Let the node reach the registry, or load the image on every node (docker load)",
        Blame.NODE,
        needs="docker: ",
    ),
)

_PROGRAMS = (
    _row(
        "TARN-3158",
        r"exec: \\?\"(?P<program>[^\"\\\n]+)\\?\": executable file not found",
        "the image has no '{program}'",
        "Use an image with bash, sh and tritonserver on its PATH",
        Blame.SPEC,
    ),
    _row(
        "TARN-3158",
        r"exec: (?:line \d+: )?(?P<program>[^\s:]+): (?:not found|cannot execute)",
        "the image has no program '{program}'",
        "Use an image with bash, sh and tritonserver on its PATH, such as "
        "nvcr.io/nvidia/tritonserver",
        Blame.SPEC,
        needs="Docker container exit code",
    ),
    _row(
        "TARN-3157",
        r"launch_container\.sh: No such file or directory",
        "the container did not get YARN's own directories",
        f"yarn.nodemanager.local-dirs and log-dirs must stand in docker.allowed.rw-mounts {_CFG}",
        Blame.NODE,
    ),
)

ROWS: Final = (
    *_NAMES,
    *_NETWORKS,
    *_MOUNTS,
    *_RIGHTS,
    *_GPUS,
    *_IMAGES,
    *_PROGRAMS,
    *_NODES,
)
"""The first that fits is said: an untrusted image also loses its mounts, and fails for that."""
