"""A fleet whose nodes have no Python and no Java of any use: both come with the environment."""

import json
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import attrs
import packed
import pytest
from servers.yarn import Hadoop, YarnHouse, context, sandbox
from yarn_fleet import Fleet, processes

from tarn_plugins.runtime.yarn import YarnSettings
from tarn_plugins.runtime.yarn.client.deployer import YarnDeployer

pytestmark = [pytest.mark.yarn, pytest.mark.triton, pytest.mark.timeout(300, func_only=True)]

PROGRAMS = (
    *("bash", "sh", "setsid", "ls", "cp", "find", "ln", "mkdir", "chmod", "cat", "rm"),
    *("head", "readlink", "sleep", "tail", "wc"),
)
"""What YARN's own scripts call, and who keeps logs below their bound."""
EXPIRY_S = 120.0
"""A node unpacks 140 MB before its master says a word."""


def jdk() -> str:
    """Return the JDK whose java is on PATH."""
    return str(Path(shutil.which("java") or "").resolve().parents[1])


@pytest.fixture(scope="module")
def archive() -> Path:
    """With Triton and a Java in it."""
    return packed.packed("--extra", "local", "--java", jdk())


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A PATH without any Python or Java."""
    folder = tmp_path_factory.mktemp("bare")
    for program in PROGRAMS:
        found = shutil.which(program)
        assert found, program
        (folder / program).symlink_to(found)
    return folder


@pytest.fixture(scope="module")
def bare_hadoop(tmp_path_factory: pytest.TempPathFactory, bare: Path) -> Iterator[Hadoop]:
    """One node; every container of it has that PATH, and a JAVA_HOME that is a trap."""
    trap = tmp_path_factory.mktemp("java8")
    (trap / "bin").mkdir()
    (trap / "bin" / "java").write_text("#!/bin/sh\necho 'a broken Java was started' >&2\nexit 1\n")
    (trap / "bin" / "java").chmod(0o755)
    given = {"yarn.nodemanager.admin-env": f"PATH={bare},JAVA_HOME={trap}"}
    shape = {"nodes": 1, "properties": given, "expiry_s": EXPIRY_S}
    with sandbox(tmp_path_factory.mktemp("packed") / "sandbox", **shape) as one:
        yield one


@pytest.fixture
def bare_house(tmp_path: Path, bare_hadoop: Hadoop) -> Iterator[YarnHouse]:
    one = YarnHouse(tmp_path, bare_hadoop)
    yield one
    one.clear()


def test_master_and_instance_run_from_the_archive(bare_house, bare_hadoop, archive, bare) -> None:
    """Up, infer, down on a node without Python: both programs are the archive's, and so is Java."""
    fleet = Fleet(bare_house, bare_hadoop, "packed")
    size = {"min": 1, "max": 1, "initial": 1}
    uri = brought(bare_hadoop, archive, f"{bare_house.staging}/env.tar.gz")
    spec = bare_house.spec("packed", options={"python": uri}, replicas=size)
    fleet.up(spec, timeout_s=200)
    status = fleet.settled(1)
    fleet.infer(status["instances"][0])

    running = list(processes(fleet.application_id))
    (master,) = [one for one in running if "tarn.master" in one.argv]
    (triton,) = [one for one in running if "--model-repository" in " ".join(one.argv)]
    unpacked = Path(master.argv[0]).parents[1]
    assert unpacked.name.endswith(".tar.gz"), "an archive that the NodeManager unpacked"
    assert "filecache" in unpacked.parts
    assert "usercache" not in unpacked.parts, "everybody on the node shares it"
    ours = [one for one in running if Path(one.argv[0]).name not in PROGRAMS]
    assert len(ours) >= 3, "the master, Triton, and what runs its Python model"
    for one in ours:
        files = mapped(one.pid)
        assert any(file.startswith(str(unpacked)) for file in files), one.argv
        # not the whole prefix: the sandbox may lie in it
        foreign = tuple(f"{place}/lib/py" for place in (sys.prefix, sys.base_prefix))
        strange = [f for f in files if f.startswith(foreign)]
        assert not strange, f"{one.argv[0]} uses what is not the node's: {strange[:3]}"
    assert any("jre/lib/server/libjvm.so" in f for f in mapped(master.pid))
    assert environment(master.pid)["PATH"] == str(bare)
    assert "java8" in environment(master.pid)["JAVA_HOME"]
    assert str(unpacked) in triton.argv[0], "Triton is the archive's"

    said = json.loads((unpacked / "tarn-environment.json").read_text())
    assert said["java"] >= 11
    fleet.down()


def test_an_archive_that_is_not_there_is_found_before_the_start(bare_house) -> None:
    """The name node is asked; nothing is submitted."""
    spec = bare_house.spec("gone", options={"python": "hdfs:///nowhere/env.tar.gz"})
    done = bare_house.tarn("up", "-f", spec)
    assert done.returncode != 0
    assert "TARN-3190" in done.stderr, done.stderr
    assert not bare_house.applications("gone")


def brought(hadoop: Hadoop, archive: Path, path: str) -> str:
    """Put the archive on HDFS as `tarn pack` does, twice: the second time it is there."""
    around = context()
    environ = {**around.environ, **hadoop.environ}
    deployer = YarnDeployer(YarnSettings(), attrs.evolve(around, environ=environ))
    uri, there = deployer.put(archive, f"hdfs://{path}")
    assert not there
    assert deployer.put(archive, uri) == (uri, True)
    return uri


def mapped(pid: int) -> list[str]:
    """Return the files that a process has in its memory."""
    lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
    return [line.split(None, 5)[5] for line in lines if line.count("/") > 1]


def environment(pid: int) -> dict[str, str]:
    """Return what a process was started with."""
    pairs = os.fsdecode(Path(f"/proc/{pid}/environ").read_bytes()).split("\0")
    return dict(pair.partition("=")[::2] for pair in pairs if pair)
