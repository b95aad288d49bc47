"""Section 2: the variables of YARN's Docker runtime, as the Java TARN set them, less its fault.

It also set ``YARN_CONTAINER_RUNTIME_DOCKER_LOCAL_RESOURCE_MOUNTS=true``, which is no mount: Hadoop
3.0 fails such a launch, and later ones read ``_DOCKER_MOUNTS``.
"""

import pytest

from tarn.domain import Endpoint, Launch
from tarn.domain.spec import InstanceSpec, ModelsSpec, ResourcesSpec, TritonSpec
from tarn_plugins.runtime.yarn import Docker
from tarn_plugins.runtime.yarn.launch.docker import environment

CONTAINER = "container_e02_1700000000000_0001_02_000003"
PREFIX = "YARN_CONTAINER_RUNTIME_DOCKER_"
JAVAS = {
    "IMAGE", "RUN_OVERRIDE_DISABLE", "CONTAINER_NETWORK", "RUN_PRIVILEGED_CONTAINER",
    "DELAYED_REMOVAL", "MOUNTS", "PORTS_MAPPING", "CONTAINER_HOSTNAME",
}  # fmt: skip
HADOOPS = JAVAS | {"TMPFS_MOUNTS", "RUNTIME", "CLIENT_CONFIG", "SERVICE_MODE"}
"""Every variable of ``DockerLinuxContainerRuntime`` in Hadoop 3.4.2."""


def variables(docker: Docker, repository: str = "hdfs:///models", gpus: int = 0) -> dict[str, str]:
    launch = Launch(
        ModelsSpec(repository),
        TritonSpec(image="nvcr.io/nvidia/tritonserver:24.09-py3"),
        InstanceSpec(ResourcesSpec(gpus=gpus)),
        repository,
        "",
    )
    return dict(environment(docker, launch, CONTAINER, Endpoint("nm1", 8000, 8001, 8002)))


def test_the_java_tarns_variables_keep_their_names_and_meanings() -> None:
    """With everything switched on."""
    docker = Docker(
        network="bridge", mounts=("/data:/data:ro",), ports=("9000:9000",),
        privileged=True, delayed_removal=True,
    )  # fmt: skip
    found = variables(docker, gpus=1)
    assert found.pop("YARN_CONTAINER_RUNTIME_TYPE") == "docker"
    assert {name.removeprefix(PREFIX): value for name, value in found.items()} == {
        "IMAGE": "nvcr.io/nvidia/tritonserver:24.09-py3",
        "RUN_OVERRIDE_DISABLE": "false",
        "CONTAINER_NETWORK": "bridge",
        "RUN_PRIVILEGED_CONTAINER": "true",
        "DELAYED_REMOVAL": "true",
        "MOUNTS": "/data:/data:ro",
        "PORTS_MAPPING": "8000:8000,8001:8001,8002:8002,9000:9000",
        "CONTAINER_HOSTNAME": CONTAINER,
        "TMPFS_MOUNTS": "/dev/shm,/models",
        "RUNTIME": "nvidia",
    }


@pytest.mark.parametrize("repository", ["hdfs:///models", "/mnt/models"])
@pytest.mark.parametrize("gpus", [0, 2])
@pytest.mark.parametrize("docker", [Docker(), Docker(network="bridge", privileged=True)])
def test_hadoop_knows_every_variable_that_is_set(docker, repository, gpus) -> None:
    """The faulty one does not come back; what is optional is set only where it is asked for."""
    found = variables(docker, repository, gpus)
    names = {name.removeprefix(PREFIX) for name in found} - {"YARN_CONTAINER_RUNTIME_TYPE"}
    assert names <= HADOOPS
    assert "LOCAL_RESOURCE_MOUNTS" not in names
    assert ("RUNTIME" in names) == bool(gpus)
    assert ("PORTS_MAPPING" in names) == (docker.network != "host")
    assert ("RUN_PRIVILEGED_CONTAINER" in names) == docker.privileged
    for mount in found.get(f"{PREFIX}MOUNTS", "").split(","):
        assert not mount or mount.startswith("/"), "a bare word is no mount"
