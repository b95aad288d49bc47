"""Two ResourceManagers are one YARN; when the active one is killed, the other takes over."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from house import ids, until
from servers.yarn import Hadoop, YarnHouse
from stand_in_deployer import LAUNCH_FILES, STAGED, DeployerHomes, small
from yarn_fleet import Fleet, steady

from tarn.errors import NotFoundError, UnreachableError

pytestmark = [pytest.mark.yarn, pytest.mark.triton, pytest.mark.breaks]


@pytest.fixture
def house(tmp_path: Path, hadoop_ha: Hadoop) -> Iterator[YarnHouse]:
    one = YarnHouse(tmp_path, hadoop_ha)
    yield one
    hadoop_ha.up()
    one.clear()


@pytest.mark.timeout(400)
def test_a_failover_changes_nothing_that_serves(house, tmp_path, hadoop_ha) -> None:
    """Same containers, no lost request; then scaling, ends and logs work.

    A failover may be faster than the 5 s after which `status` speaks of a silent ResourceManager:
    that word is for ``test_the_resource_manager_restarts``, where the silence lasts.
    """
    fleet = Fleet(house, hadoop_ha, "failover")
    size = {"min": 1, "max": 3, "initial": 2}
    fleet.up(house.spec("failover", replicas=size, placement={"spread": "none"}))
    before, pids = fleet.settled(2), fleet.tritons()
    first = hadoop_ha.rest.active()
    down = first.partition(".")[0]
    with steady(fleet, before):
        hadoop_ha.kill(down)
        until(lambda: _active(hadoop_ha) not in {"", first}, 60, "the other one active")
        after = fleet.settled(2)
        assert {i["id"]: i["container_id"] for i in after["instances"]} == {
            i["id"]: i["container_id"] for i in before["instances"]
        }
        assert fleet.tritons() == pids
        fleet.tarn("scale", "3")
        grown = fleet.settled(3)
        assert ids(after) < ids(grown)
        fleet.after(fleet.kill_master())
        assert ids(fleet.settled(3)) == ids(grown)
        assert set(pids) < set(fleet.tritons())

    # another home knows nothing but Hadoop's configuration, whose first RM is away
    away = DeployerHomes(hadoop_ha).deployer(tmp_path / "away", staging=house.staging)
    found = away.find("failover")
    assert found is not None
    assert found.url == fleet.url
    assert found.application_id == fleet.application_id
    fleet.down()
    ending = until(lambda: away.ended("failover"), 30, "the end, told by the other one")
    assert ending.state == "stopped"
    assert json.loads(fleet.tarn("status", "-o", "json"))["state"] == "stopped"
    until(lambda: _logs(away, ending.ref), 60, "its collected logs")
    house.clear()


def test_two_resource_managers_are_one_yarn(hadoop_ha: Hadoop, tmp_path: Path) -> None:
    """Submitted, found, read and ended, whichever of them is active."""
    stage = DeployerHomes(hadoop_ha)
    deployer = stage.deployer(tmp_path / "home")
    assert not [f for f in deployer.check(small("pair")) if f.fatal]
    ref = deployer.submit(small("pair"), STAGED, LAUNCH_FILES)
    try:
        assert stage.deployer(tmp_path / "there").find("pair") == ref
        assert ref.proxy_url is not None
        assert "registered" in list(deployer.logs(ref, "", None))
    finally:
        deployer.end(ref)
    assert deployer.find("pair") is None


def _active(hadoop: Hadoop) -> str:
    try:
        return hadoop.rest.active()
    except UnreachableError:
        return ""


def _logs(client, ref) -> list[str]:
    try:
        return list(client.logs(ref, "", None))
    except NotFoundError:
        return []
