"""What must work on each Hadoop that is promised, older and newer than the sandbox's."""

import json
import re

import pytest
from house import ids, until
from yarn_fleet import Fleet, steady

pytestmark = [pytest.mark.yarn, pytest.mark.triton]


def test_yarn_is_the_version_that_was_asked_for(hadoop) -> None:
    """By its own word; a distribution may say more than Apache's three numbers."""
    said = hadoop.rest.get("info")["clusterInfo"]["hadoopVersion"]
    assert _numbers(said) == _numbers(hadoop.options.hadoop)


def _numbers(version: str) -> list[str]:
    return re.split(r"[.-]", version)[:3]


def _masters_in(log: str) -> list[str]:
    """Return the numbers of the attempts that speak in *log*, in its order."""
    return re.findall(r"epoch \d+-(\d) of smoke", log)


def test_a_fleet_from_up_to_down(yarn_house, hadoop) -> None:
    """Two nodes, a killed master that finds both again, logs, reasons, and nothing left."""
    fleet = Fleet(yarn_house, hadoop, "smoke")
    fleet.up(yarn_house.spec("smoke", replicas={"min": 1, "max": 2, "initial": 1}))
    fleet.infer(fleet.settled(1)["instances"][0])
    fleet.tarn("scale", "2")
    two = fleet.settled(2)
    assert len({one["node"] for one in two["instances"]}) == 2
    tritons = fleet.tritons()
    with steady(fleet, two):
        fleet.after(fleet.kill_master())
        again = fleet.settled(2)
    assert ids(again) == ids(two)
    assert fleet.tritons() == tritons
    assert "Started HTTPService" in fleet.tarn("logs", again["instances"][1]["id"])
    # for a moment, while a node hands it over, a log is in neither place
    until(lambda: _masters_in(fleet.tarn("logs")) == ["1", "2"], 15, "the log of each master")
    assert "set by hand to 2" in fleet.tarn("why")

    application = fleet.application_id
    fleet.down()
    until(lambda: hadoop.app(application)["state"] == "FINISHED", 20, "the application's end")
    assert hadoop.app(application)["finalStatus"] == "SUCCEEDED"
    assert json.loads(fleet.tarn("status", "-o", "json"))["state"] == "stopped"
    until(lambda: yarn_house.tarn("logs", "-c", "smoke").returncode == 0, 30, "collected logs")
    assert not hadoop.left_in(yarn_house.staging)
