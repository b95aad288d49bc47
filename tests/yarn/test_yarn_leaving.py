"""A node that is put out of service gives its instance up before it goes."""

import pytest
from house import ids, until
from open_loop import RE_READ_S, Load
from open_loop import Fleet as Followed
from yarn_fleet import Fleet

pytestmark = [pytest.mark.yarn, pytest.mark.triton, pytest.mark.breaks]

LEAVES_WITHIN_S = 40


@pytest.mark.timeout(300)
def test_a_decommissioned_node_loses_no_request(yarn_house, hadoop) -> None:
    """Drained and replaced elsewhere while the node still works; clients lose nothing."""
    fleet = Fleet(yarn_house, hadoop, "leaving")
    size = {"min": 1, "max": 2, "initial": 2}
    drain = {"timeout": "20s", "quiesce": f"{2 * RE_READ_S:g}s"}
    fleet.up(yarn_house.spec("leaving", replicas=size, drain=drain))
    before = fleet.settled(2)
    master_node = hadoop.node_of(fleet.masters()[fleet.master()])
    victim = next(i for i in before["instances"] if i["node"] != hadoop.host(master_node))
    daemon = hadoop.daemon_at(victim["node"])
    followed = Followed(fleet.url, fleet.api_token)
    try:

        def leave() -> None:
            hadoop.put_out_of_service(daemon, within_s=LEAVES_WITHIN_S)
            until(lambda: _moved(fleet, victim), LEAVES_WITHIN_S, "its replacement elsewhere")
            assert hadoop.state_of(daemon) == "DECOMMISSIONING", "the node went before"

        report = Load(followed, "echo", rate=20, seconds=15).run(leave)
        assert report.lost == [], report
        assert report.doubled == 0
        ended = next(i for i in fleet.status()["ended"] if i["id"] == victim["id"])
        assert "out of service" in ended["reason"]
        assert "out of service" in fleet.tarn("events")
    finally:
        followed.close()
        hadoop.put_out_of_service()
        hadoop.start(daemon)
        hadoop.wait_nodes(3)
    fleet.down()


def _moved(fleet: Fleet, victim: dict) -> bool:
    status = fleet.status()
    nodes = {i["node"] for i in status["instances"]}
    return (
        len(ids(status)) == 2
        and victim["container_id"] not in fleet.tritons()
        and victim["node"] not in nodes
    )
