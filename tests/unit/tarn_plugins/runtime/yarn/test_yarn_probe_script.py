"""The probe's script says what is there, in whatever shell the node has, and evaluates nothing."""

import importlib.util
import os
import shutil
import socket
import subprocess
import sys
import threading
from pathlib import Path

import attrs
import pytest
from short_folder import short_folder

from tarn_plugins.runtime.yarn.probe.driver import call
from tarn_plugins.runtime.yarn.probe.messages import Facts, parse
from tarn_plugins.runtime.yarn.probe.script import COMMAND, EXIT_CODE, ProbeInputs, environment

NOTHING = ProbeInputs()
SHELLS = {"dash": "dash", "bash": "bash", "busybox": "busybox"}
TAIL = 4096
"""What YARN keeps of the file."""
NASTY = "/x y/$(touch p)`touch p`';touch p;'\"\\n%s{{PWD}}<LOG_DIR>é"
FAKE_JAVA = "#!/bin/sh\necho 'java version \"1.8.0_392\"' >&2\necho 'Java(TM) SE' >&2\n"
FAKE_SMI = (
    "#!/bin/sh\n"
    "echo 'GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-1)'\n"
    "echo 'GPU 1: NVIDIA A100-SXM4-40GB (UUID: GPU-2)'\n"
)


@attrs.frozen
class Node:
    """A directory that plays a node: its programs, and a container's directory."""

    root: Path
    shell: str
    """What `sh` is there."""

    @property
    def container(self) -> Path:
        return self.root / "container"

    def give(self, name: str, text: str) -> Path:
        """Put a program on the node's PATH."""
        path = self.root / "bin" / name
        path.write_text(text)
        path.chmod(0o755)
        return path

    def start(self, question: ProbeInputs = NOTHING, **environ: str) -> "subprocess.Popen[bytes]":
        """Start what YARN's launch script would."""
        exports = "".join(
            f'export {name}="{value}"\n' for name, value in environment(question).items()
        )
        command = COMMAND.replace("<LOG_DIR>", str(self.root / "logs"))
        script = self.root / "launch_container.sh"
        script.write_text(f'{exports}exec /bin/bash -c "{command}"\n')
        path = f"{self.root / 'bin'}:/usr/bin:/bin"
        return subprocess.Popen(
            ["/bin/bash", str(script)], cwd=self.container, env={"PATH": path, **environ}
        )

    def text(self) -> str:
        return (self.root / "logs" / "probe.stderr").read_bytes()[-TAIL:].decode(errors="replace")

    def facts(self, question: ProbeInputs = NOTHING, **environ: str) -> Facts:
        """Return what it said; it always ends in the way that makes YARN keep it."""
        assert self.start(question, **environ).wait(40) == EXIT_CODE
        facts = parse(f"[2026-01-01] Last 4096 bytes of probe.stderr :\n{self.text()}\n\n")
        assert facts.whole
        assert not (self.container / "p").exists()
        return facts


@pytest.fixture
def tmp_path(request):
    """A short one: of a long path the script says the beginning only."""
    return short_folder(request.node)


def node_with(shell, root):
    found = shutil.which(SHELLS[shell])
    if found is None:
        pytest.skip(f"no {SHELLS[shell]} on this machine: apt-get install it")
    for folder in ("bin", "container", "logs"):
        (root / folder).mkdir()
    (root / "bin" / "sh").symlink_to(found)
    return Node(root, found)


@pytest.fixture(params=sorted(SHELLS))
def each_node(request, tmp_path):
    """Every shell that may be a node's `sh`; this machine may lack one."""
    return node_with(request.param, tmp_path)


@pytest.fixture
def node(tmp_path):
    return node_with("dash", tmp_path)


def test_what_is_there_is_said(each_node, tmp_path):
    """All of it at once: in less than YARN keeps, with the beginning and the end.

    A proxy is named without its value, and the settings' Java wins over the node's.
    """
    home = tmp_path / "jdk8"
    (home / "bin").mkdir(parents=True)
    shutil.copy(each_node.give("java", FAKE_JAVA), home / "bin" / "java")
    each_node.give("nvidia-smi", FAKE_SMI)
    question = ProbeInputs(python=sys.executable, environ={"TARN_PROBE_JAVA": str(home)})
    facts = each_node.facts(
        question,
        JAVA_HOME="/nowhere",
        CUDA_VISIBLE_DEVICES="0",
        https_proxy="http://bob:hunter2@proxy:3128",
    )
    assert facts.get("kernel").startswith("Linux ")
    assert facts.get("machine") == os.uname().machine
    assert facts.get("uid") == str(os.getuid())
    assert facts.get("cgroup") in ("v1", "v2", "none")
    assert facts.number("nofile")
    assert facts.room("disk")
    assert facts.room("tmp")
    assert facts.yes("first") is False
    assert facts.number("clock") > 1_700_000_000_000
    assert facts.get("proxies") == "https_proxy"
    assert "hunter2" not in each_node.text()
    assert (facts.get("java"), facts.get("java_from")) == ("ok", "java_home")
    assert facts.version("java_version")[:2] == (1, 8)
    assert facts.get("java_path") == f"{home}/bin/java"
    assert (facts.number("gpus"), facts.get("cuda_visible")) == (2, "0")
    assert "NVIDIA A100" in facts.get("gpu_names")
    assert facts.get("python") == "ok"
    assert facts.version("python_version") == sys.version_info[:3]
    assert facts.get("tarn_version")
    # the extra yarn is not needed to test the script
    assert facts.get("python_lacks") == ("" if importlib.util.find_spec("jpype") else "jpype")
    assert len(each_node.text()) < TAIL


def test_java_is_looked_for_as_a_master_does(node):
    """JAVA_HOME before PATH, and a wrong one is not passed over."""
    facts = node.facts(JAVA_HOME="/nowhere")
    assert (facts.get("java"), facts.get("java_from")) == ("missing", "JAVA_HOME")
    node.give("java", FAKE_JAVA)
    facts = node.facts()
    assert (facts.get("java"), facts.get("java_from")) == ("ok", "PATH")


def test_a_python_without_tarn_is_told(node, tmp_path):
    """With the error that the import raised."""
    bare = node.give("bare", f'#!/bin/sh\nshift\nexec {sys.executable} -I -S -c "$1"\n')
    facts = node.facts(ProbeInputs(python=str(bare)))
    assert facts.get("tarn_error").startswith("ModuleNotFoundError")


@pytest.mark.parametrize("python", [NASTY, "--help"])
def test_a_wrong_path_is_a_fact_and_no_command(each_node, python):
    """Whatever it is made of."""
    assert each_node.facts(ProbeInputs(python=python)).get("python") == "missing"


def test_a_python_that_may_not_be_run_is_told_from_a_missing_one(node, tmp_path):
    """And so is one that fails, with its last word."""
    (tmp_path / "denied").write_text("")
    assert node.facts(ProbeInputs(python=str(tmp_path / "denied"))).get("python") == "denied"
    broken = node.give("broken", "#!/bin/sh\necho cannot load libpython >&2\nexit 3\n")
    facts = node.facts(ProbeInputs(python=str(broken)))
    assert (facts.get("python"), facts.get("python_error")) == ("failed", "cannot load libpython")


def test_an_nvidia_smi_that_fails_is_quoted(node):
    """Its last line says why."""
    node.give("nvidia-smi", "#!/bin/sh\necho Driver/library version mismatch\nexit 9\n")
    facts = node.facts()
    assert (facts.get("gpus"), facts.get("gpu_error")) == (
        "failed",
        "Driver/library version mismatch",
    )


def test_hadoop_is_asked_as_a_master_asks_it(node, tmp_path):
    """HADOOP_HOME is not passed over; the version stands in a jar's name."""
    home = tmp_path / "hadoop"
    (home / "bin").mkdir(parents=True)
    script = home / "bin" / "hadoop"
    script.write_text(
        "#!/bin/sh\n[ \"$*\" = 'classpath --glob' ] || exit 1\n"
        "echo /etc/conf:/x/hadoop-common-3.1.1.7.1.7-551.jar:/x/hadoop-common-3.1.1-tests.jar\n"
    )
    script.chmod(0o755)
    facts = node.facts(HADOOP_HOME=str(home))
    assert facts.get("hadoop") == str(script)
    assert facts.version("hadoop_version")[:3] == (3, 1, 1)
    assert node.facts(HADOOP_HOME="/nowhere").get("hadoop") == ""


def test_a_connection_is_tried_whatever_tool_there_is(each_node):
    """An open port, a closed one, and a name that is none."""
    with socket.create_server(("127.0.0.1", 0)) as open_:
        port = open_.getsockname()[1]
        question = ProbeInputs(targets=(f"127.0.0.1:{port}", "127.0.0.1:1", "$(touch p).test:80"))
        facts = each_node.facts(question)
    assert [facts.yes(f"reach_{at}") for at in (1, 2, 3)] == [True, False, False]


def test_it_listens_where_a_client_gets_through(each_node):
    """At the first of the ports that is free; it stops as soon as the client was heard."""
    with socket.create_server(("127.0.0.1", 0)) as taken, socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        ports = (taken.getsockname()[1], free.getsockname()[1])
        free.close()
        question = ProbeInputs(python=sys.executable, ports=ports, word="beef")
        process = each_node.start(question, NM_HOST="127.0.0.1")
        pause = threading.Event()
        for _ in range(200):
            if not call("127.0.0.1", ports[1], "beef"):
                break
            pause.wait(0.05)
        else:
            pytest.fail("nobody listened")
        assert process.wait(30) == EXIT_CODE
    facts = parse(each_node.text())
    assert (facts.number("port"), facts.yes("port_heard")) == (ports[1], True)


def test_nobody_calls(node):
    """Then it says so after a few seconds; a stranger's word is not the client's."""
    facts = node.facts(
        ProbeInputs(python=sys.executable, ports=(0,), word="beef", listen_s=1), NM_HOST=""
    )
    assert facts.yes("port_heard") is False


def test_a_node_with_nothing_says_something(each_node, tmp_path):
    """No timeout, no getent, no python: what is missing is left out, and it ends as it should."""
    few = tmp_path / "few"
    few.mkdir()
    for name in ("cat", "date", "tr", "cut", "uname", "id", "mkdir", "env", "sed", "grep", "head",
                 "tail", "df", "awk", "bash"):  # fmt: skip
        found = shutil.which(name)
        assert found is not None
        (few / name).symlink_to(found)
    (few / "sh").symlink_to(each_node.shell)
    facts = each_node.facts(ProbeInputs(targets=("127.0.0.1:1",), ports=(0,)), PATH=str(few))
    assert facts.get("gpus") == "none"
    assert facts.get("java") == "none"
    assert facts.get("port") == ""
