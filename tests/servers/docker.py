"""YARN's Docker runtime: a dockerd, the image, and a sandbox over them.

Tests take it from the fixtures of ``tests/docker/conftest.py``. By hand::

    export PYTHONPATH=tests
    python -m servers.docker up /tmp/stage                  # and leave it running
    TARN_TEST_DOCKER=/tmp/stage pytest -p no:faulthandler tests/docker
    eval "$(python -m servers.docker env /tmp/stage)"       # docker, tarn, yarn
    python -m servers.docker down /tmp/stage

The directory's name must be short, and every user must be able to enter it: containers run as
``nobody``, and so do masters. Hadoop's jars and a Python for them lie there too, therefore.
"""

import contextlib
import grp
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from house import MODELS

from servers import docker_image, docker_python
from servers.docker_daemon import Dockerd
from servers.docker_daemon import lacking as no_dockerd
from servers.maven import one_maven
from servers.yarn import Hadoop, YarnHouse, chosen, context, free_network
from tarn.errors import TimedOutError
from tarn.testing.wait import until
from tarn_plugins.cli.sandbox import jars, options
from tarn_plugins.cli.sandbox.options import SandboxOptions

SHARED = "TARN_TEST_DOCKER"
"""Names the directory of a running stage: it is used, and left running."""
REPOSITORY = "/models"
"""On HDFS: the models of the tests."""
RUNS_AS = "nobody"
PATIENT_S = 60.0
"""YARN's expiry interval here: a master starts slowly while other sessions use the same cores."""
EXECUTOR = Path(__file__).parents[1] / "docker" / "container_executor.py"
LINUX = "yarn.nodemanager.linux-container-executor"
RUNTIME = "yarn.nodemanager.runtime.linux"
CAPABILITIES = (
    "CHOWN,DAC_OVERRIDE,FSETID,FOWNER,MKNOD,NET_RAW,SETGID,SETUID,SETFCAP,SETPCAP,"
    "NET_BIND_SERVICE,SYS_CHROOT,KILL,AUDIT_WRITE"
)
"""Those that YARN asks for unless it is told otherwise; all must be allowed."""


def lacking() -> str:
    """Return why there can be no stage here; empty where there can: then it has to stand."""
    return no_dockerd() or docker_image.lacking() or docker_python.lacking(RUNS_AS)


class DockerYarn:
    """A dockerd and a sandbox of one node, in one directory. One thread; they outlive it.

    Args:
        directory: Absolute and short, every folder above it open to all.
        properties: Hadoop's own, over those of the stage.
    """

    def __init__(self, directory: Path, properties: Mapping[str, str] | None = None) -> None:
        self.directory = directory
        self._properties = dict(properties or {})
        self.mounted = directory / "mounted"
        """What containers may mount read-only."""
        self.models = self.mounted / "models"
        """The models of the tests, as a path of the node."""
        self.python = directory / "python" / "bin" / "python3"
        """An interpreter with tarn, which the users of containers can run."""
        self.hadoop: Hadoop
        self.dockerd: Dockerd

    @property
    def _sandbox(self) -> Path:
        return self.directory / "sandbox"

    def attach(self) -> None:
        """Use what is there already, with tarn as it is now."""
        docker_python.renew(self.directory / "python")
        self.hadoop = Hadoop(self._sandbox, context())
        self.dockerd = self._dockerd(self.hadoop.options.network)
        self.hadoop.up()
        self.dockerd.no_bridge = "" if self.dockerd.bridge.there() else "it was made without one"

    def up(self, number: int) -> None:
        """Start everything on the network *number* (`free_network`)."""
        self.directory.mkdir(parents=True, exist_ok=True)
        for folder in (self.directory, self.mounted, self.directory / "bin"):
            folder.mkdir(exist_ok=True)
            folder.chmod(0o755)
        shutil.copytree(MODELS, self.models, ignore=shutil.ignore_patterns("__pycache__"))
        for path in (self.models, *self.models.rglob("*")):  # a checkout may be its owner's alone
            path.chmod(0o755 if path.is_dir() else 0o644)
        self.dockerd = self._dockerd(number)
        with ThreadPoolExecutor(1) as beside:
            image = beside.submit(self._image)
            docker_python.make(self.directory / "python", RUNS_AS)
            self._jars()
            image.result()
        self._executor()
        self.hadoop = Hadoop(self._sandbox, context(), self._options(number))
        self.hadoop.up()
        self.hadoop.run("hdfs", "dfs", "-put", str(self.models), REPOSITORY)

    def down(self) -> None:
        """End everything, and remove it. Idempotent."""
        if hasattr(self, "hadoop"):
            self.hadoop.down()
        if hasattr(self, "dockerd"):
            self.dockerd.end()
        shutil.rmtree(self.directory, ignore_errors=True)

    def _dockerd(self, number: int) -> Dockerd:
        # The node's own address: mapped ports are found where an instance says that it is.
        address = options.address("nm1", SandboxOptions(network=number))
        return Dockerd(self.directory / "docker", number, address)

    def _options(self, number: int) -> SandboxOptions:
        return SandboxOptions(
            **chosen(),
            network=number,
            nodes=1,
            expiry_s=PATIENT_S,
            hadoop_home=str(self.directory / "jars"),
            properties={
                "yarn.nodemanager.container-executor.class": (
                    "org.apache.hadoop.yarn.server.nodemanager.LinuxContainerExecutor"
                ),
                f"{LINUX}.path": str(self.directory / "bin" / "container-executor"),
                f"{LINUX}.group": grp.getgrgid(os.getgid()).gr_name,
                # As it is where nobody decided otherwise: everything runs as one user.
                f"{LINUX}.nonsecure-mode.limit-users": "true",
                f"{LINUX}.nonsecure-mode.local-user": RUNS_AS,
                f"{RUNTIME}.allowed-runtimes": "default,docker",
                f"{RUNTIME}.docker.allowed-container-networks": "host,none,bridge",
                f"{RUNTIME}.docker.default-container-network": "host",
                f"{RUNTIME}.docker.allowed-container-runtimes": "runc,nvidia",
                f"{RUNTIME}.docker.delayed-removal.allowed": "true",
                "yarn.nodemanager.sleep-delay-before-sigkill.ms": "5000",
                # So long Docker keeps what ended where removal is delayed.
                "yarn.nodemanager.delete.debug-delay-sec": "300",
                **self._properties,
            },
        )

    def _jars(self) -> None:
        """Link Hadoop's jars where every user finds them: the cache is in somebody's home."""
        with one_maven():
            wanted = SandboxOptions(**chosen())
            found = jars.fetched(wanted.hadoop, context(), wanted.repository)
        folder = self.directory / "jars"
        folder.mkdir()
        for jar in found:
            docker_python.linked(jar, folder / jar.name)

    def _image(self) -> None:
        self.dockerd.start(context().environ)
        docker_image.load(self.dockerd)

    def _executor(self) -> None:
        """Write the NodeManager's executor: it is started with an empty environment."""
        configuration = self.directory / "container-executor.cfg"
        configuration.write_text(self._rights())
        program = self.directory / "bin" / "container-executor"
        python, script = Path(sys.executable).resolve(), EXECUTOR
        program.write_text(f'#!/bin/sh\nexec {python} -sSE {script} {configuration} "$@"\n')
        program.chmod(0o755)

    def _rights(self) -> str:
        data = self._sandbox / "data" / "nm1"
        return "\n".join(
            (
                f"{LINUX}.group={grp.getgrgid(os.getgid()).gr_name}",
                "min.user.id=1000",
                "banned.users=root,hdfs,yarn,mapred,bin",
                "[docker]",
                "module.enabled=true",
                f"docker.binary={shutil.which('docker')}",
                f"docker.host={self.dockerd.host}",
                "docker.allowed.networks=host,none,bridge",
                "docker.allowed.runtimes=runc,nvidia",
                "docker.trusted.registries=tarn",
                f"docker.allowed.capabilities={CAPABILITIES}",
                f"docker.allowed.rw-mounts={data}/local,{data}/logs",
                f"docker.allowed.ro-mounts={data}/local,{self.mounted}",
                "",
            )
        )


class DockerHouse(YarnHouse):
    """A house whose clusters run in the stage."""

    def __init__(self, root: Path, stage: DockerYarn) -> None:
        super().__init__(root, stage.hadoop)
        self.stage = stage

    def spec(self, name: str, *, options: Mapping[str, Any] | None = None, **keys: Any) -> str:
        """Write a ``tarn.yaml`` for the image; ``docker: null`` in *options* runs without it."""
        plain = {"docker": {"network": "host"}, "python": str(self.stage.python)}
        keys = {"models": {"repository": f"hdfs://{REPOSITORY}", "serve": ["echo"]}, **keys}
        keys["triton"] = {"image": docker_image.NAME, **keys.get("triton", {})}
        return super().spec(name, options={**plain, **(options or {})}, **keys)

    def clear(self) -> None:
        """End every cluster; a container that is left in docker is a failure too."""
        super().clear()
        dockerd = self.stage.dockerd
        try:  # YARN removes a container some seconds after its end
            until(lambda: not dockerd.containers(), 30, "an empty docker")
        except TimedOutError as error:
            left = dockerd.containers()
            dockerd.docker("rm", "--force", *left, check=False)
            raise AssertionError(f"left in docker: {left}") from error


@contextlib.contextmanager
def session_docker() -> Iterator[DockerYarn]:
    """Run the stage that all tests of a session share, or take the one that is named.

    Where there can be none, what asks for it is skipped with the reason. What is there and does not
    start is a failure.
    """
    named = context().environ.get(SHARED)
    if named:
        one = DockerYarn(Path(named))
        one.attach()
        yield one
        return
    if why := lacking():
        pytest.skip(f"{why} (then: nox -s docker)")
    one = DockerYarn(Path(tempfile.mkdtemp(prefix="td", dir="/tmp")))
    with free_network() as number:
        try:
            one.up(number)
            yield one
        finally:
            one.down()


@pytest.fixture(scope="session")
def shared_stage() -> Iterator[DockerYarn]:
    with session_docker() as one:
        yield one


@pytest.fixture
def stage(shared_stage: DockerYarn) -> DockerYarn:
    """The session's dockerd and YARN, every daemon of it at work."""
    shared_stage.hadoop.up()
    return shared_stage


@pytest.fixture
def docker_house(tmp_path: Path, stage: DockerYarn) -> Iterator[DockerHouse]:
    one = DockerHouse(tmp_path, stage)
    yield one
    one.clear()


def main(word: str, folder: str) -> int:
    """Do what the docstring of the module says."""
    one = DockerYarn(Path(folder).absolute())
    if word == "up":
        if why := lacking():
            sys.exit(f"there can be no stage here: {why}")
        with free_network() as number:
            try:
                one.up(number)
            except BaseException:
                one.down()
                raise
    elif word == "down":
        one.attach()
        one.down()
    elif word == "env":
        one.attach()
        for name, value in {**one.hadoop.environ, "DOCKER_HOST": one.dockerd.host}.items():
            if name in ("HADOOP_HOME", "HADOOP_CONF_DIR", "JAVA_HOME", "DOCKER_HOST"):
                print(f"export {name}='{value}'")
    else:
        sys.exit(__doc__)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
