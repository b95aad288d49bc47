"""What a container is started with: its files, its arguments, its environment."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import attrs
import pytest
from hadoop_files import MemoryFiles
from hypothesis import given
from hypothesis import strategies as st

from tarn.domain import Endpoint, Launch
from tarn.domain.spec import CacheSpec, InstanceSpec, ModelsSpec, ResourcesSpec, TritonSpec
from tarn.errors import LaunchError, ProviderError
from tarn_plugins.runtime.yarn import Docker
from tarn_plugins.runtime.yarn.launch.docker import environment, problems
from tarn_plugins.runtime.yarn.launch.instance import program
from tarn_plugins.runtime.yarn.launch.launch_file import COMMAND, LAUNCH, RUN, SCRIPT
from tarn_plugins.runtime.yarn.launch.launcher import StagedLauncher, address_of
from tarn_plugins.runtime.yarn.messages import ContainerRecord, Launcher
from tarn_plugins.runtime.yarn.staging import Layout

ROOT = Layout("hdfs://nn/user/a/.tarn/demo")
REPOSITORY = "hdfs://nn/models"
CONTAINER = "container_e02_1700000000000_0001_02_000003"
RECORD = ContainerRecord(
    "demo-0001", 1, CONTAINER, "abc", "nm1.tarn.lab", Endpoint("nm1.tarn.lab", 1, 2, 3), 1.8e9
)
ECHO = {"echo/config.pbtxt": b"backend: 'python'", "echo/1/model.py": b"x"}
SECRET = "hunter2 $(touch p) {{PWD}}"


def launch(**triton):
    return Launch(ModelsSpec(REPOSITORY), TritonSpec(**triton), InstanceSpec(), REPOSITORY, "abc")


@pytest.fixture
def files():
    """The cluster's directory with the script in it, and a repository that everybody reads."""
    made = MemoryFiles()
    made.write(f"{ROOT.public}/run", RUN, mode=0o644)
    for path, data in ECHO.items():
        made.write(f"{REPOSITORY}/{path}", data, mode=0o644)
    return made


def launcher(files, docker=None, tokens=None) -> Launcher:
    return StagedLauncher(
        files=files,
        layout=ROOT,
        python="/env/bin/python",
        docker=docker,
        name_of=lambda record: f"{record.instance_id}@{record.container_id}",
        address_of={"nm1.tarn.lab": "127.0.1.1"}.__getitem__,
        tokens=tokens,
    )


def escaped(kind: str, path: Path) -> bytes:
    return kind.encode() + b"".join(rb"\0%03o" % byte for byte in str(path).encode()) + b"\n"


def told(files, tmp_path) -> tuple[list[str], dict[str, str]]:
    """Return what the launch file makes of a container: arguments, environment."""
    (tmp_path / ".tarn").mkdir()
    (path,) = [uri for uri in files.found if uri.startswith(ROOT.launches)]
    say = tmp_path / "say"
    say.write_text(f"#!{sys.executable} -IS\nimport os, sys; print((sys.argv, dict(os.environ)))")
    say.chmod(0o700)
    (tmp_path / SCRIPT).write_bytes(RUN)
    lines = files.read(path).splitlines(keepends=True)
    first = next(at for at, line in enumerate(lines) if not re.match(rb"-|\+|@|\w+=", line))
    models = tmp_path / "image-models"
    models.mkdir()
    lines = [escaped("@", models) if line.startswith(b"@") else line for line in lines]
    said = [*lines[:first], escaped("", say), *lines[first:]]
    (tmp_path / LAUNCH).write_bytes(b"".join(said))
    done = subprocess.run(
        [shutil.which("sh"), SCRIPT],
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin", "HADOOP_TOKEN_FILE_LOCATION": "/t", "KEYSTORE_PASSWORD": "p"},
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    )
    argv, environ = eval(done.stdout)
    return argv[1:], environ


def test_a_container_without_docker(files, tmp_path):
    """Tritonserver is found on the node; ports, address and names are the instance's."""
    made = launcher(files).prepare(RECORD, launch(env={"HF_TOKEN": SECRET}))
    argv, environ = told(files, tmp_path)
    assert argv[:4] == ["/env/bin/python", "-P", "-m", "tarn.triton.start"]
    for word in (
        "--model-repository=models", "--http-address=127.0.1.1", "--grpc-address=127.0.1.1",
        "--metrics-address=127.0.1.1", "--http-port=1", "--grpc-port=2", "--metrics-port=3",
        "--id=demo-0001",
    ):  # fmt: skip
        assert word in argv
    assert environ["HF_TOKEN"] == SECRET
    assert environ["TARN_INSTANCE"] == "demo-0001"
    assert not {"HADOOP_TOKEN_FILE_LOCATION", "KEYSTORE_PASSWORD"} & environ.keys()
    assert made.command == COMMAND
    assert made.environ == {}
    assert {f.name: (f.uri, f.public) for f in made.files} == {
        SCRIPT: (f"{ROOT.public}/run", True),
        LAUNCH: (f"{ROOT.launches}/demo-0001@{CONTAINER}", False),
        "models/echo/config.pbtxt": (f"{REPOSITORY}/echo/config.pbtxt", True),
        "models/echo/1/model.py": (f"{REPOSITORY}/echo/1/model.py", True),
    }
    assert [f.name for f in made.files if f.application] == [LAUNCH]
    assert all(f.modified_ms > 1000 and f.bytes for f in made.files)


def test_a_secret_is_in_the_launch_file_only(files):
    """Which is 0600; YARN's own command and environment know nothing."""
    made = launcher(files, Docker()).prepare(RECORD, launch(env={"HF_TOKEN": SECRET}))
    assert "hunter2" not in repr(made)
    data, _, mode = files.found[f"{ROOT.launches}/demo-0001@{CONTAINER}"]
    assert mode == 0o600
    assert b"hunter2" in data


def test_new_tokens_are_fetched_for_each_container(files):
    """After its launch file was written; where there are none, that is no fault of the node's."""
    fetched = iter([b"one", b"two"])
    fresh = launcher(files, tokens=lambda: next(fetched))
    assert [fresh.prepare(RECORD, launch()).tokens for _ in range(2)] == [b"one", b"two"]
    assert "one" not in repr(attrs.evolve(launcher(files).prepare(RECORD, launch()), tokens=b"one"))

    def none() -> bytes:
        raise ProviderError("yarn", "the name node does not answer")

    with pytest.raises(LaunchError, match="name node") as raised:
        launcher(files, tokens=none).prepare(RECORD, launch())
    assert raised.value.retry_after_s
    assert launcher(files).prepare(RECORD, launch()).tokens is None


def test_a_launch_file_that_everybody_may_read_starts_nothing(files):
    """A file system that ignores modes, or a hand that changed them."""

    class Careless(MemoryFiles):
        def write(self, uri, data, *, mode=0o600, replace=False):
            super().write(uri, data, mode=0o644, replace=replace)

    careless = Careless(files.found)
    with pytest.raises(LaunchError, match="everybody may read") as raised:
        launcher(careless).prepare(RECORD, launch(env={"HF_TOKEN": SECRET}))
    assert raised.value.retry_after_s is None
    assert "hunter2" not in str(raised.value)


def test_what_the_user_names_is_started(files, tmp_path):
    """``triton.binary`` is a path of the nodes; ``triton.bind`` is obeyed."""
    launcher(files).prepare(RECORD, launch(binary="/opt/triton server", bind="::"))
    argv, _ = told(files, tmp_path)
    assert argv[3:5] == ["tarn.triton.start", "--tritonserver=/opt/triton server"]
    assert "--http-address=ipv6:::" in argv


def test_a_mounted_repository_is_used_where_it_is(files, tmp_path):
    """Nothing is listed, nothing is brought."""
    made = launcher(files).prepare(RECORD, attrs.evolve(launch(), repository="/mnt/models"))
    argv, _ = told(files, tmp_path)
    assert "--model-repository=/mnt/models" in argv
    assert {file.name for file in made.files} == {SCRIPT, LAUNCH}


def test_a_container_of_docker(files, tmp_path):
    """The image's own tritonserver; ``triton.binary`` is a path of the node, and means nothing."""
    made = launcher(files, Docker()).prepare(RECORD, launch(image="a/b:1", binary="/x"))
    argv, _ = told(files, tmp_path)
    assert argv[0] == "tritonserver"
    assert "--http-address=127.0.1.1" in argv
    prefix = "YARN_CONTAINER_RUNTIME_DOCKER_"
    assert made.environ == {
        "YARN_CONTAINER_RUNTIME_TYPE": "docker",
        prefix + "IMAGE": "a/b:1",
        prefix + "RUN_OVERRIDE_DISABLE": "false",
        prefix + "CONTAINER_NETWORK": "host",
        prefix + "TMPFS_MOUNTS": "/dev/shm,/models",
    }
    assert "--model-repository=/models" in argv


def test_a_network_of_docker_s_own(files, tmp_path):
    """The node's address is not in it, and the container has a name of its own."""
    docker = Docker(
        network="bridge", mounts=("/a:/b:ro", "/c:/d"), ports=("80:8000", "81:8001"),
        privileged=True, delayed_removal=True,
    )  # fmt: skip
    gpus = attrs.evolve(launch(), instance=InstanceSpec(ResourcesSpec(gpus=2)))
    made = launcher(files, docker).prepare(RECORD, gpus)
    argv, _ = told(files, tmp_path)
    assert "--http-address=0.0.0.0" in argv
    prefix = "YARN_CONTAINER_RUNTIME_DOCKER_"
    assert {
        prefix + "CONTAINER_HOSTNAME": CONTAINER, prefix + "MOUNTS": "/a:/b:ro,/c:/d",
        prefix + "PORTS_MAPPING": "1:1,2:2,3:3,80:8000,81:8001",
        prefix + "RUN_PRIVILEGED_CONTAINER": "true",
        prefix + "DELAYED_REMOVAL": "true", prefix + "RUNTIME": "nvidia",
    }.items() <= made.environ.items()  # fmt: skip


def test_a_mounted_repository_is_at_models_in_an_image(files, tmp_path):
    """Docker mounts it there, for reading; a mount of the user's at that place is as good."""
    mounted = attrs.evolve(launch(), repository="/mnt/models")
    made = launcher(files, Docker(mounts=("/a:/b:ro",))).prepare(RECORD, mounted)
    argv, _ = told(files, tmp_path)
    assert "--model-repository=/models" in argv
    mounts, tmpfs = (f"YARN_CONTAINER_RUNTIME_DOCKER_{name}" for name in ("MOUNTS", "TMPFS_MOUNTS"))
    assert made.environ[mounts] == "/mnt/models:/models:ro,/a:/b:ro"
    assert made.environ[tmpfs] == "/dev/shm"
    assert b"@" not in files.read(f"{ROOT.launches}/demo-0001@{CONTAINER}")
    mine = Docker(mounts=("/srv/models:/models:ro",))
    assert launcher(files, mine).prepare(RECORD, mounted).environ[mounts] == mine.mounts[0]


@given(text=st.text(max_size=12), part=st.sampled_from(["network", "mounts", "ports", "image"]))
def test_no_setting_of_docker_s_can_mean_something_to_a_shell(text, part):
    """YARN writes them into a script, between double quotes."""
    docker, triton = Docker(), TritonSpec()
    match part:
        case "image":
            triton = TritonSpec(image=f"a{text}")
        case "network":
            docker = Docker(network=f"a{text}")
        case "mounts":
            docker = Docker(mounts=(f"/a{text}:/b:ro",))
        case _:
            docker = Docker(ports=(f"8{text}:80",), network="bridge")
    wanted = attrs.evolve(launch(), triton=triton)
    if list(problems(docker, triton, REPOSITORY, (1, 2, 3))):
        with pytest.raises(LaunchError) as raised:
            environment(docker, wanted, CONTAINER, RECORD.endpoint)
        assert raised.value.retry_after_s is None
    else:
        for value in environment(docker, wanted, CONTAINER, RECORD.endpoint).values():
            assert not set(value) & set("\"'$`\\ \n;&|<>(){}*?[]#~!")
            assert value.isascii()


def test_two_containers_of_one_node_share_no_memory_by_name():
    """An instance's second container may meet what the first one left."""
    again = attrs.evolve(RECORD, container_id=CONTAINER[:-1] + "4")
    words = [
        next(word for word in made.argv if "shm-region-prefix-name" in word)
        for record in (RECORD, again)
        for made in [
            program(launch(), record, address="127.0.1.1", python="p", within=None)
        ]
    ]  # fmt: skip
    assert words[0] != words[1]


def test_the_repository_is_listed_once(files):
    """A second instance asks nothing but for its own launch file."""
    one = launcher(files)
    first = one.prepare(RECORD, launch())
    files.listed.clear()
    second = one.prepare(RECORD, launch())
    assert files.listed == []
    assert second.files[2:] == first.files[2:]


@pytest.mark.parametrize(
    ("said", "again"),
    [
        ("Resource hdfs://nn/m changed on src filesystem - expected: 1", True),
        ("Resource x is not publicly accessible and cannot be part of the public cache.", True),
        ("Container killed by the ApplicationMaster.", False),
    ],
)  # fmt: skip
def test_a_repository_that_changed_is_listed_anew(files, said, again):
    """The failed container says so; the next one gets the new file."""
    one = launcher(files)
    before = one.prepare(RECORD, launch())
    files.write(f"{REPOSITORY}/echo/1/model.py", b"longer", replace=True, mode=0o600)
    one.note_diagnostics(said)
    after = one.prepare(RECORD, launch())
    sizes = [{f.name: f.bytes for f in made.files} for made in (before, after)]
    assert sizes[0]["models/echo/1/model.py"] == 1
    assert sizes[1]["models/echo/1/model.py"] == (6 if again else 1)
    assert any(f.public for f in after.files if f.name.startswith("models/")) is not again


def test_a_file_system_that_does_not_answer_is_asked_again(files):
    """It is no fault of the launch."""
    files.down = True
    with pytest.raises(LaunchError) as raised:
        launcher(files).prepare(RECORD, launch())
    assert raised.value.retry_after_s


def test_a_staging_directory_that_was_cleaned_is_said(files):
    """With its path."""
    files.remove(f"{ROOT.public}/run")
    with pytest.raises(LaunchError, match=re.escape(ROOT.public)):
        launcher(files).prepare(RECORD, launch())


def test_a_repository_that_is_none_is_said_for_good(files):
    """As for a path of this machine: one level off, empty, missing, a model that is not there."""
    one = launcher(files)
    for repository, serve, code in (
        (f"{REPOSITORY}/echo", (), "TARN-2202"),
        ("hdfs://nn/nothing", (), "TARN-2200"),
        ("hdfs://nn", (), "TARN-2202"),
        (REPOSITORY, ("ecko",), "TARN-2203"),
    ):
        wanted = attrs.evolve(
            launch(), repository=repository, models=ModelsSpec(repository, serve)
        )  # fmt: skip
        with pytest.raises(LaunchError) as raised:
            one.prepare(RECORD, wanted)
        assert (raised.value.code, raised.value.retry_after_s) == (code, None)


def test_a_name_is_resolved():
    """To what others can reach, of version 4 where there is one; one that nobody knows is said."""
    assert address_of("127.0.1.7") == "127.0.1.7"
    with pytest.raises(LaunchError, match=r"nowhere\.invalid") as raised:
        address_of("nowhere.invalid")
    assert raised.value.retry_after_s


def test_the_script_is_a_program_of_its_own():
    """Made for any POSIX shell."""
    assert RUN.isascii()
    assert Path(SCRIPT).parent == Path(LAUNCH).parent


@pytest.mark.parametrize("within", [None, Docker()])
def test_a_response_cache_is_configured_and_its_folder_left_to_the_node(within):
    """`tarn.triton.start` adds that of the node's wheel; an image has Triton's default."""
    started = program(
        launch(cache=CacheSpec(64)), RECORD, address="10.0.0.1", python="python3", within=within
    )
    assert "--cache-config=local,size=67108864" in started.argv
    assert not any("cache-directory" in word for word in started.argv)
