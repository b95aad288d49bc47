"""A fleet's life on a real YARN: up, infer, scale, wait for a node, label; down leaves nothing."""

import json
from pathlib import Path

import pytest
from house import ids, until
from servers.yarn import Hadoop
from yarn_fleet import Fleet, dead, steady

pytestmark = [pytest.mark.yarn, pytest.mark.triton]


def test_up_infer_scale_and_down_leave_nothing(yarn_house, hadoop) -> None:
    """1 → 3 → 1 with real answers; a 4th waits with its reason; YARN and HDFS as before."""
    fleet = Fleet(yarn_house, hadoop, "life")
    before_hdfs, before = _kept_files(hadoop, yarn_house.staging), hadoop.metrics()
    fleet.up(yarn_house.spec("life", replicas={"min": 1, "max": 4, "initial": 1}))
    one = fleet.settled(1)
    fleet.infer(one["instances"][0])

    assert len(fleet.tritons()) == 1
    fleet.tarn("scale", "3")
    three = fleet.settled(3)
    for instance in three["instances"]:
        fleet.infer(instance)
    assert len({i["node"] for i in three["instances"]}) == 3, "one node held two instances"
    assert set(fleet.tritons()) == {i["container_id"] for i in three["instances"]}
    assert {i["container_id"] for i in one["instances"]} < set(fleet.tritons())

    with steady(fleet, three):
        fleet.tarn("scale", "4")
        waiting = until(
            lambda: [i for i in fleet.status()["instances"] if i["state"] == "requested"],
            20,
            "a 4th instance that is asked for",
        )[0]
        said = until(
            lambda: "no node without tag" in (text := fleet.tarn("why", waiting["id"])) and text,
            20,
            "the reason why the 4th waits",
        )
        assert "3 of 3" in said
        held = hadoop.metrics()["containersAllocated"] - before["containersAllocated"]
        assert held == 4, "the master and three instances"
        fleet.tarn("scale", "3")
        assert ids(fleet.settled(3)) == ids(three)

    fleet.tarn("scale", "1")
    last = fleet.settled(1)
    assert ids(last) < ids(three)
    fleet.infer(last["instances"][0])
    until(lambda: len(fleet.tritons()) == 1, 10, "two Tritons ended")
    application = fleet.application_id
    pids = list(fleet.tritons().values())

    fleet.down()
    until(lambda: hadoop.app(application)["state"] == "FINISHED", 20, "the application's end")
    assert hadoop.app(application)["finalStatus"] == "SUCCEEDED"
    after = until(
        lambda: (
            (now := hadoop.metrics())
            and now["containersAllocated"] == before["containersAllocated"]
            and now
        ),
        20,
        "every container given back",
    )
    assert after["containersReserved"] == after["containersPending"] == 0
    until(lambda: all(dead(pid) for pid in pids), 10, "the end of its processes")
    regions = Path("/dev/shm").glob
    until(lambda: not list(regions("tarn_*_life-*")), 10, "the end of its shared memory")
    until(lambda: _kept_files(hadoop, yarn_house.staging) == before_hdfs, 10, "HDFS as before")
    assert not (yarn_house.directory("life") / "ref.json").exists()


def _kept_files(hadoop: Hadoop, staging: str) -> list[str]:
    """Return what HDFS holds, but for logs and the archive of classes that later starts use."""
    # An empty directory is listed, and *staging* is one only until the archive is there.
    left_out = ("/tmp/logs", "/logs", f"{staging}/.classes")
    listed = hadoop.hdfs_listing()
    return [path for path in listed if not path.startswith(left_out) and path != f"{staging}/"]


def test_a_finished_cluster_tells_how_it_ended(yarn_house, hadoop) -> None:
    """`status`, `why` and `logs` answer from YARN's memory and its aggregated logs."""
    fleet = Fleet(yarn_house, hadoop, "gone")
    fleet.up(yarn_house.spec("gone", replicas={"min": 1, "max": 1, "initial": 1}))
    instance = fleet.settled(1)["instances"][0]["id"]
    assert "Started HTTPService" in fleet.tarn("logs", instance)
    assert "epoch" in fleet.tarn("logs")
    fleet.down()
    told = json.loads(fleet.tarn("status", "-o", "json"))
    assert told["state"] == "stopped"
    assert "ended" in fleet.tarn("why")
    until(lambda: yarn_house.tarn("logs", "-c", "gone").returncode == 0, 30, "its aggregated logs")
    assert "epoch" in fleet.tarn("logs")


def test_a_label_is_respected(yarn_house, hadoop) -> None:
    """Instances go to the labelled node only; a second one waits and says which label."""
    hadoop.label("nm3", "gpu")
    try:
        fleet = Fleet(yarn_house, hadoop, "label")
        spec = yarn_house.spec(
            "label",
            placement={"node_label": "gpu"},
            replicas={"min": 1, "max": 2, "initial": 1},
        )
        fleet.up(spec)
        status = fleet.settled(1)
        assert status["instances"][0]["node"] == hadoop.host("nm3")
        fleet.infer(status["instances"][0])
        fleet.tarn("scale", "2")
        second = until(
            lambda: [i for i in fleet.status()["instances"] if i["state"] == "requested"], 20
        )[0]
        until(lambda: "'gpu'" in fleet.tarn("why", second["id"]), 20, "the label in `why`")
        fleet.down()
    finally:
        hadoop.label("nm3", "")


def test_two_clusters_share_neither_node_nor_port(yarn_house, hadoop) -> None:
    """Scope `all`: another application's instance keeps its node; it is given up when free."""
    size = {"min": 1, "max": 3, "initial": 2}
    first, second = (Fleet(yarn_house, hadoop, name) for name in ("left", "right"))
    first.up(yarn_house.spec("left", replicas=size))
    held = {i["node"] for i in first.settled(2)["instances"]}
    done = yarn_house.tarn("up", "-f", yarn_house.spec("right", replicas=size), "--no-wait")
    assert done.returncode == 0, done.stderr
    until(lambda: len(ids(second.status())) == 1, 60, "one instance of the second")
    until(lambda: "no node without tag" in second.tarn("why"), 20, "why its second one waits")
    mine = {i["node"] for i in second.status()["instances"] if i["node"]}
    assert not mine & held
    first.tarn("scale", "1")
    left = {i["node"] for i in first.settled(1)["instances"]}
    right = {i["node"] for i in second.settled(2)["instances"]}
    assert not left & right
    assert left | right == {hadoop.host(f"nm{n}") for n in (1, 2, 3)}
    second.down()
    first.down()
