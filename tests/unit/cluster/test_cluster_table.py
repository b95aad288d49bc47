"""What `tarn status` prints of one cluster."""

import pytest
from fake_fleet import instance

from tarn.cluster.read.table import cluster_table, instance_table


def _follower(
    name: str, revision: int, *, lost: bool = False, error: str = ""
) -> dict[str, object]:
    return {"name": name, "revision": revision, "lost": lost, "error": error}


@pytest.mark.parametrize(
    ("follower", "words"),
    [
        (_follower("lb1", 7), "lb1 (in step)"),
        (_follower("lb1", 5), "lb1 (2 behind)"),
        (_follower("lb1", -1), "lb1 (never came)"),
        (_follower("lb1", -1, error="no such socket"), "lb1 (failing)"),
        (_follower("lb1", 7, error="HAProxy does not answer"), "lb1 (failing)"),
        (_follower("lb1", 7, lost=True), "lb1 (lost)"),
    ],
)
def test_who_publishes_the_instances_is_named_with_how_far_it_is(follower, words) -> None:
    """One line, in the order of the status."""
    status = {"name": "ocr", "state": "ready", "ready": 1, "desired": 1, "view_revision": 7}
    followers = [follower, _follower("zookeeper", 7)]
    lines = cluster_table({**status, "followers": followers}, None).splitlines()
    assert lines[2] == f"followed by {words}, zookeeper (in step)"


def test_a_cluster_without_followers_has_no_such_line() -> None:
    """Nor one that is over."""
    status = {"name": "ocr", "state": "stopped", "view_revision": 7}
    followers = [_follower("lb1", 7)]
    for one in (status, {**status, "followers": followers, "ended_at": 1.0}):
        assert "followed" not in cluster_table(one, None)


UNWELL = {"symptom": "failing", "model": "m", "message": "model 'm' failed 9 of 9"}


@pytest.mark.parametrize(
    ("item", "words"),
    [
        (
            instance(1, suspect=UNWELL["message"], unwell=UNWELL | {"ejected": True}),
            ("suspect", "model 'm' failed 9 of 9"),
        ),
        (
            instance(1, unwell=UNWELL | {"ejected": False}),
            ("ready", "model 'm' failed 9 of 9"),
        ),
        (
            instance(1, "draining", reason="asked for", unwell=UNWELL | {"ejected": True}),
            ("draining", "asked for"),
        ),
        (instance(1, reason="it is all well"), ("ready", "it is all well")),
    ],
)
def test_an_instance_that_fails_its_users_has_the_reason_in_its_row(item, words) -> None:
    """Also where it stays in the view, as the last one of the fleet."""
    row = instance_table([item]).splitlines()[1]
    state, reason = words
    assert row.split()[1] == state
    assert row.endswith(reason)
