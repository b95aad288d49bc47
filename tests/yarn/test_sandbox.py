"""The sandbox is a Hadoop like any other, and nothing of it is left."""

import getpass
import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from house import until
from servers.yarn import Hadoop, YarnHouse, context, sandbox

from tarn.errors import NotFoundError, RefusedError, UnreachableError
from tarn.process_table import start_ticks
from tarn_plugins.cli.sandbox.daemons import DaemonProcess, containers
from tarn_plugins.cli.sandbox.options import host
from tarn_plugins.cli.sandbox.sandbox import Sandbox

pytestmark = pytest.mark.yarn


def submit(hadoop: Hadoop, command: str, memory: int = 128, **keys: Any) -> str:
    """Run *command* as the master of an application that has one attempt; return its id."""
    made = hadoop.rest.post("apps/new-application", None)["application-id"]
    application = {
        "application-id": made,
        "application-name": "sandbox-test",
        "am-container-spec": {
            "commands": {"command": f"{command} 1><LOG_DIR>/out 2><LOG_DIR>/err"}
        },
        "max-app-attempts": 1,
        "resource": {"memory": memory, "vCores": 1},
        "application-type": "TEST",
        **keys,
    }
    hadoop.rest.post("apps", application)
    return str(made)


def ended(hadoop: Hadoop, application_id: str, within_s: float = 30) -> dict[str, Any]:
    over = ("FINISHED", "FAILED", "KILLED")
    until(lambda: hadoop.app(application_id)["state"] in over, within_s, application_id)
    return hadoop.app(application_id)


def listeners(pids: set[int]) -> set[str]:
    """Return the addresses (as /proc writes them) on which these processes listen."""
    sockets = set()
    for pid in pids:
        for link in Path(f"/proc/{pid}/fd").iterdir():
            try:
                sockets.add(link.readlink().name)
            except OSError:
                continue
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and f"socket:[{fields[9]}]" in sockets:
                found.add(fields[1].partition(":")[0])
    return found


def test_every_daemon_runs_and_listens_on_loopback_only(hadoop: Hadoop) -> None:
    """NameNode, DataNode, ResourceManager and three NodeManagers, each with its own address."""
    daemons = hadoop.daemons()
    assert {one.name for one in daemons} >= {"nn", "dn", "rm", "nm1", "nm2", "nm3"}
    found = listeners({one.pid for one in daemons if one.pid})
    assert len(found) >= 6
    # the last byte comes first: 127.x.x.x
    assert {one[-2:] for one in found} == {"7F"}


def test_the_nodes_are_three_hosts_that_declare_a_gpu_each(hadoop: Hadoop) -> None:
    """YARN sees three machines."""
    seen = hadoop.nodes()
    assert {one["nodeHostName"] for one in seen} == {
        host(f"nm{i}", hadoop.options) for i in (1, 2, 3)
    }
    for one in seen:
        total = one["totalResource"]["resourceInformations"]["resourceInformation"]
        assert {"yarn.io/gpu": 1, "vcores": 16}.items() <= {
            kind["name"]: kind["value"] for kind in total
        }.items()
    assert hadoop.metrics()["activeNodes"] == 3


def test_programs_find_hadoop_by_its_two_variables(hadoop: Hadoop, tmp_path: Path) -> None:
    """`hadoop classpath --glob` names the configuration and every jar; `hadoop fs` works."""
    first, *jars = hadoop.run("hadoop", "classpath", "--glob").strip().split(":")
    assert first == hadoop.environ["HADOOP_CONF_DIR"]
    assert len(jars) > 100
    assert all(Path(jar).is_file() for jar in jars)
    (tmp_path / "a-file").write_text("words")
    hadoop.run("hadoop", "fs", "-put", str(tmp_path / "a-file"), "/tmp/a-file-of-the-sandbox")
    assert "/tmp/a-file-of-the-sandbox" in hadoop.hdfs_listing("/tmp")
    assert hadoop.run("hadoop", "fs", "-cat", "/tmp/a-file-of-the-sandbox") == "words"
    hadoop.hdfs_remove("/tmp/a-file-of-the-sandbox")
    assert "/tmp/a-file-of-the-sandbox" not in hadoop.hdfs_listing("/tmp")


def test_a_container_sees_hadoop_and_its_logs_are_kept(hadoop: Hadoop) -> None:
    """HADOOP_HOME and HADOOP_CONF_DIR come from the node; `yarn logs` reads them from HDFS."""
    one = submit(hadoop, "echo $HADOOP_HOME $HADOOP_CONF_DIR $JAVA_HOME")
    ended(hadoop, one)
    said = " ".join(
        hadoop.environ[name] for name in ("HADOOP_HOME", "HADOOP_CONF_DIR", "JAVA_HOME")
    )
    until(lambda: any(one in path for path in hadoop.hdfs_listing("/tmp/logs")), 30, "logs")
    until(lambda: said in hadoop.run("yarn", "logs", "-applicationId", one), 30, "the words")


def test_logs_of_what_still_runs_reach_hdfs(hadoop: Hadoop) -> None:
    """Every ten seconds, where the application asks for it."""
    rolling = {"log-include-pattern": "", "rolled-log-include-pattern": ".*"}
    one = submit(hadoop, "echo early; exec sleep 60", **{"log-aggregation-context": rolling})
    until(lambda: any(one in path for path in hadoop.hdfs_listing("/tmp/logs")), 40, "logs")
    hadoop.kill_application(one)
    assert ended(hadoop, one)["state"] == "KILLED"


def test_a_container_that_outgrows_its_memory_is_killed(hadoop: Hadoop) -> None:
    """The check of physical memory works."""
    grow = "import time; kept = bytearray(400 << 20); time.sleep(60)"
    one = submit(hadoop, f"{sys.executable} -c '{grow}'")
    assert "physical memory" in ended(hadoop, one)["diagnostics"]


def test_a_node_moves_into_a_partition_and_back(hadoop: Hadoop) -> None:
    """Labels are respected by the queues."""
    hadoop.label("nm3", "gpu")
    try:
        until(lambda: labels(hadoop)["nm3"] == ["gpu"], 10, "the label")
        one = submit(hadoop, "sleep 60", **{"am-container-node-label-expression": "gpu"})
        until(lambda: "nm3" in hadoop.app(one).get("amHostHttpAddress", ""), 20, "its place")
        hadoop.kill_application(one)
        ended(hadoop, one)
    finally:
        hadoop.label("nm3", "")
    until(lambda: not labels(hadoop)["nm3"], 10, "no label")


def labels(hadoop: Hadoop) -> dict[str, list[str]]:
    return {
        one["nodeHostName"].partition(".")[0]: one.get("nodeLabels") or [] for one in hadoop.nodes()
    }


def test_a_house_finds_what_runs_in_a_container(yarn_house: YarnHouse, hadoop: Hadoop) -> None:
    """By tag, node and process; nothing of it is left when the house is cleared."""
    yarn_house.spec("found")
    tag = f"tarn-{getpass.getuser()}-found"
    one = submit(hadoop, "exec sleep 120", **{"application-tags": {"tag": tag}})
    until(lambda: ["sleep", "120"] in yarn_house.processes("found").values(), 20, "its process")
    (container,) = yarn_house.masters("found")
    assert yarn_house.application("found")["id"] == one
    assert yarn_house.instances("found") == {}
    node = hadoop.node_of(container)
    assert hadoop.app(one)["amHostHttpAddress"].startswith(f"{hadoop.host(node)}:")
    assert len(hadoop.attempts(one)) == 1
    hadoop.kill_application(one)
    yarn_house.clear()
    assert not yarn_house.processes("found")


def test_a_second_sandbox_on_the_same_addresses_is_refused(hadoop: Hadoop, tmp_path: Path) -> None:
    """The message names the address and what to do; nothing is started or written."""
    second = Sandbox(tmp_path / "second", context(), hadoop.options)
    with pytest.raises(
        RefusedError, match=r"127\.0\.\d+\.\d+:\d+ is taken.*--directory \S+`.*--network"
    ):
        second.up()
    assert not (tmp_path / "second").exists()


def test_up_on_a_running_sandbox_prints_the_same_again(hadoop: Hadoop) -> None:
    """With `status`, as a user types them."""
    where = ("--directory", str(hadoop.directory))
    done = tarn("sandbox", "up", *where, "-o", "json")
    assert json.loads(done.stdout) == hadoop.environ, done.stderr
    seen = json.loads(tarn("sandbox", "status", *where, "-o", "json").stdout)
    assert {one["state"] for one in seen["nodes"]} == {"RUNNING"}
    assert all(one["pid"] for one in seen["daemons"])
    refused = tarn("sandbox", "up", *where, "--nodes", "2")
    assert refused.returncode == RefusedError.exit_code
    assert "other options" in refused.stderr


def tarn(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "tarn", *arguments],
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.mark.breaks
def test_a_killed_node_is_lost_and_comes_back(hadoop: Hadoop) -> None:
    """Within the expiry and what YARN's check of it takes."""
    hadoop.kill("nm2")
    until(lambda: "LOST" in {one["state"] for one in hadoop.nodes()}, 25, "the loss")
    hadoop.start("nm2")
    hadoop.wait_nodes(3)


@pytest.mark.breaks
def test_containers_outlive_their_node_manager_and_the_resource_manager(hadoop: Hadoop) -> None:
    """Recovery is on: the same process after the one, the same application after the other.

    Each is killed at once and looked for at once: a master that never registers has only
    ``MASTER_EXPIRY_S`` to live.
    """
    one, node = _placed(hadoop)
    data = hadoop.directory / "data" / node
    before = until(lambda: _asleep(data), 10, "its command")
    hadoop.kill(node)
    hadoop.start(node)
    assert before <= set(containers(data))
    hadoop.kill_application(one)
    hadoop.wait_nodes(3)
    two, _ = _placed(hadoop)
    hadoop.kill("rm", signal.SIGKILL)
    hadoop.start("rm")
    assert until(lambda: _known(hadoop, two), 30, "its answer") in ("ACCEPTED", "RUNNING")
    hadoop.kill_application(two)
    hadoop.wait_nodes(3)
    assert {ended(hadoop, each)["state"] for each in (one, two)} == {"KILLED"}


def _known(hadoop: Hadoop, application_id: str) -> str:
    """Return the state as the ResourceManager knows it; '' while it does not answer yet."""
    try:
        return str(hadoop.app(application_id)["state"])
    except UnreachableError:
        return ""


def _asleep(data: Path) -> set[DaemonProcess]:
    """Return who sleeps there; the scripts before it are over in a moment."""
    return {one for one in containers(data) if _program(one) == b"sleep"}


def _program(process: DaemonProcess) -> bytes:
    try:
        return Path(f"/proc/{process.pid}/cmdline").read_bytes().partition(b"\0")[0]
    except OSError:  # over meanwhile
        return b""


def _placed(hadoop: Hadoop) -> tuple[str, str]:
    """Run an application; return its id, and the NodeManager that has its container."""
    one = submit(hadoop, "exec sleep 120")
    until(lambda: hadoop.app(one).get("amHostHttpAddress"), 20, "a place")
    node = hadoop.app(one)["amHostHttpAddress"].partition(".")[0]
    until(lambda: containers(hadoop.directory / "data" / node), 10, "its process")
    return one, node


@pytest.mark.breaks
def test_two_resource_managers_take_over_from_each_other_and_nothing_is_left(
    tmp_path: Path,
) -> None:
    """The active one is killed: the other serves the same nodes. `down` ends every process."""
    directory = tmp_path / "ha"
    with sandbox(directory, ha=True, nodes=1) as hadoop:
        pids = {one.pid for one in hadoop.daemons() if one.pid}
        first = hadoop.rest.active()
        hadoop.kill(first.partition(".")[0])
        hadoop.wait_nodes(1)
        assert hadoop.rest.active() != first
        one = submit(hadoop, "exec sleep 120")
        until(lambda: hadoop.app(one).get("amHostHttpAddress"), 30, "a place")
    assert not any(start_ticks(pid) for pid in pids)
    assert not directory.exists()
    with pytest.raises(NotFoundError):
        Sandbox(directory, context())
