"""A packed environment on its way: looked at, copied once, named in launches, found by scripts."""

import shutil
import subprocess
from pathlib import Path

import attrs
import pytest
from hadoop_files import MemoryFiles
from hypothesis import given
from hypothesis import strategies as st

from tarn.clock import SystemClock
from tarn.domain import Endpoint, Launch
from tarn.domain.spec import InstanceSpec, ModelsSpec, TritonSpec
from tarn.errors import LaunchError, NotFoundError, ProviderError, RefusedError
from tarn.interfaces import ClientContext, Finding, Paths, Staged
from tarn.java import java_home
from tarn.testing.context import cluster_spec
from tarn_plugins.cli.pack import tree
from tarn_plugins.runtime.yarn import Docker, YarnSettings, environment
from tarn_plugins.runtime.yarn.client.checks import YarnOverview
from tarn_plugins.runtime.yarn.client.deployer import YarnDeployer
from tarn_plugins.runtime.yarn.client.reports import ApplicationReport
from tarn_plugins.runtime.yarn.environment import ABOUT, DIRECTORY, INTERPRETER
from tarn_plugins.runtime.yarn.launch.launch_file import LAUNCH, RUN, SCRIPT, encode
from tarn_plugins.runtime.yarn.launch.launcher import StagedLauncher
from tarn_plugins.runtime.yarn.messages import ContainerRecord, FileEntry
from tarn_plugins.runtime.yarn.staging import Layout
from tarn_plugins.runtime.yarn.survey import Survey

CONTAINER = "container_e02_1700000000000_0001_02_000003"
STAGING = "hdfs://nn/user/a/.tarn"


class Files(MemoryFiles):
    """What is asked of a file system about archives, too."""

    def head(self, uri: str, most: int) -> bytes:
        if "denied" in uri:
            raise ProviderError("yarn", "permission denied")
        if uri not in self.found:
            raise NotFoundError("there is no such file or directory", where=uri)
        return self.found[uri][0][:most]

    def qualified(self, uri: str) -> str:
        return uri.replace("hdfs:///", "hdfs://nn/")


@pytest.fixture
def local(tmp_path):
    """An archive of this machine for tarn 1.0."""
    (tmp_path / "tree").mkdir()
    made = tmp_path / "env.tar.gz"
    tree.write(tmp_path / "tree", (ABOUT, b'{"tarn": "1.0", "python": "3.11.9"}'), made)
    return made


@pytest.mark.parametrize(
    ("python", "is_packed"),
    [
        (None, False),
        ("/opt/python/bin/python3", False),
        ("python3", False),
        ("/envs/a.tar.gz", True),
        ("/envs/A.TGZ", True),
        ("hdfs:///envs/a.tar.gz", True),
        ("s3a://b/env", True),
    ],
)
def test_a_setting_names_an_interpreter_or_an_archive(python, is_packed):
    """By its looks alone: nothing is asked."""
    assert environment.is_packed(python) is is_packed


@pytest.mark.parametrize(
    ("python", "code"),
    [
        ("env.tar.gz", "TARN-3190"),
        ("http://h/env.tar.gz", "TARN-3191"),
        ("hdfs:///a b.tar.gz", "TARN-3191"),
        ("hdfs:///$(x).tar.gz", "TARN-3191"),
        ("/nowhere/env.tar.gz", "TARN-3190"),
        ("hdfs://nn/gone.tar.gz", "TARN-3190"),
        ("hdfs://nn/denied.tar.gz", "TARN-3191"),
    ],
)
def test_what_cannot_be_used_is_found_before_the_start(python, code):
    """Missing, unreadable, or where no node reads it."""
    (finding,) = environment.look(python, Files(), "1.0")
    assert finding.code == code
    assert finding.fatal
    assert python in finding.where


@given(
    python=st.text(max_size=30).map(lambda text: f"hdfs://{text}.tar.gz")
    | st.text(max_size=30).map(lambda text: f"{text.replace(chr(0), '')}.tgz")
)
def test_any_name_is_judged(python):
    """Nothing is raised, whatever somebody wrote."""
    wrong = environment.misplaced(python)
    assert wrong is None or wrong.code.startswith("TARN-319")


def test_a_good_archive_has_no_finding(local):
    """Here, and where the nodes read it."""
    files = Files()
    files.write("hdfs://nn/env.tar.gz", local.read_bytes(), mode=0o644)
    assert not environment.look(str(local), files, "1.0")
    assert not environment.look("hdfs://nn/env.tar.gz", files, "1.0")
    assert [f.code for f in environment.look(str(local), files, "2.0")] == ["TARN-3193"]


def test_a_file_of_this_machine_is_copied_once(local):
    """By its content: under another name it is the same; everybody may read it."""
    files = Files()
    entry = environment.bring(str(local), STAGING, files)
    again = shutil.copy(local, local.with_name("other.tgz"))
    assert environment.bring(str(again), STAGING, files).uri == entry.uri
    assert files.uploaded == [entry.uri]
    assert entry.public
    assert entry.uri.startswith(f"{STAGING}/.environments/")
    assert files.directories[STAGING] == 0o755


def test_what_the_nodes_read_is_left_where_it_is(local):
    """Nothing is copied."""
    files = Files()
    files.write("hdfs://nn/env.tar.gz", local.read_bytes())
    assert environment.bring("hdfs://nn/env.tar.gz", STAGING, files).uri == "hdfs://nn/env.tar.gz"
    assert not files.uploaded


def test_a_file_that_went_away_is_told(tmp_path):
    """Between the check and the start."""
    with pytest.raises(LaunchError, match="cannot be read") as caught:
        environment.bring(str(tmp_path / "gone.tar.gz"), STAGING, Files())
    assert caught.value.code == "TARN-3190"


def test_an_upload_of_pack_never_replaces(local):
    """The same size under a name of its content: it is there; anything else is refused."""
    files = Files()
    assert environment.put(local, "hdfs:///e/a.tar.gz", files) == ("hdfs://nn/e/a.tar.gz", False)
    assert environment.put(local, "hdfs:///e/a.tar.gz", files) == ("hdfs://nn/e/a.tar.gz", True)
    files.write("hdfs://nn/e/a.tar.gz", b"other", replace=True)
    with pytest.raises(RefusedError):
        environment.put(local, "hdfs:///e/a.tar.gz", files)
    with pytest.raises(ProviderError, match="does not read"):
        environment.put(local, "http://h/a.tar.gz", files)


@pytest.mark.parametrize("public", [True, False])
def test_users_share_what_everybody_may_read(public):
    """Else it goes with the application."""
    file = environment.resource(FileEntry("a", "hdfs://nn/a", 1, 2, public))
    assert (file.name, file.archive) == (DIRECTORY, True)
    assert (file.public, file.application) == (public, not public)


# -- in the container


def container(root: Path, argv: list[str], *, unpacked: Path | None) -> subprocess.CompletedProcess:
    """Run the script as a container does; what is unpacked is a link, as YARN makes it."""
    (root / ".tarn").mkdir(parents=True)
    (root / SCRIPT).write_bytes(RUN)
    (root / LAUNCH).write_bytes(encode(argv, {"CDPATH": "/tmp:/"}))
    if unpacked is not None:
        (root / DIRECTORY).symlink_to(unpacked)
    return subprocess.run(
        ["sh", SCRIPT], cwd=root, capture_output=True, check=False,
        env={"PATH": "/usr/bin:/bin", "CDPATH": "/tmp:/"},
    )  # fmt: skip


@pytest.mark.parametrize("name", ["unpacked", "a b'$x", "ends\n"])
def test_the_interpreter_knows_where_it_really_lies(tmp_path, name):
    """Not the container's link to it: what is made for it is shared by all containers."""
    real = tmp_path / name
    (real / "bin").mkdir(parents=True)
    program = real / "bin" / "python3"
    program.write_text('#!/bin/sh\nprintf "%s|" "$0" "$@"\n')
    program.chmod(0o755)
    done = container(tmp_path / "c", [INTERPRETER, "-P", "a b"], unpacked=real)
    assert done.returncode == 0, done.stderr
    assert done.stdout.decode() == f"{program}|-P|a b|"


def test_a_missing_environment_is_told(tmp_path):
    """In the words that reach YARN's diagnostics."""
    done = container(tmp_path / "c", [INTERPRETER, "x"], unpacked=None)
    assert done.returncode == 70
    assert b"the packed environment" in done.stderr


def test_other_programs_are_left_alone(tmp_path):
    """An archive beside them changes nothing."""
    done = container(tmp_path / "c", ["/bin/echo", INTERPRETER], unpacked=tmp_path)
    assert done.stdout.decode() == f"{INTERPRETER}\n"


# -- Java


def test_a_packed_java_goes_before_the_node_s(tmp_path):
    """The setting, then the one beside the interpreter, then JAVA_HOME."""
    environ = {"JAVA_HOME": "/old", "PATH": "/nowhere"}
    assert java_home(environ, None, str(tmp_path)) == "/old"
    (tmp_path / "jre" / "bin").mkdir(parents=True)
    (tmp_path / "jre" / "bin" / "java").touch()
    assert java_home(environ, None, str(tmp_path)) == str(tmp_path / "jre")
    assert java_home(environ, "/set", str(tmp_path)) == "/set"
    assert attrs.asdict(environment.ArchiveManifest("1", "3.11")) == {"tarn": "1", "python": "3.11"}


# -- the client and the master


class Door:
    """Answers a few questions, and keeps what was asked."""

    def __init__(self, **answers):
        self.answers, self.asked = answers, {}

    def ask(self, question, within_s, **parts):
        self.asked[question] = (within_s, parts)
        return self.answers[question]


def deployer(hadoop, python, tmp_path):
    context = ClientContext(SystemClock(), {}, Paths(tmp_path / "home", tmp_path / "cache"))
    return YarnDeployer(YarnSettings(python=python), context, hadoop)


def test_a_start_names_the_archive_and_its_interpreter(local, tmp_path):
    """The copy of it gets the time that its size wants; so does the master's first word."""
    uri = "hdfs://nn/s/.environments/d.tar.gz"
    running = attrs.asdict(
        ApplicationReport("application_1_1", "RUNNING", host="n", port=1, submitted_ms=1)
    )
    hadoop = Door(
        bring_environment={"uri": uri, "bytes": 10},
        submit={"application_id": "application_1_1", "notes": []},
        report=running,
    )
    deployer(hadoop, str(local), tmp_path).submit(
        cluster_spec("packed"), Staged("hdfs://nn/m", "localize"), {}
    )
    assert hadoop.asked["bring_environment"][1] == {"python": str(local)}
    order = hadoop.asked["submit"][1]
    assert (order["python"], order["environment"]) == (INTERPRETER, uri)
    assert order["argv"][0] == INTERPRETER
    assert order["file_systems"] == ["hdfs://nn/m", uri]


def test_a_check_looks_at_the_archive(local, tmp_path):
    """With what else YARN has against the spec."""
    finding = attrs.asdict(Finding("TARN-3193", "w", "f", "n"))
    survey = attrs.asdict(Survey())
    hadoop = Door(overview=attrs.asdict(YarnOverview()), environment=[finding], survey=survey)
    found = deployer(hadoop, str(local), tmp_path).check(cluster_spec("packed"))
    assert [one.code for one in found] == ["TARN-3193"]
    assert hadoop.asked["environment"][1] == {"python": str(local)}


@pytest.mark.parametrize("docker", [None, Docker()])
def test_instances_without_docker_get_it(docker):
    """An image has its own programs; an archive that changed is looked up anew."""
    files, layout, uri = Files(), Layout("hdfs://nn/s/demo"), "hdfs://nn/env.tar.gz"
    files.write(uri, b"x", mode=0o644)
    files.write(f"{layout.public}/run", RUN, mode=0o644)
    launcher = StagedLauncher(
        files=files, layout=layout, python=INTERPRETER, docker=docker, packed=uri,
        name_of=lambda record: record.instance_id, address_of=lambda _: "127.0.0.1",
    )  # fmt: skip
    launch = Launch(ModelsSpec("/m"), TritonSpec(image="i:1"), InstanceSpec(), "/m", "h")
    record = ContainerRecord("demo-0001", 1, CONTAINER, "h", "n", Endpoint("n", 1, 2, 3), 0.0)

    def brought():
        found = launcher.prepare(record, launch).files
        return [(file.archive, file.modified_ms) for file in found if file.name == DIRECTORY]

    before = brought()
    assert len(before) == (docker is None)
    files.write(uri, b"y", mode=0o644, replace=True)
    assert brought() == before
    launcher.note_diagnostics("Resource changed on src filesystem")
    assert (brought() != before) == (docker is None)
