"""What a node, its Docker, or an image lacks for a container."""

from typing import Final

from tarn_plugins.runtime.yarn.master.docker_words import CFG, DOCKER, RUNTIME, SITE, Blame, row

__all__ = ["LACKS"]

_GPUS = (
    row(
        "TARN-3156",
        r"Disallowed runtime: +'(?P<name>[^'\n]*)' specified\. Allowed runtimes: are "
        r"\[(?P<allowed>[^\]\n]*)\]",
        "YARN does not allow the container runtime '{name}'; it allows {allowed}",
        f"Add '{{name}}' to {RUNTIME}.docker.allowed-container-runtimes {SITE}, or set "
        f"{DOCKER}.gpu_runtime",
        Blame.SPEC,
    ),
    row(
        "TARN-3156",
        r"Invalid param '(?P<name>[^'\n]*)' requested[^\n]*\s+Could not find requested runtime",
        "the nodes do not allow the container runtime '{name}'",
        f"Add '{{name}}' to docker.allowed.runtimes {CFG}, or set {DOCKER}.gpu_runtime",
        Blame.SPEC,
    ),
    row(
        "TARN-3156",
        r"(?i:unknown)(?: or invalid)? runtime (?:specified|name:?) '?(?P<name>[\w.-]*\w)",
        "Docker on the node has no container runtime '{name}'",
        "Install NVIDIA's container toolkit there (nvidia-ctk runtime configure --runtime=docker, "
        f"then restart Docker), or set {DOCKER}.gpu_runtime",
        Blame.NODE,
    ),
    row(
        "TARN-3156",
        r"nvidia-container-cli: |could not select device driver",
        "Docker on the node cannot give the container its GPUs: {daemon}",
        "Check `nvidia-smi` and NVIDIA's container toolkit there",
        Blame.NODE,
    ),
)

_NODES = (
    row(
        "TARN-3157",
        r"Cannot connect to the Docker daemon",
        "Docker does not run on the node",
        "Start it there (systemctl start docker); live-restore keeps containers over its restarts",
        Blame.NODE,
    ),
    row(
        "TARN-3157",
        r"Feature disabled: docker|Error - the feature: docker",
        "container-executor on the node has Docker switched off",
        f"Set module.enabled=true {CFG}",
        Blame.NODE,
    ),
    row(
        "TARN-3157",
        r"Requested runtime not allowed",
        "the NodeManager does not allow Docker containers",
        f"Add docker to {RUNTIME}.allowed-runtimes {SITE}",
        Blame.NODE,
    ),
    row(
        "TARN-3157",
        r"tarn: /models is not there: this container was not started by Docker",
        "the NodeManager did not use Docker",
        "Set yarn.nodemanager.container-executor.class to org.apache.hadoop.yarn.server."
        f"nodemanager.LinuxContainerExecutor, and add docker to {RUNTIME}.allowed-runtimes, "
        f"{SITE}; or set {DOCKER} to null",
        Blame.NODE,
    ),
    row(
        "TARN-3158",
        r"tarn: /models of the image cannot be written",
        "the image has a directory /models that the container's user may not write, and the "
        "repository must be linked there",
        "Take it out of the image, or let everybody write it (chmod 1777)",
        Blame.SPEC,
    ),
    row(
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
    row(
        "TARN-3157",
        r"docker: [^\n]*[Nn]o space left on device",
        "Docker's disk on the node is full",
        "Free space there: docker system df",
        Blame.NODE,
    ),
    row(
        "TARN-3151",
        r"toomanyrequests|rate limit",
        "the registry does not give the node an image for now: {daemon}",
        "Log the nodes in to the registry, or keep the image in one of your own",
        Blame.NOBODY,
        needs="docker: ",
    ),
    row(
        "TARN-3151",
        r"manifest unknown|manifest for \S+ not found|pull access denied|no matching manifest"
        r"|repository \S+ not found|requested access to the resource is denied"
        r"|unauthorized: |no basic auth credentials|name unknown",
        "the registry has no such image, or does not give it to the nodes: {daemon}",
        "Correct triton.image, push the image, or log the nodes in (docker login as the user "
        "that runs Docker's client there)",
        Blame.SPEC,
        needs="docker: ",
    ),
    row(
        "TARN-3151",
        r"Unable to find image '(?P<image>[^'\n]*)' locally",
        "the node does not have the image '{image}', and cannot get it: {daemon}",
        "Let the node reach the registry, or load the image on every node (docker load)",
        Blame.NODE,
        needs="docker: ",
    ),
)

_PROGRAMS = (
    row(
        "TARN-3158",
        r"exec: \\?\"(?P<program>[^\"\\\n]+)\\?\": executable file not found",
        "the image has no '{program}'",
        "Use an image with bash, sh and tritonserver on its PATH",
        Blame.SPEC,
    ),
    row(
        "TARN-3158",
        r"exec: (?:line \d+: )?(?P<program>[^\s:]+): (?:not found|cannot execute)",
        "the image has no program '{program}'",
        "Use an image with bash, sh and tritonserver on its PATH, such as "
        "nvcr.io/nvidia/tritonserver",
        Blame.SPEC,
        needs="Docker container exit code",
    ),
    row(
        "TARN-3157",
        r"launch_container\.sh: No such file or directory",
        "the container did not get YARN's own directories",
        f"yarn.nodemanager.local-dirs and log-dirs must be in docker.allowed.rw-mounts {CFG}",
        Blame.NODE,
    ),
)

LACKS: Final = (*_GPUS, *_IMAGES, *_PROGRAMS, *_NODES)
