"""A real drain that a follower holds: it says that it has a session open there."""

import time
from collections.abc import Iterator

import pytest
from house import House, until

from tarn.domain import Applied, Epoch
from tarn.follow import MasterApi

pytestmark = pytest.mark.triton


@pytest.fixture
def api(house: House) -> Iterator[MasterApi]:
    """The API of a cluster of two that waits for lb1."""
    far = {"use": "haproxy", "options": {"followers": ["lb1"]}, "required": True}
    drain = {"timeout": "30s", "quiesce": "200ms"}
    done = house.tarn("up", "-f", house.spec("held", discovery=[far], drain=drain))
    assert done.returncode == 0, done.stderr
    token = (house.directory("held") / "api_token").read_text().strip()
    with MasterApi(str(house.ref("held")["url"]), token) as one:
        yield one


def says(api: MasterApi, sessions: tuple[tuple[str, int], ...] = ()) -> None:
    """Acknowledge the newest view, with what is open."""
    now = api.instances()
    epoch, revision = Epoch.parse(now["epoch"]), now["revision"]
    api.acknowledge(Applied("lb1", epoch, revision, time.time(), "", sessions))


@pytest.mark.timeout(120)
def test_a_drain_ends_when_the_last_session_does(house: House, api: MasterApi) -> None:
    """The agent is shown before it comes; `why` says who holds the drain, and how many."""
    (shown,) = api.status()["followers"]
    assert (shown["name"], shown["required"], shown["revision"]) == ("lb1", True, -1)
    says(api)
    leaving = api.instances()["instances"][0]["id"]
    api.drain(leaving, now=True)
    until(lambda: leaving not in {i["id"] for i in api.instances()["instances"] if i["in_view"]}, 5)

    def waits() -> dict[str, object] | None:
        says(api, ((leaving, 2),))
        (item,) = (i for i in api.instances()["instances"] if i["id"] == leaving)
        return item["waits"] if item["waits"]["for"] == "sessions" else None

    held = until(waits, 5, "a drain that waits for sessions")
    assert (held["followers"], held["sessions"]) == (["lb1"], 2)
    why = house.tarn("why", "-c", "held", leaving).stdout
    assert "waits for 2 open sessions at lb1; what is left will be cut in" in why
    held_until_s = time.monotonic() + 3.0
    while time.monotonic() < held_until_s:
        assert waits()
    says(api, ((leaving, 0),))
    began_s = time.monotonic()
    over = until(lambda: [i for i in api.status()["ended"] if i["id"] == leaving], 10, "its end")
    assert time.monotonic() - began_s < 8
    assert over[0]["reason"].endswith(": a person asked for it")
    assert ", 0 lost, 0 cut; haproxy@lb1 acknowledged 1." in over[0]["reason"]
