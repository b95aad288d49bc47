"""`tarn doctor --probe` on a real YARN: what is true on the nodes, and nothing is left of it."""

import io
import os
import signal
import sys
import tarfile
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from house import until
from probing import probe, rows
from servers.yarn import ALIVE, Hadoop, YarnHouse, java
from unmanaged import Application
from yarn_fleet import ContainerProcess, processes

from tarn import config
from tarn.clock import SystemClock
from tarn.interfaces import ClientContext, Paths
from tarn_plugins.cli.sandbox.configuration import LABEL
from tarn_plugins.runtime.yarn import YarnSettings
from tarn_plugins.runtime.yarn.client.hadoop_child import start_child
from tarn_plugins.runtime.yarn.hadoop import configuration
from tarn_plugins.runtime.yarn.hadoop.files import HadoopFiles
from tarn_plugins.runtime.yarn.messages import Ask, Shape
from tarn_plugins.runtime.yarn.probe.applications import APPLICATION_TYPE
from tarn_plugins.runtime.yarn.probe.driver import Patience, ProbeRound
from tarn_plugins.runtime.yarn.probe.messages import ProbeRequest

pytestmark = pytest.mark.yarn

LABELLED = "nm3"
Row = Mapping[str, Any]


@pytest.fixture
def labelled(yarn_house: YarnHouse) -> Iterator[YarnHouse]:
    """A house on a YARN with one node in a partition of its own."""
    yarn_house.hadoop.label(LABELLED, LABEL)
    yield yarn_house
    yarn_house.hadoop.label(LABELLED, "")


def began(hadoop: Hadoop) -> set[str]:
    return {app["id"] for app in hadoop.apps(applicationTypes=APPLICATION_TYPE)}


def alive(hadoop: Hadoop, before: set[str]) -> list[str]:
    """Return probes that YARN has not ended."""
    apps = hadoop.apps(applicationTypes=APPLICATION_TYPE, states=",".join(ALIVE))
    return [app["id"] for app in apps if app["id"] not in before]


def at_work(hadoop: Hadoop, before: set[str]) -> list[ContainerProcess]:
    """Return the processes of probes on the nodes."""
    return [one for each in began(hadoop) - before for one in processes(each)]


def codes(row: Row) -> list[str]:
    return [finding["code"] for finding in row["findings"]]


def test_two_at_once_tell_what_is_so(labelled: YarnHouse) -> None:
    """One of a good cluster with a label, and one of everything that is wrong; none is left."""
    hadoop, before = labelled.hadoop, began(labelled.hadoop)
    gpu = {"resources": {"vcores": 1, "memory": "768MiB", "gpus": 1}}
    good = probe(labelled, "good", placement={"node_label": LABEL}, instance=gpu)
    bad = probe(labelled, "bad", options={"python": "/no/python", "docker": {}})
    seen, wrong = rows(good), rows(bad)
    here = "(default partition)"
    for name in ("container", "Python", "Java", "Hadoop", "network", "clock", "master's port"):
        row = seen[f"node {name} {here}"]
        assert (row["known"], row["findings"]) == (True, []), row
    assert sys.executable in seen[f"node Python {here}"]["seen"]
    assert "ResourceManager at" in seen[f"node network {here}"]["seen"]
    assert hadoop.host(LABELLED) in seen[f"node container (label {LABEL})"]["seen"]
    # a node of a sandbox declares GPUs that it has not
    assert codes(seen[f"node GPUs (label {LABEL})"]) == ["TARN-3186"]
    assert codes(wrong[f"node Python {here}"]) == ["TARN-3182"]
    assert wrong[f"node Java {here}"]["findings"] == []
    # its NodeManagers know no Docker, and start what should be an image as a plain process
    docker = wrong["node Docker (image, default partition)"]
    assert codes(docker) == ["TARN-3188"]
    assert "without Docker" in docker["findings"][0]["found"]
    assert alive(hadoop, before) == []
    assert len(began(hadoop) - before) == 4


def test_java_8_a_bare_python_and_a_port_behind_a_wall(yarn_house: YarnHouse) -> None:
    """A packed environment is brought along; what it holds is tried as a master would."""
    root = yarn_house.root
    java_8 = root / "jdk8"
    (java_8 / "bin").mkdir(parents=True)
    real = Path(yarn_house.environ["JAVA_HOME"])
    (java_8 / "lib").symlink_to(real / "lib")  # this client's JVM is to start
    program(java_8 / "bin" / "java", "echo 'java version \"1.8.0_392\"' >&2")
    # an interpreter without packages, which listens where nobody looks
    bare = program(
        root / "python3",
        f'NM_HOST=127.0.0.1 exec {sys.executable} -I -S "$@"',
    )
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        tar.add(bare, "bin/python3")
    java(yarn_house.hadoop.environ)
    files = HadoopFiles(configuration())
    uri = files.qualified(f"{yarn_house.staging}/environment.tar.gz")
    files.write(uri, packed.getvalue(), mode=0o644)
    options = {"java_home": str(java_8), "python": uri}
    seen = rows(probe(yarn_house, "old", options=options))
    java_row = seen["node Java (default partition)"]
    assert codes(java_row) == ["TARN-3183"]
    assert "has Java 8" in java_row["findings"][0]["found"]
    python = seen["node Python (default partition)"]
    assert "cannot import tarn" in python["findings"][0]["found"]
    assert uri in python["seen"]
    port = seen["node master's port (default partition)"]
    assert codes(port) == ["TARN-3189"]
    assert "getent hosts nm" in port["findings"][0]["next_step"]


def program(path: Path, body: str) -> Path:
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


def test_a_container_that_is_not_granted_says_why(labelled: YarnHouse) -> None:
    """A label whose nodes left, a queue that is full, and one that there is not."""
    hadoop = labelled.hadoop
    hadoop.label(LABELLED, "")
    java(hadoop.environ)
    paths = Paths(labelled.home, config.paths(config.environ()).cache)
    context = ClientContext(SystemClock(), labelled.environ, paths)
    orders = {
        "full": ProbeRequest("default", "", 512, 1),
        "label": ProbeRequest("default", LABEL, 512, 1),
        "queue": ProbeRequest("nowhere", "", 512, 1),
    }
    with Application() as other:
        other.say(asks=tuple(Ask(number, Shape(8192, 16)) for number in (1, 2, 3)))
        other.beat(lambda: len(other.held()) == 3)
        patience = Patience(grant_s=4.0, look_s=1.0)
        one = ProbeRound(
            lambda: start_child(YarnSettings(), context), orders, SystemClock(), patience
        )
        with ThreadPoolExecutor(len(orders)) as pool:
            asked = {key: pool.submit(one.outcome, key) for key in orders}
            # a master that says nothing for long is given up, and the room would be free
            other.beat(lambda: all(each.done() for each in asked.values()), 90)
        failures = {key: each.result().failure for key, each in asked.items()}
        one.join()
    assert {failure.code for failure in failures.values()} == {"TARN-3180"}
    assert "has 512 MiB, 1 vcores free" in failures["full"].found
    assert f"no running node has the label '{LABEL}'" in failures["label"].found
    assert "nowhere" in failures["queue"].found
    assert "unmanaged application" in failures["queue"].found


def test_yarn_itself_starts_it_where_no_master_can_be_here(labelled: YarnHouse) -> None:
    """As the container of a master that never registers: on the right node, with its GPUs."""
    paths = Paths(labelled.home, config.paths(config.environ()).cache)
    context = ClientContext(SystemClock(), labelled.environ, paths)
    order = ProbeRequest("default", LABEL, 512, 1, gpus=1, python="/no/python", managed=True)
    broken = ProbeRequest("nowhere", "", 512, 1, managed=True)
    orders = {"good": order, "broken": broken}
    one = ProbeRound(lambda: start_child(YarnSettings(), context), orders, SystemClock())
    outcome, refused = one.outcome("good"), one.outcome("broken")
    one.join()
    assert outcome.failure is None
    assert outcome.node == labelled.hadoop.host(LABELLED)
    assert (outcome.gpus, outcome.facts.get("python")) == (1, "missing")
    assert outcome.facts.whole
    assert refused.failure is not None
    assert (refused.failure.code, "nowhere" in refused.failure.found) == ("TARN-3180", True)


@pytest.mark.timeout(300)
def test_a_client_that_is_gone_leaves_nothing(yarn_house: YarnHouse) -> None:
    """Ctrl-C, a client that is killed, and one whose child is killed with it."""
    hadoop, before = yarn_house.hadoop, began(yarn_house.hadoop)
    clients = [probe(yarn_house, name) for name in ("one", "two", "three")]
    try:
        until(lambda: at_work(hadoop, before), 90, "a container")
        until(lambda: len(began(hadoop) - before) == 3, 90, "three probes")
        clients[0].send_signal(signal.SIGINT)
        for child in children(clients[2].pid):
            os.kill(child, signal.SIGKILL)
    finally:
        for client in clients[1:]:
            client.kill()
        for client in clients:
            print(client.args, *client.communicate(timeout=30), sep="\n")
    # the first two end theirs themselves; YARN ends the third after a silence
    until(lambda: len(alive(hadoop, before)) <= 1, 20, "the end of two")
    until(lambda: not alive(hadoop, before), 60, "the end of the third")
    until(lambda: not at_work(hadoop, before), 20, "the end of every process")


def children(pid: int) -> list[int]:
    """Return the processes that any thread of *pid* started."""
    files = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(one) for each in files for one in each.read_text().split()]
