"""A fleet in Docker containers on a real YARN: its whole life, and what reaches Docker."""

import signal
import subprocess
from pathlib import Path

import numpy as np
import pytest
from asking import ask, free_ports
from house import House, ids, until
from servers import docker_image
from servers.docker import MODELS, DockerHouse, DockerYarn
from tritonclient import http as triton
from yarn_fleet import Fleet

pytestmark = [pytest.mark.docker, pytest.mark.yarn, pytest.mark.triton]

ONE = {"min": 1, "max": 2, "initial": 1}
BIG = 60 * 1024 * 1024
"""Bytes of a tensor; its answer lies in shared memory, too."""
ASKS = """
import numpy, sys, tarn
from tritonclient.http import InferInput
given = InferInput("IN", [3], "FP32")
given.set_data_from_numpy(numpy.array([1, 2, 3], numpy.float32))
with tarn.connect(sys.argv[1]).client() as client:
    print(client.infer("echo", [given]).as_numpy("OUT").tolist())
"""


def started(house: DockerHouse, name: str, **keys) -> tuple[Fleet, dict]:
    """Start one instance; return its fleet and what the status shows of it."""
    fleet = Fleet(house, house.hadoop, name)
    fleet.up(house.spec(name, **{"replicas": ONE, "placement": {"spread": "none"}, **keys}))
    (one,) = fleet.settled(1)["instances"]
    return fleet, one


def asks(house: House, name: str) -> None:
    """Infer as a user does, through `tarn.connect`."""
    done = subprocess.run(
        [house.python, "-c", ASKS, name],
        check=False,
        capture_output=True,
        text=True,
        env=house.environ,
        cwd=house.root,
        timeout=60,
    )
    assert done.stdout.strip() == "[1.0, 2.0, 3.0]", done.stderr


def big(address: str) -> None:
    """Send a big tensor to the echo model; raises what Triton answers."""
    client = triton.InferenceServerClient(address, network_timeout=60.0)
    try:
        values = np.zeros(BIG // 4, np.float32)
        given = triton.InferInput("IN", [values.size], "FP32")
        given.set_data_from_numpy(values)
        assert client.infer("echo", [given]).as_numpy("OUT").nbytes == BIG
    finally:
        client.close()


def nameless(fleet: Fleet, stage: DockerYarn, container: str) -> None:
    """Its user is not in the image's passwd, and has a home and a place for files nevertheless."""
    docker = stage.dockerd
    assert docker.docker("exec", container, "id", "-un", check=False).returncode != 0
    raw = Path(f"/proc/{fleet.tritons()[container]}/environ").read_bytes().decode().split("\0")
    environ = dict(pair.split("=", 1) for pair in raw if "=" in pair)
    for name in ("HOME", "TMPDIR"):
        docker.docker("exec", container, "test", "-w", environ[name])


@pytest.mark.timeout(300)
def test_up_infer_kill_recover_scale_and_down(docker_house: DockerHouse, stage: DockerYarn) -> None:
    """The whole life, as a user without an entry in the image's passwd; nothing is left of it."""
    fleet, first = started(docker_house, "life")
    asks(docker_house, "life")
    docker = stage.dockerd
    assert docker.containers() == {first["container_id"]: "running"}, "the master is none"
    assert docker.inspect(first["container_id"], "{{.Config.Image}}") == docker_image.NAME
    assert docker.inspect(first["container_id"], "{{.HostConfig.NetworkMode}}") == "host"
    nameless(fleet, stage, first["container_id"])

    docker.docker("kill", "--signal=KILL", first["container_id"])
    until(lambda: first["id"] not in ids(fleet.status()), 20, "its leaving the view")
    second = fleet.settled(1)
    assert first["id"] not in ids(second)
    assert docker.containers() == {second["instances"][0]["container_id"]: "running"}

    pids, epoch = fleet.tritons(), fleet.kill_master(signal.SIGKILL)
    fleet.after(epoch)
    assert ids(fleet.settled(1)) == ids(second)
    assert fleet.tritons() == pids, "another process serves"
    asks(docker_house, "life")

    fleet.tarn("scale", "2")
    both = fleet.settled(2)["instances"]
    assert len({one["http"] for one in both}) == 2, "one port for two"
    assert len({one["node"] for one in both}) == 1
    for one in both:
        fleet.infer(one)
    assert set(docker.containers()) == {one["container_id"] for one in both}

    fleet.down()
    until(lambda: docker.containers() == {}, 20, "an empty docker")


def test_what_is_asked_of_docker_arrives(docker_house: DockerHouse, stage: DockerYarn) -> None:
    """The GPU's runtime, models of the node at /models, room for big tensors, delayed removal."""
    fleet, one = started(
        docker_house,
        "asked",
        options={"docker": {"network": "host", "delayed_removal": True}},
        instance={"resources": {"vcores": 1, "memory": "768MiB", "gpus": 1}},
        models={"repository": str(stage.models)},
    )
    container, docker = one["container_id"], stage.dockerd
    assert docker.inspect(container, "{{.HostConfig.Runtime}}") == "nvidia"
    mounts = docker.inspect(
        container, "{{range .Mounts}}{{.Source}}:{{.Destination}}:{{.RW}} {{end}}"
    )
    assert f"{stage.models}:/models:false" in mounts.split()
    big(one["http"])
    fleet.down()
    until(lambda: docker.containers() == {container: "exited"}, 20, "its being kept")
    docker.docker("rm", container)


def test_without_it_big_tensors_fail(stage: DockerYarn, tmp_path: Path) -> None:
    """Docker's own 64 MB of shared memory do not do: what the test above shows is ours."""
    http, grpc, metrics = free_ports()
    ports = [
        f"--{what}-port={port}"
        for what, port in zip(("http", "grpc", "metrics"), (http, grpc, metrics), strict=True)
    ]
    name = "tarn-test-small-shm"
    volume = f"--volume={MODELS}:/models:ro"
    argv = ("run", "--detach", f"--name={name}", "--net=host", volume, docker_image.NAME)
    stage.dockerd.docker(*argv, "tritonserver", "--model-repository=/models", *ports)
    try:
        until(lambda: _ready(http), 30, "a Triton")
        with pytest.raises(triton.InferenceServerException, match="shared memory"):
            big(f"127.0.0.1:{http}")
    finally:
        stage.dockerd.docker("rm", "--force", name)


def _ready(port: int) -> bool:
    try:
        return ask(port, "GET", "/v2/models/echo/ready")[0] == 200
    except OSError:
        return False


def test_without_docker_on_the_same_yarn(docker_house: DockerHouse, stage: DockerYarn) -> None:
    """`docker: null`: a process of the node, as the same user; docker sees nothing."""
    fleet, one = started(docker_house, "plain", options={"docker": None})
    fleet.infer(one)
    assert stage.dockerd.containers() == {}
    (pid,) = fleet.tritons().values()
    assert Path(f"/proc/{pid}").owner() == "nobody"
    fleet.down()


def test_a_network_of_its_own(docker_house: DockerHouse, stage: DockerYarn) -> None:
    """Bridge: Triton's ports are mapped to the node's, and one more that is asked for."""
    if stage.dockerd.no_bridge:
        pytest.skip(f"no bridge network here: {stage.dockerd.no_bridge}")
    (http, grpc, metrics), (more, *_) = free_ports(), free_ports()
    fleet, one = started(
        docker_house,
        "bridge",
        options={"docker": {"network": "bridge", "ports": [f"{more}:9999"]}},
        triton={"http_port": http, "grpc_port": grpc, "metrics_port": metrics},
    )
    container = one["container_id"]
    assert stage.dockerd.inspect(container, "{{.HostConfig.NetworkMode}}") == "bridge"
    mapped = stage.dockerd.docker("port", container).stdout.splitlines()
    at = stage.dockerd.address
    wanted = {f"{port}/tcp -> {at}:{port}" for port in (http, grpc, metrics)}
    assert set(mapped) == wanted | {f"9999/tcp -> {at}:{more}"}
    assert one["http"].endswith(f":{http}")
    asks(docker_house, "bridge")
    fleet.down()


def test_privileged_is_refused_in_words(docker_house: DockerHouse) -> None:
    """The NodeManager allows none: `up` gives up on it, and says so."""
    spec = docker_house.spec(
        "mighty", options={"docker": {"network": "host", "privileged": True}}, replicas=ONE
    )
    done = docker_house.tarn("up", "-f", spec, "--timeout", "60s", timeout_s=200)
    told = docker_house.tarn("why", "-c", "mighty")
    assert done.returncode != 0
    assert "rivileged" in told.stdout + done.stderr, (told.stdout, told.stderr, done.stderr)
