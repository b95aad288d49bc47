"""What Docker on YARN refuses, in words: as the master reads it, and as a user sees it.

Every kind of refusal is brought about at once, in containers of an application that this process
is the master of. Two go the whole way, through `tarn up` and `tarn why`.
"""

import re
import secrets
import time
from collections.abc import Iterator
from typing import Any

import attrs
import pytest
from house import until
from servers import docker_image
from servers.docker import REPOSITORY, DockerHouse, DockerYarn
from servers.yarn import java
from unmanaged import Application

from tarn.cluster.explain import about_life
from tarn.domain import Endpoint, ExitStatus, Launch
from tarn.domain.spec import InstanceSpec, ModelsSpec, ResourcesSpec, TritonSpec
from tarn_plugins.runtime.yarn import Docker
from tarn_plugins.runtime.yarn.hadoop import configuration
from tarn_plugins.runtime.yarn.hadoop.files import HadoopFiles
from tarn_plugins.runtime.yarn.launch.instance import program
from tarn_plugins.runtime.yarn.launch.launch_file import COMMAND, RUN
from tarn_plugins.runtime.yarn.launch.launcher import StagedLauncher
from tarn_plugins.runtime.yarn.master.exits import explain
from tarn_plugins.runtime.yarn.messages import (
    AllocatedContainer,
    Ask,
    ContainerLaunch,
    ContainerRecord,
    Shape,
)
from tarn_plugins.runtime.yarn.staging import Layout

pytestmark = [pytest.mark.docker, pytest.mark.yarn, pytest.mark.triton]

CLOSED = "localhost:5"
"""A registry that nobody runs."""
FEWER = {
    "docker.allowed.networks": "host",
    "docker.allowed.runtimes": "runc",
    "docker.trusted.registries": f"tarn,{CLOSED}",
}
"""What container-executor.cfg allows here; yarn-site.xml allows more."""
MODELS = f"hdfs://{REPOSITORY}"
TERABYTE = "python,shm-default-byte-size=1099511627776"
WITHIN_S = 90.0
SMALL = Shape(256, 1)
"""Without GPUs, also where Docker is asked for their runtime: the node has but one."""
SPEC, NODE = "of the spec", "of the node"


@attrs.frozen
class Case:
    """One container that cannot serve, and what is said of it."""

    fault: str
    words: tuple[str, ...]
    docker: Docker = attrs.field(factory=Docker)
    triton: dict[str, Any] = attrs.field(factory=dict)
    repository: str = MODELS
    gpus: int = 0
    starts: bool = False
    """It comes so far that it needs its files: a NodeManager starts a JVM to fetch them."""

    def launch(self) -> Launch:
        """Return what is to be started."""
        triton = TritonSpec(**{"image": docker_image.NAME, **self.triton})
        instance = InstanceSpec(ResourcesSpec(gpus=self.gpus))
        return Launch(ModelsSpec(self.repository), triton, instance, self.repository, "")


CASES = {
    "a mount": Case(
        SPEC,
        ("'/etc:/x:ro'", "Add /etc to docker.allowed.ro-mounts", "container-executor.cfg"),
        Docker(mounts=("/etc:/x:ro",)),
    ),
    "a mount for writing": Case(
        SPEC,
        ("'/etc:/x:rw'", "Add /etc to docker.allowed.rw-mounts"),
        Docker(mounts=("/etc:/x:rw",)),
    ),
    "a repository that is not there": Case(
        NODE, ("nothing at /srv/tarn-nothing",), repository="/srv/tarn-nothing"
    ),
    "a network, by yarn-site.xml": Case(
        SPEC,
        ("network 'lan'", "allowed-container-networks", "yarn-site.xml"),
        Docker(network="lan"),
    ),
    "a network, by container-executor.cfg": Case(
        SPEC, ("network 'bridge'", "docker.allowed.networks"), Docker(network="bridge")
    ),
    "a GPU runtime, by yarn-site.xml": Case(
        SPEC,
        ("runtime 'kata'", "allowed-container-runtimes"),
        Docker(gpu_runtime="kata"),
        gpus=1,
    ),
    "a GPU runtime, by container-executor.cfg": Case(
        SPEC, ("runtime 'nvidia'", "docker.allowed.runtimes"), gpus=1
    ),
    "privileges": Case(
        SPEC, ("privileged", "privileged-containers.allowed"), Docker(privileged=True)
    ),
    "an image that nobody trusts": Case(
        SPEC,
        ("do not trust", "'localhost:6/evil'", "docker.trusted.registries"),
        triton={"image": "localhost:6/evil/x:1"},
    ),
    "an image that is not there": Case(
        NODE, (f"'{CLOSED}/none:1'", "docker load"), triton={"image": f"{CLOSED}/none:1"}
    ),
    "an image without tritonserver": Case(
        SPEC, ("no program 'tritonserver'",), triton={"env": {"PATH": "/nowhere"}}, starts=True
    ),
}


@pytest.fixture
def strict(stage: DockerYarn) -> Iterator[None]:
    """A container-executor.cfg that allows less; it is read for every container."""
    path = stage.directory / "container-executor.cfg"
    before = after = path.read_text()
    for name, value in FEWER.items():
        after = re.sub(rf"^{re.escape(name)}=.*$", f"{name}={value}", after, flags=re.MULTILINE)
    path.write_text(after)
    yield
    path.write_text(before)


@pytest.mark.timeout(180)
@pytest.mark.usefixtures("strict")
def test_each_refusal_is_said_with_its_fix_and_its_fault(stage: DockerYarn) -> None:
    """What happened, the line that corrects it, and whether another try can help."""
    java(stage.hadoop.environ)
    files = HadoopFiles(configuration())
    layout = Layout(files.qualified(f"/tmp/tarn-test-{secrets.token_hex(4)}"))
    # Before the application is there: it may not be silent for long.
    files.write(f"{layout.public}/run", RUN, mode=0o644)
    try:
        with Application() as app:
            ended = dict(zip(CASES, tried(app, files, layout), strict=True))
    finally:
        files.remove(layout.root)
    wrong = {name: (missing(CASES[name], status), status) for name, status in ended.items()}
    assert not any(lost for lost, _ in wrong.values()), wrong
    until(lambda: stage.dockerd.containers() == {}, WITHIN_S, "an empty docker")


def tried(app: Application, files: HadoopFiles, layout: Layout) -> list[ExitStatus]:
    """Start a container for each case, all at once; return how they ended."""
    numbered = dict(enumerate(CASES.values(), 1))
    app.say(asks=tuple(Ask(number, SMALL) for number in numbered))
    app.beat(lambda: set(numbered) <= set(app.held()), WITHIN_S)
    for number, case in numbered.items():
        app.nodes.start(app.of(number), prepared(case, app.of(number), files, layout))
        app.say()  # an attempt that says nothing for 15 s is given up
    app.beat(lambda: len(app.completed) == len(CASES), WITHIN_S)
    over = {each.container_id: each for each in app.completed}
    return [explain(over[app.of(number).container_id], asked=False) for number in numbered]


def prepared(
    case: Case, grant: AllocatedContainer, files: HadoopFiles, layout: Layout
) -> ContainerLaunch:
    """Return what a master would start, without files where they are never looked at."""
    ports = range(30_000 + 3 * grant.number, 30_003 + 3 * grant.number)
    record = ContainerRecord(
        f"case-{grant.number:04}", grant.number, grant.container_id, "", grant.node,
        Endpoint(grant.node, *ports), 0.0,
    )  # fmt: skip
    if not case.starts:
        made = program(
            case.launch(), record, address="127.0.0.1", python="/none", within=case.docker
        )
        return ContainerLaunch(COMMAND, made.container)
    launcher = StagedLauncher(
        files=files,
        layout=layout,
        python="/none",
        docker=case.docker,
        name_of=lambda record: record.instance_id,
    )
    return launcher.prepare(record, case.launch())


def missing(case: Case, status: ExitStatus) -> list[str]:
    """Return what `tarn why` does not say of an end that it should."""
    item = {"id": "case-0001", "state": "failed", "reason": status.reason}
    lost = [word for word in case.words if word not in str(about_life(item))]
    if (status.permanent, status.node_fault) != (case.fault == SPEC, case.fault == NODE):
        lost.append(f"the fault {case.fault}")
    return lost


@pytest.mark.timeout(180)
def test_up_ends_with_the_reason(docker_house: DockerHouse) -> None:
    """At the first refusal, for no other try can help; `tarn why` says the same."""
    spec = docker_house.spec(
        "refused",
        replicas={"min": 1, "max": 1},
        options={"docker": {"network": "host", "mounts": ["/etc:/x:ro"]}},
    )
    done = docker_house.tarn("up", "-f", spec, "--timeout", "120s", timeout_s=150)
    assert done.returncode == 1
    why = docker_house.tarn("why", "-c", "refused").stdout
    for said in (done.stderr, why):
        assert "another attempt cannot help" in said
        assert "Add /etc to docker.allowed.ro-mounts" in said


@pytest.mark.timeout(180)
def test_shared_memory_that_is_not_there_is_said(docker_house: DockerHouse) -> None:
    """The model is unavailable; Triton's own words, and what to do about them."""
    spec = docker_house.spec(
        "greedy",
        replicas={"min": 1, "max": 1},
        triton={"args": {"backend-config": TERABYTE}},
    )
    done = docker_house.tarn("up", "-f", spec, "--no-wait", timeout_s=150)
    assert done.returncode == 0, done.stderr

    def said() -> bool:
        why = docker_house.tarn("why", "-c", "greedy").stdout
        return all(word in why for word in ("No space left on device", "TARN-3159"))

    until(said, WITHIN_S, "word of shared memory", pause_s=1.0)


def test_contradictions_are_refused_at_once(docker_house: DockerHouse) -> None:
    """Before anything is submitted, and all of them."""
    spec = docker_house.spec(
        "wrong",
        triton={"image": "Tarn/Triton:1"},
        options={
            "docker": {"network": "none", "mounts": ["a:/b", "/c:/models:ro"], "ports": ["80"]}
        },
    )
    started_s = time.monotonic()
    done = docker_house.tarn("up", "-f", spec)
    assert done.returncode == 2
    for words in ("'Tarn/Triton:1'", "nothing could reach", "'a:/b'", "which YARN mounts", "'80'"):
        assert words in done.stderr
    assert docker_house.applications("wrong") == []
    assert time.monotonic() - started_s < WITHIN_S
