"""A ResourceManager that takes no placement constraints, or rejects what it cannot place."""

import time
from collections.abc import Iterator

import pytest
from house import ids, kill, until
from servers.yarn import Hadoop
from yarn_fleet import Fleet, steady

pytestmark = [pytest.mark.yarn, pytest.mark.triton, pytest.mark.breaks]

SIZE = {"min": 1, "max": 4, "initial": 3}


@pytest.fixture(scope="module", autouse=True)
def restored(shared_hadoop: Hadoop) -> Iterator[None]:
    """The session's YARN is as it was for whoever comes next."""
    yield
    shared_hadoop.place_by(shared_hadoop.options.placement)


@pytest.mark.timeout(400)
def test_disabled_keeps_one_a_node_by_refusing_nodes(yarn_house, hadoop) -> None:
    """Told by the RM before anything is asked; extras go back; a killed master changes nothing."""
    hadoop.place_by("disabled")
    before = hadoop.metrics()["containersAllocated"]
    fleet = Fleet(yarn_house, hadoop, "plain")
    fleet.up(yarn_house.spec("plain", replicas=SIZE))
    three = fleet.settled(3)
    assert len({i["node"] for i in three["instances"]}) == 3
    (said,) = [w for w in three["warnings"] if "TARN-1015" in w]
    assert "yarn.resourcemanager.placement-constraints.handler = disabled" in said
    with steady(fleet, three):
        fleet.tarn("scale", "4")
        fourth = _fourth(fleet)
        assert "3 of 3" in until(lambda: _why(fleet, fourth, "no node"), 20, "what it waits for")
        until(lambda: _held(hadoop) - before == 4, 10, "the master and three instances, no more")
        pids = fleet.tritons()
        fleet.after(fleet.kill_master())
        again = until(lambda: _ready(fleet, 3), 30, "the same three")
        assert ids(again) == ids(three)
        fourth = _fourth(fleet)  # an ask ends with its master, and its number with it
        until(lambda: _why(fleet, fourth, "no node"), 20, "what it waits for")
        until(lambda: _held(hadoop) - before == 4, 10, "no extra one")
        assert fleet.tritons() == pids
    victim = three["instances"][0]
    kill(fleet.tritons()[victim["container_id"]])
    new = until(lambda: _ready(fleet, 3) if _gone(fleet, victim) else None, 40, "another one there")
    assert len({i["node"] for i in new["instances"] if i["state"] == "ready"}) == 3
    until(lambda: _held(hadoop) - before == 4, 10, "every extra one given back")
    fleet.down()
    until(lambda: _held(hadoop) == before, 20, "every container given back")


@pytest.mark.timeout(300)
def test_an_rm_that_takes_no_constraints_any_more_costs_one_attempt(yarn_house, hadoop) -> None:
    """It rejects every word of a master that asks with any: the next one asks without."""
    hadoop.place_by("scheduler")
    fleet = Fleet(yarn_house, hadoop, "turned")
    fleet.up(yarn_house.spec("turned", replicas={**SIZE, "initial": 1}))
    one = fleet.settled(1)
    with steady(fleet, one):
        hadoop.place_by("disabled")
        until(lambda: not _silent(fleet), 60, "the RM heard again")
        epoch = str(fleet.status()["epoch"])
        began_s = time.monotonic()
        fleet.tarn("scale", "2")
        fleet.after(epoch, within_s=30)
        two = fleet.settled(2)
        took_s = time.monotonic() - began_s
    assert ids(one) < ids(two)
    assert any("TARN-1015" in warning for warning in two["warnings"])
    assert took_s < 30
    assert len(hadoop.attempts(fleet.application_id)) == 2
    fleet.down()


@pytest.mark.timeout(300)
def test_what_the_processor_rejects_is_asked_again(yarn_house, hadoop) -> None:
    """`why` says that it was rejected; it comes up once a node is there for it."""
    hadoop.place_by("placement-processor")
    fleet = Fleet(yarn_house, hadoop, "processor")
    fleet.up(yarn_house.spec("processor", replicas=SIZE))
    three = fleet.settled(3)
    assert not [w for w in three["warnings"] if "TARN-1015" in w]
    fleet.tarn("scale", "4")
    fourth = _fourth(fleet)
    text = until(lambda: _why(fleet, fourth, "rejected the request"), 20, "the rejection")
    assert "COULD_NOT_PLACE" in text
    victim = three["instances"][0]
    with steady(fleet, {"instances": three["instances"][1:]}):
        kill(fleet.tritons()[victim["container_id"]])
        until(lambda: _ready(fleet, 3) if _gone(fleet, victim) else None, 60, "one more asked")
    fleet.tarn("scale", "3")
    last = fleet.settled(3)
    assert len({i["node"] for i in last["instances"]}) == 3
    assert len(fleet.tritons()) == 3
    fleet.down()


def _silent(fleet: Fleet) -> bool:
    return any("ResourceManager" in warning for warning in fleet.status()["warnings"])


def _held(hadoop: Hadoop) -> int:
    return int(hadoop.metrics()["containersAllocated"])


def _fourth(fleet: Fleet) -> str:
    """Return the id of the one that waits."""
    found = until(
        lambda: [i for i in fleet.status()["instances"] if i["state"] == "requested"], 20, "a 4th"
    )
    return str(found[0]["id"])


def _why(fleet: Fleet, instance_id: str, words: str) -> str:
    text = fleet.tarn("why", instance_id)
    return text if words in text else ""


def _ready(fleet: Fleet, count: int) -> dict | None:
    status = fleet.answered()
    return status if status is not None and len(ids(status)) == count else None


def _gone(fleet: Fleet, instance: dict) -> bool:
    return instance["container_id"] not in fleet.tritons()
