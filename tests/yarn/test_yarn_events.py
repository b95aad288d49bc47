"""Events outlive a master, and the application, on YARN."""

import json
from collections.abc import Mapping
from typing import Any

import pytest
from house import until
from yarn_fleet import Fleet

pytestmark = [pytest.mark.yarn, pytest.mark.triton]

Row = Mapping[str, Any]


@pytest.mark.timeout(300)
def test_events_outlive_a_master_and_the_application(yarn_house, hadoop) -> None:
    """The next master tells them; after the end they are in the log that YARN collected."""
    fleet = Fleet(yarn_house, hadoop, "teller")
    size = {"min": 1, "max": 1, "initial": 1}
    fleet.up(yarn_house.spec("teller", replicas=size, log={"format": "json"}))
    fleet.settled(1)
    fleet.tarn("pause", "10m", "--reason", "a look")
    before = until(lambda: _paused(_events(fleet)), 10, "the pause")
    assert before["request"]["via"] in {"token", "spnego"}
    fleet.after(fleet.kill_master())
    events = _events(fleet)
    assert _paused(events) == before
    assert len({event["epoch"] for event in events}) == 2
    fleet.down()
    told = until(lambda: _collected(fleet), 90, "the collected log", 1.0)
    assert _paused(told) == before
    assert "TARN-1203" in {event["code"] for event in told}


def _paused(events: list[Row]) -> Row | None:
    return next((event for event in events if event["code"] == "TARN-1201"), None)


def _events(fleet: Fleet) -> list[Row]:
    return list(map(json.loads, fleet.tarn("events", "-o", "jsonl").splitlines()))


def _collected(fleet: Fleet) -> list[Row]:
    done = fleet.house.tarn("events", "-c", fleet.name, "-o", "jsonl")
    events = list(map(json.loads, done.stdout.splitlines()))
    return events if _paused(events) else []
