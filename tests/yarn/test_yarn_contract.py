"""Entries 10, 12, 14, 19, 39 and 40 of the contract, where only a real YARN can tell.

One cluster serves most of them. It is started by a client that is killed at once.
"""

import http.client
import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from canaries import Canaries
from house import House, ids, until
from servers.yarn import Hadoop, YarnHouse
from yarn_fleet import Fleet, processes, steady

from tarn.follow import MasterApi

pytestmark = [pytest.mark.yarn, pytest.mark.triton]

TOKEN = "sesame-open-0123456789"
SECRET = "hunter2-of-this-contract"
ODD = {
    "A": "b c $(id)",
    "QUOTES": "\"'`\\",
    "LINES": "one\ntwo\n",
    "MARKS": "%s {{PWD}} <LOG_DIR> $HOME é模型",
    "SECRET": SECRET,
}


@pytest.fixture(scope="module")
def fleet(shared_hadoop: Hadoop, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """Three instances, whose client was killed when their master had just come up."""
    shared_hadoop.up()
    house = YarnHouse(tmp_path_factory.mktemp("contract"), shared_hadoop)
    one = Fleet(house, shared_hadoop, "contract")
    spec = house.spec("contract", replicas={"min": 1, "max": 3, "initial": 3}, triton={"env": ODD})
    client = house.start("up", "-f", spec, TARN_TOKEN=TOKEN)
    until((house.directory("contract") / "ref.json").exists, 60, "a master")
    client.kill()
    client.communicate(timeout=10)
    one.settled(3)
    yield one
    shared_hadoop.up()
    house.clear()


def test_14_a_client_that_is_killed_leaves_the_application_running(fleet: Fleet) -> None:
    """It went on to start its instances without it."""
    assert fleet.hadoop.app(fleet.application_id)["state"] == "RUNNING"
    assert len(fleet.tritons()) == 3


def test_39_every_value_arrives_byte_for_byte_and_no_secret_is_an_argument(fleet: Fleet) -> None:
    """Past HDFS, YARN's launch script and two shells."""
    for pid in fleet.tritons().values():
        pairs = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        assert {f"{name}={value}".encode() for name, value in ODD.items()} <= set(pairs)
    assert fleet.api_token == TOKEN
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        said = _read(file)
        assert TOKEN.encode() not in said
        assert SECRET.encode() not in said


def test_40_no_secret_is_where_siblings_look(fleet: Fleet) -> None:
    """Not in a launch script, no environment but Triton's own, no file that others may read."""
    tritons = set(fleet.tritons().values())
    for file in Path("/proc").glob("[0-9]*/environ"):
        own = int(file.parent.name) in _family(fleet, tritons)
        assert TOKEN.encode() not in _read(file) or not own
        assert SECRET.encode() not in _read(file) or own
    data = fleet.hadoop.directory / "data"
    words = TOKEN.encode(), SECRET.encode()
    files = (path for path in data.glob("nm*/**/*") if path.is_file())
    nodes = [path for path in files if any(word in _read(path) for word in words)]
    assert nodes, "the launch files themselves are there"
    assert not [path for path in nodes if path.name.startswith(("launch_container", "default_con"))]
    assert not [path for path in nodes if _open(path, data)]


def test_44_only_the_master_changes_an_instance(fleet: Fleet) -> None:
    """Each has a key of its own, in its 0600 launch file; the master has them, and sees models."""
    keys = set()
    for pid in fleet.tritons().values():
        words = _read(Path(f"/proc/{pid}/cmdline")).decode().split("\0")
        keys |= {w.rpartition("=")[2] for w in words if w.startswith("--http-restricted-api=")}
    assert len(keys) == 3
    for instance in fleet.status()["instances"]:
        host, _, port = instance["http"].rpartition(":")
        connection = http.client.HTTPConnection(host, int(port), timeout=10)
        connection.request("POST", "/v2/repository/models/echo/unload", b"{}")
        assert connection.getresponse().status == 403
        connection.close()
    assert len(ids(fleet.status())) == 3


def test_40_no_form_of_a_secret_is_on_a_node_in_hdfs_or_in_an_answer(fleet: Fleet) -> None:
    """Keys of Triton too: in logs, local directories, staged files, pages of YARN and ours."""
    canaries = Canaries()
    canaries.add("api token", TOKEN)
    canaries.add("of the models", SECRET)
    for number, pid in enumerate(fleet.tritons().values()):
        words = _read(Path(f"/proc/{pid}/cmdline")).decode().split("\0")
        (key,) = {w.rpartition("=")[2] for w in words if w.startswith("--grpc-restricted")}
        canaries.add(f"key {number}", key)
    data = fleet.hadoop.directory / "data"
    for path in (path for path in data.glob("nm*/**/*") if path.is_file()):
        # the owner's launch files hold some, and so do the credentials that YARN itself keeps
        if _open(path, data) or path.name.startswith(("launch_container", "default_con")):
            canaries.look(str(path.relative_to(data)), _read(path))
    for log in data.rglob("userlogs/**/*"):
        canaries.look(str(log.relative_to(data)), _read(log))
    application = fleet.application_id
    for page in (f"apps/{application}", f"apps/{application}/appattempts"):
        canaries.look(page, json.dumps(fleet.hadoop.rest.get(page)))
    for words in (("status",), ("status", "-o", "json"), ("events",), ("logs",), ("why",)):
        canaries.look(" ".join(words), fleet.tarn(*words))
    with MasterApi(fleet.url, fleet.api_token) as api:
        canaries.look("status", json.dumps(api.status()))
    assert canaries.leaks == set()
    assert canaries.looked > 30_000


def test_19_an_instance_cannot_speak_for_the_application(fleet: Fleet) -> None:
    """Its credentials hold no YARN_AM_RM_TOKEN; its environment does not even name them."""
    found = {"master": 0, "instance": 0}
    for path in (fleet.hadoop.directory / "data").rglob("container_tokens"):
        if fleet.application_id.removeprefix("application_") not in path.parent.name:
            continue
        master = path.parent.name.endswith("_000001")
        found["master" if master else "instance"] += 1
        assert (b"YARN_AM_RM_TOKEN" in path.read_bytes()) is master
    assert found == {"master": 1, "instance": 3}
    for pid in fleet.tritons().values():
        assert b"HADOOP_TOKEN_FILE_LOCATION" not in Path(f"/proc/{pid}/environ").read_bytes()


def test_12_a_killed_master_costs_nothing(fleet: Fleet) -> None:
    """The same three containers answer all the time, for the next attempt too."""
    before, pids = fleet.status(), fleet.tritons()
    with steady(fleet, before):
        fleet.after(fleet.kill_master())
        after = fleet.settled(3)
    assert {i["container_id"] for i in after["instances"]} == set(pids)
    assert ids(after) == ids(before)
    assert after["desired"] == 3
    assert fleet.tritons() == pids


def test_10_a_typo_ends_in_words_after_five_growing_pauses(yarn_house, hadoop) -> None:
    """It is not tried for ever; `up` says what the nodes said."""
    spec = yarn_house.spec(
        "typo",
        replicas={"min": 1, "max": 1, "initial": 1},
        # each node, and the very port, is held by another cluster, which is not to pass for this
        placement={"scope": "cluster"},
        triton={"binary": "/no/such/tritonserver"},
    )
    done = yarn_house.tarn("up", "-f", spec, "--timeout", "90s", timeout_s=150)
    assert done.returncode == 1, done.stderr
    assert "/no/such/tritonserver" in done.stderr
    status = yarn_house.status("typo")
    assert status["state"] == "failed"
    assert status["holds"]["halted"]
    assert len(status["ended"]) <= 5
    allocated = hadoop.app(yarn_house.application("typo")["id"])["runningContainers"]
    assert allocated == 1, "only the master holds anything"


def test_14_a_port_that_is_taken_on_the_nodes_is_told_and_nothing_stays(
    yarn_house: House, hadoop: Hadoop
) -> None:
    """A client itself listens nowhere; its master's port is the node's."""
    with socket.create_server((hadoop.host("nm1"), 0)) as first:
        port = first.getsockname()[1]
        others = [socket.create_server((hadoop.host(name), port)) for name in ("nm2", "nm3")]
        try:
            spec = yarn_house.spec("taken", api={"port": port})
            done = yarn_house.tarn("up", "-f", spec, timeout_s=150)
        finally:
            for one in others:
                one.close()
    assert done.returncode == 1
    assert "Address already in use" in done.stderr
    assert yarn_house.applications("taken") == []


def _family(fleet: Fleet, tritons: set[int]) -> set[int]:
    """Return Triton's processes and what they started, stubs of the backends included."""
    containers = set(fleet.tritons())
    members = {p.pid for p in processes(fleet.application_id) if p.container_id in containers}
    return members | tritons


def _open(path: Path, root: Path) -> bool:
    """Say whether others can read *path*, as far as directories below *root* let them pass."""
    folders = [one for one in path.parents if root in one.parents]
    return bool(path.stat().st_mode & 0o004) and all(one.stat().st_mode & 0o001 for one in folders)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
