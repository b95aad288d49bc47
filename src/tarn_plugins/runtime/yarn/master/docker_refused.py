"""What YARN, or its administrator, refuses to start in Docker."""

from typing import Final

from tarn_plugins.runtime.yarn.master.docker_words import CFG, DOCKER, RUNTIME, SITE, Blame, row

__all__ = ["REFUSED"]

_NAMES = (
    row(
        "TARN-3152",
        r"image: (?P<image>\S+) is not trusted",
        "the nodes do not trust the image '{image}'",
        f"Add '{{registry}}' to docker.trusted.registries {CFG}, or use an image from a "
        "registry that is listed",
        Blame.SPEC,
    ),
    row(
        "TARN-3150",
        r"Image name '(?P<image>[^'\n]*)' doesn't match docker image name pattern",
        "YARN does not accept '{image}' as the name of an image",
        "Correct triton.image: registry/name:tag, the name in lower case",
        Blame.SPEC,
    ),
    row(
        "TARN-3150",
        r"error message='Invalid docker image name'",
        "container-executor does not accept the image's name",
        "Correct triton.image: some versions of container-executor accept a tag, but not a "
        "digest (@sha256)",
        Blame.SPEC,
    ),
    row(
        "TARN-3150",
        r"YARN_CONTAINER_RUNTIME_DOCKER_IMAGE not set",
        "no image was named",
        "Set triton.image",
        Blame.SPEC,
    ),
    row(
        "TARN-3150",
        r"Unable to parse (?:user supplied mount list|some mounts in user supplied mount list): "
        r"?(?P<what>[^\n]*)",
        "YARN cannot read the mounts '{what}'",
        f"Correct {DOCKER}.mounts: /source:/destination:ro or :rw",
        Blame.SPEC,
    ),
    row(
        "TARN-3150",
        r"Mount (?:must be a localized resource|must be absolute|cannot be a symlink): "
        r"?(?P<what>[^\n]*)",
        "YARN will not mount '{what}': the source must be the absolute path of a directory or file",
        f"Correct {DOCKER}.mounts",
        Blame.SPEC,
    ),
    row(
        "TARN-3150",
        r"Invalid tmpfs mount : ?(?P<what>[^\n]*)",
        "YARN will not mount the tmpfs '{what}': it must not have a size",
        f"Correct {RUNTIME}.docker.default-tmpfs-mounts {SITE}: paths only",
        Blame.SPEC,
    ),
    row(
        "TARN-3150",
        r"Invalid mount : ?(?P<what>[^\n]*)",
        "YARN's own default mount '{what}' is malformed",
        f"Correct {RUNTIME}.docker.default-ro-mounts or default-rw-mounts {SITE}",
        Blame.NODE,
    ),
    row(
        "TARN-3150",
        r"Invalid port mappings: ?(?P<what>[^\n]*)",
        "YARN cannot read the port '{what}'",
        f"Correct {DOCKER}.ports: host:container",
        Blame.SPEC,
    ),
)

_NETWORKS = (
    row(
        "TARN-3153",
        r"Disallowed network: +'(?P<name>[^'\n]*)' specified\. Allowed networks: are "
        r"\[(?P<allowed>[^\]\n]*)\]",
        "YARN does not allow the network '{name}'; it allows {allowed}",
        f"Set {DOCKER}.network to one of them, or add '{{name}}' to {RUNTIME}.docker."
        f"allowed-container-networks {SITE}",
        Blame.SPEC,
    ),
    row(
        "TARN-3153",
        r"Invalid param '(?P<name>[^'\n]*)' requested[^\n]*\s+Could not find requested network",
        "the nodes do not allow the network '{name}'",
        f"Add '{{name}}' to docker.allowed.networks {CFG}, or set another {DOCKER}.network",
        Blame.SPEC,
    ),
    row(
        "TARN-3153",
        r"error message='Invalid docker network'",
        "the nodes do not allow the network",
        f"Add it to docker.allowed.networks {CFG}, or set another {DOCKER}.network",
        Blame.SPEC,
    ),
    row(
        "TARN-3153",
        r"docker: Error response from daemon: network (?P<name>\S+) not found",
        "Docker on the node has no network '{name}'",
        f"Make it there (docker network create), or set {DOCKER}.network to host",
        Blame.NODE,
    ),
    row(
        "TARN-3103",
        r"Bind for \S*:(?P<port>\d+) failed: port is already allocated"
        r"|listen \w+ \S*:(?P<again>\d+): bind: address already in use",
        "a port of the container is already in use on the node ({daemon})",
        f"TARN tries the next ports; if it is one of {DOCKER}.ports, choose another",
        Blame.PORT,
        needs="docker: ",
    ),
)

_MOUNTS = (
    row(
        "TARN-3154",
        r"Unable to find permitted docker mounts on disk",
        "a directory that container-executor.cfg allows to be mounted is not on the node",
        f"Make it there, or take it out of docker.allowed.ro-mounts and rw-mounts {CFG}",
        Blame.NODE,
    ),
    row(
        "TARN-3154",
        r"Configuration does not allow docker mount '(?P<mount>[^'\n]*)'",
        "the nodes do not allow '{mount}' to be mounted for writing",
        f"Add {{source}} to docker.allowed.rw-mounts {CFG} (yarn.nodemanager.local-dirs and "
        "log-dirs must be there too), or mount it with :ro",
        Blame.SPEC,
        needs="read-write mount",
    ),
    row(
        "TARN-3154",
        r"Configuration does not allow docker mount '(?P<mount>[^'\n]*)'",
        "the nodes do not allow '{mount}' to be mounted",
        f"Add {{source}} to docker.allowed.ro-mounts {CFG}",
        Blame.SPEC,
    ),
    row(
        "TARN-3154",
        r"Attempting to mount a parent directory '(?P<mount>[^'\n]*)'",
        "'{mount}' would let a container write container-executor.cfg",
        f"Mount another directory, or with :ro: {DOCKER}.mounts",
        Blame.SPEC,
    ),
    row(
        "TARN-3154",
        r"(?:Could not determine real path of mount|Invalid docker mount) '(?P<mount>[^'\n]*)'",
        "the node has nothing at {source}, which should be mounted",
        "Mount or make it on every node where instances may run, or correct models.repository "
        f"or {DOCKER}.mounts",
        Blame.NODE,
    ),
)

_RIGHTS = (
    row(
        "TARN-3155",
        r"Privileged container being requested but privileged containers are not enabled",
        "YARN does not allow privileged containers",
        f"Remove {DOCKER}.privileged; or set {RUNTIME}.docker.privileged-containers.allowed = "
        f"true {SITE}, and docker.privileged-containers.enabled=true {CFG}",
        Blame.SPEC,
    ),
    row(
        "TARN-3155",
        r"Cannot launch privileged container\. Submitting user \((?P<user>[^)\n]*)\) fails ACL",
        "{user} may not start privileged containers",
        f"Remove {DOCKER}.privileged; or add {{user}} to {RUNTIME}.docker."
        f"privileged-containers.acl {SITE}",
        Blame.SPEC,
    ),
    row(
        "TARN-3155",
        r"Privileged containers are disabled for non-entry-point mode",
        "this version of container-executor starts privileged containers only by their image's "
        "entry point, and so none with a model repository",
        f"Remove {DOCKER}.privileged",
        Blame.SPEC,
    ),
    row(
        "TARN-3155",
        r"Privileged containers are disabled for user: (?P<user>\S+)",
        "the nodes do not let {user} start privileged containers",
        f"Remove {DOCKER}.privileged, or add {{user}} to the group docker on the nodes",
        Blame.SPEC,
    ),
    row(
        "TARN-3155",
        r"Privileged containers are disabled",
        "the nodes do not allow privileged containers",
        f"Remove {DOCKER}.privileged; or set docker.privileged-containers.enabled=true {CFG}",
        Blame.SPEC,
    ),
    row(
        "TARN-3155",
        r"Invalid docker capability requested|error message='Invalid docker capability'",
        "the nodes do not allow a capability that YARN gives every container",
        f"docker.allowed.capabilities {CFG} must list all of {RUNTIME}.docker.capabilities",
        Blame.NODE,
    ),
    row(
        "TARN-3155",
        r"(?P<kind>[ug]id): (?P<number>\d+) below threshold: (?P<least>\d+)",
        "YARN does not start a container as {kind} {number}: the lowest allowed is {least}",
        f"Submit as another user, or lower {RUNTIME}.docker.userremapping-{{kind}}-threshold "
        f"{SITE}",
        Blame.SPEC,
    ),
)

REFUSED: Final = (*_NAMES, *_NETWORKS, *_MOUNTS, *_RIGHTS)
"""An untrusted image comes first: it also loses its mounts, and fails for that."""
