"""What a master tells as data is what `tarn why` and `tarn status` say, also of an older master."""

import json
from typing import Any

import attrs
from fake_master import instance, snapshot

from tarn.cluster.explain import causes
from tarn.cluster.older_master import completed
from tarn.cluster.read.table import issue_lines
from tarn.domain import InstanceState, Issue
from tarn.domain.outlook import Holds
from tarn.http.render import render_status
from tarn.read.snapshot import Follower, Snapshot

FULL = "Unable to initialize shared memory key 'x'. Error: No space left on device"
BAD = (("bad", "UNAVAILABLE", FULL), ("late", "UNAVAILABLE", "not loaded"), ("ok", "READY", ""))
PICTURE = snapshot(
    instance(1, models=BAD),
    instance(2, suspect="no answer for 3 s"),
    instance(
        3,
        InstanceState.STARTING,
        reason="model bad is unavailable: no version",
        blamed="bad",
        models=(("bad", "UNAVAILABLE", "no version"), ("worse", "UNAVAILABLE", "no file")),
    ),
    ended=(instance(0, InstanceState.FAILED, reason="exit 1"),),
    desired=4,
    holds=Holds(halted="five failed; the last, llama-0000: exit 1", halted_by="llama-0000"),
    followers=(Follower("zk", True, 3, 1.0, error="no quorum"),),
    issues=(
        Issue("llama", "the state is not saved: disk full", code="TARN-1005", public="not saved"),
        Issue("discovery zk", "discovery zk: no quorum", code="TARN-1303", followers=("zk",)),
        Issue("llama", "replacements are frozen", code="TARN-1010", public="frozen"),
        Issue("local", "no keeper", code="TARN-1014", source="local"),
    ),
)


def told(picture: Snapshot, *, by_an_older_one: bool = False) -> dict[str, Any]:
    """Return the status of *picture* as a client gets it."""
    status: dict[str, Any] = json.loads(render_status(picture, 0.0))
    if by_an_older_one:
        del status["issues"], status["holds"]["halted_by"]
        status["troubles"] = [
            {"code": one.code, "subject": one.subject, "message": one.found}
            for one in picture.issues
            if not one.source
        ]
        for item in (*status["instances"], *status["ended"]):
            for key in ("silent", "blamed", "code"):
                del item[key]
            for model in item["models"]:
                model.pop("code", None)
    return status


def test_each_fact_is_one_cause() -> None:
    """What a follower's row, or what holds the fleet, says is not said again by an issue."""
    assert [str(cause).partition(". ")[0] for cause in causes(told(PICTURE))] == [
        "launching is given up: five failed; the last, llama-0000: exit 1",
        f"llama-0001: model 'bad' is unavailable: {FULL}".partition(". ")[0],
        "llama-0001: model 'late' is not loaded: it came after llama-0001 started",
        "llama-0002 is kept out of the view: no answer for 3 s",
        "llama-0003 is starting for 0s: model bad is unavailable: no version",
        "llama-0003: model 'worse' is unavailable: no file",
        "follower zk could not apply the view: no quorum",
        "the state is not saved: disk full",
        "no keeper",
    ]
    steps = {
        cause.subject: cause.step for cause in causes(told(PICTURE)) if "shared" in cause.found
    }
    assert steps == {"llama-0001": "`tarn help TARN-3159` says how to get more."}


def test_a_master_of_an_earlier_version_is_understood_as_well() -> None:
    """It tells the same in words only."""
    new, old = (causes(told(PICTURE, by_an_older_one=older)) for older in (False, True))
    assert [(c.found, c.step, c.code) for c in old] == [(c.found, c.step, c.code) for c in new]


def test_an_issue_is_a_line_of_the_status_with_its_code() -> None:
    """Once, though it has a word for everybody and one for who may look."""
    assert issue_lines(told(PICTURE)) == [
        "! TARN-1005 the state is not saved: disk full",
        "! TARN-1303 discovery zk: no quorum",
        "! TARN-1010 replacements are frozen",
        "! TARN-1014 no keeper",
    ]
    older = told(attrs.evolve(PICTURE, issues=PICTURE.issues[:1]), by_an_older_one=True)
    assert issue_lines(older) == ["! TARN-1005 the state is not saved: disk full"]


def test_what_a_master_of_this_version_tells_is_left_as_it_is() -> None:
    """Nothing is searched in it."""
    status = told(PICTURE)
    assert completed(status) is status
