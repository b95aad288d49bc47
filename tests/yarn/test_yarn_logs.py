"""Logs of a real fleet: while it runs, of an instance that ended, and after the end."""

import pytest
from deployer_stage import Stage
from house import until
from yarn_fleet import Fleet

from tarn.errors import NotFoundError

pytestmark = [pytest.mark.yarn, pytest.mark.triton]


def test_logs_of_masters_and_instances_before_and_after_the_end(yarn_house, hadoop) -> None:
    """Also of an instance that ended before; afterwards from what YARN collected."""
    fleet = Fleet(yarn_house, hadoop, "logs")
    fleet.up(yarn_house.spec("logs", replicas={"min": 1, "max": 2, "initial": 2}))
    first, second = (item["id"] for item in fleet.settled(2)["instances"])
    for id_ in (first, second):
        assert f"| server_id                        | {id_} " in fleet.tarn("logs", id_)
    assert fleet.tarn("logs").strip()
    fleet.tarn("scale", "1")
    (left,) = (item["id"] for item in fleet.settled(1)["instances"])
    gone = first if left == second else second
    assert gone in fleet.tarn("logs", gone), "its container is over, its log is not"

    fleet.down()
    client = Stage(hadoop).deployer(yarn_house.root / "another-home", staging=yarn_house.staging)
    ending = until(lambda: client.ended("logs"), 30, "the end of the application")
    assert ending.state == "stopped"
    for id_ in (first, second):
        lines = until(lambda id_=id_: _lines(client, ending.ref, id_), 60, f"the log of {id_}")
        assert any("server_id" in line and id_ in line for line in lines)
    assert _lines(client, ending.ref, "")
    assert not _lines(client, ending.ref, "logs-0099")


def _lines(client, ref, id_: str) -> list[str]:
    try:
        return list(client.logs(ref, id_, None))
    except NotFoundError:
        return []
