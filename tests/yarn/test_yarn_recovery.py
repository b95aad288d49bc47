"""Masters, Tritons, NodeManagers and the ResourceManager die; the same containers go on serving."""

import signal
import time
from typing import Any

import pytest
from gray_fleet import stubs
from house import ids, kill, until
from yarn_fleet import Fleet, dead, steady

pytestmark = [pytest.mark.yarn, pytest.mark.triton]


def started(yarn_house, hadoop, name: str, count: int, **keys) -> Fleet:
    fleet = Fleet(yarn_house, hadoop, name)
    size = {"min": 1, "max": 3, "initial": count}
    fleet.up(yarn_house.spec(name, replicas=size, **keys))
    fleet.settled(count)
    return fleet


def same(before, after) -> None:
    """The very same containers serve, and the master remembers what was wanted of it."""
    assert {i["id"]: i["container_id"] for i in after["instances"]} == {
        i["id"]: i["container_id"] for i in before["instances"]
    }
    assert after["desired"] == before["desired"]
    assert after["manual"] == before["manual"]


def _begun(fleet: Fleet) -> int:
    return sum(i["state"] in ("starting", "ready") for i in fleet.status()["instances"])


@pytest.mark.timeout(400)
def test_masters_killed_again_and_again_change_nothing(yarn_house, hadoop) -> None:
    """-9 four times in a row, then TERM, then one mid-start and one mid-drain.

    One that is told to leave keeps what it saw, and the next one goes on with it.
    """
    fleet = started(yarn_house, hadoop, "phoenix", 1)
    fleet.tarn("scale", "2")
    before = fleet.settled(2)
    pids = fleet.tritons()
    with steady(fleet, before):
        for number in (*[signal.SIGKILL] * 4, signal.SIGTERM):
            seen = fleet.history()
            fleet.after(fleet.kill_master(number))
            same(before, fleet.settled(2))
            assert fleet.tritons() == pids
        until(lambda: fleet.history()[-1][0] > seen[-1][0], 30, "a row of the newest master")
        assert fleet.history()[0][0] == seen[0][0]
        attempts = hadoop.attempts(fleet.application_id)
        assert len(attempts) >= 6  # one more where a start takes longer than YARN waits, 10 s

        fleet.tarn("scale", "3")
        # It has its container: YARN keeps the tag of one that was allocated and never taken.
        until(lambda: _begun(fleet) == 3, 20, "a third one begun")
        fleet.after(fleet.kill_master())
        grown = fleet.settled(3)
        assert len(fleet.tritons()) == 3, "one was launched twice"
        assert grown["manual"] == 3
        assert set(pids) < set(fleet.tritons())
    fleet.tarn("scale", "2")
    until(lambda: len(ids(fleet.status())) == 2, 20, "a drain in work")
    fleet.after(fleet.kill_master())
    shrunk = fleet.settled(2)
    assert ids(shrunk) < ids(grown)
    assert len(fleet.tritons()) == 2
    fleet.down()


def test_a_killed_triton_and_one_whose_stub_was_killed_are_replaced_and_nothing_else(
    yarn_house, hadoop, capsys
) -> None:
    """Each successor has another number; the neighbour keeps its container and loses nothing."""
    fleet = started(yarn_house, hadoop, "triton", 2)
    before = fleet.status()
    victim, other = before["instances"]
    with steady(fleet, {"instances": [other]}):
        kill(fleet.tritons()[victim["container_id"]])
        until(lambda: victim["id"] not in ids(fleet.status()), 20, "its leaving the view")
        after = fleet.settled(2)
        assert victim["id"] not in ids(after)
        assert [i["reason"] for i in after["ended"] if i["id"] == victim["id"]]
        heir = next(i for i in after["instances"] if i["id"] != other["id"])
        out_s, replaced_s = _stub_killed(fleet, heir)
    assert other["container_id"] in fleet.tritons()
    with capsys.disabled():
        print(f"\n  stub killed: ejected after {out_s:.1f} s, replaced after {replaced_s:.1f} s")
    fleet.down()


def _stub_killed(fleet: Fleet, victim: dict[str, Any]) -> tuple[float, float]:
    """Kill the stub of a Triton that says it is ready; return when it was out, and replaced."""
    triton, began_s = fleet.tritons()[victim["container_id"]], time.monotonic()
    for stub in stubs(triton):
        kill(stub)
    unwell = until(lambda: _one(fleet, victim)["unwell"], 20, "its being unwell")
    out_s = time.monotonic() - began_s
    assert unwell["ejected"]
    assert not dead(triton)
    assert "killed by signal 9" in unwell["message"]
    until(lambda: len(ids(fleet.status()) - {victim["id"]}) == 2, 60, "its replacement")
    assert "TARN-1124" in fleet.tarn("events")
    return out_s, time.monotonic() - began_s


def _one(fleet: Fleet, wanted: dict[str, Any]) -> dict[str, Any]:
    return next(i for i in fleet.status()["instances"] if i["id"] == wanted["id"])


def test_a_stopped_master_is_superseded_and_touches_nothing(yarn_house, hadoop) -> None:
    """SIGSTOP until YARN believes it lost; the next one scales; SIGCONT: the old one ends idle."""
    fleet = started(yarn_house, hadoop, "fence", 2)
    before, old = fleet.status(), fleet.master()
    with steady(fleet, before):
        epoch = fleet.kill_master(signal.SIGSTOP)
        fleet.after(epoch, within_s=90)
        fleet.tarn("scale", "3")
        grown = fleet.settled(3)
        pids = fleet.tritons()
        if not dead(old):
            kill(old, signal.SIGCONT)
        until(lambda: dead(old), 30, "the end of the old master")
        assert fleet.tritons() == pids
        same(grown, fleet.settled(3))
    fleet.down()


def test_a_node_manager_restarts_and_its_triton_goes_on(yarn_house, hadoop) -> None:
    """The process never stops; a master killed meanwhile changes nothing either."""
    fleet = started(yarn_house, hadoop, "restart", 2)
    before, pids = fleet.status(), fleet.tritons()
    master_node = hadoop.node_of(fleet.masters()[fleet.master()])
    target = next(i for i in before["instances"] if i["node"] != hadoop.host(master_node))
    daemon = hadoop.daemon_at(target["node"])
    with steady(fleet, before):
        hadoop.kill(daemon)
        hadoop.start(daemon)
        hadoop.wait_nodes(3)
        same(before, fleet.settled(2))
        fleet.after(fleet.kill_master())
        same(before, fleet.settled(2))
        assert fleet.tritons() == pids
    fleet.down()


@pytest.mark.timeout(300)
def test_the_resource_manager_restarts(yarn_house, hadoop) -> None:
    """Work preserving: same attempt, same containers; scaling works again afterwards."""
    fleet = started(yarn_house, hadoop, "manager", 2)
    before, pids, master = fleet.status(), fleet.tritons(), fleet.master()
    with steady(fleet, before):
        hadoop.kill("rm")
        until(lambda: any("ResourceManager" in w for w in fleet.status()["warnings"]), 30, "a word")
        hadoop.start("rm")
        hadoop.wait_nodes(3)
        until(lambda: not fleet.status()["warnings"], 60, "the RM heard again")
        same(before, fleet.settled(2))
        assert fleet.master() == master
        fleet.tarn("scale", "3")
        fleet.settled(3)
        assert set(pids) < set(fleet.tritons())
        fleet.after(fleet.kill_master())
        again = fleet.settled(3)
        assert len(fleet.tritons()) == 3 == len(again["instances"])
    fleet.down()


@pytest.mark.timeout(400)
def test_nodes_are_lost_with_their_instance_and_with_the_master(yarn_house, hadoop) -> None:
    """A lost node's instance is replaced; a lost master's node means another attempt elsewhere."""
    fleet = started(yarn_house, hadoop, "lost", 2)
    before = fleet.status()
    master_node = hadoop.node_of(fleet.masters()[fleet.master()])
    target = next(i for i in before["instances"] if i["node"] != hadoop.host(master_node))
    other = next(i for i in before["instances"] if i is not target)
    daemon = hadoop.daemon_at(target["node"])
    with steady(fleet, {"instances": [other]}):
        hadoop.kill_node(daemon)
        after = until(
            lambda: (s := fleet.status()) and target["id"] not in ids(s) and len(ids(s)) == 2 and s,
            120,
            "the replacement of what ran on the lost node",
        )
        assert other["id"] in ids(after)
        hadoop.start(daemon)
        hadoop.wait_nodes(3)
    fleet.settled(2)
    epoch = fleet.status()["epoch"]
    keep = [i for i in fleet.status()["instances"] if i["node"] != hadoop.host(master_node)]
    with steady(fleet, {"instances": keep}):
        hadoop.kill_node(master_node)
        fleet.after(str(epoch), within_s=120)
        again = fleet.settled(2)
        assert {i["id"] for i in keep} <= ids(again)
    hadoop.start(master_node)
    hadoop.wait_nodes(3)
    fleet.down()
