"""Why the size is what it is, in a notebook and on a command line."""

import json

import pytest
from fake_fleet import FakeFleet, scaling

from tarn.cluster import Cluster
from tarn.cluster.read.table import cluster_table, explained, read_off
from tarn.errors import NotFoundError


def test_a_person_reads_the_sentence_first_then_signals_then_decisions() -> None:
    """Names, values, units, ages and sources; why it is unknown; what held a decision back."""
    lines = explained(scaling()).splitlines()
    assert lines[0] == scaling()["sentence"]
    assert lines[1] == (
        "policy target; min 1, max 5; looks back 0 s to grow, 300 s to shrink; cooldown 60 s"
    )
    assert lines[3].split() == ["SIGNAL", "VALUE", "UNIT", "AGE", "SOURCE", "WHY", "UNKNOWN"]
    assert lines[4].split("  ")[0] == "in_flight *"
    assert "0.4 s" in lines[4]
    assert "metrics of 2 instances" in lines[4]
    assert lines[5].split()[:2] == ["gpu_utilization", "unknown"]
    assert lines[5].endswith("2 of 2 instances did not say")
    assert lines[6] == "* read by the policy"
    assert lines[8].startswith("DECIDED")
    assert lines[9].endswith("in_flight is 50  limits 1 to 2")


def test_a_fenced_masters_word_is_old() -> None:
    """Said before anything else."""
    assert explained(scaling(stale=True)).startswith("The master has stopped acting")


def test_what_there_is_not_leaves_no_empty_table() -> None:
    """Before the first look, and of a policy that reads nothing."""
    text = explained(scaling(signals=[], decisions=[]))
    assert "SIGNAL" not in text
    assert "DECIDED" not in text
    unread = [{**scaling()["signals"][0], "read": False}]
    assert "*" not in explained(scaling(signals=unread))


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (0.0, "0"),
        (0.1234567, "0.123"),
        (12.0, "12"),
        (100.0, "100"),
        (0.00025, "0.00025"),
        (1234567.0, "1.23e+06"),
        (-2.5, "-2.5"),
    ],
)
def test_values_are_written_shortly(value: float, words: str) -> None:
    """Three digits behind the point; very small and very large ones in three digits."""
    assert read_off({**scaling()["signals"][0], "value": value})[1] == words


def test_a_notebook_shows_a_card_and_a_program_a_dict(fleet: FakeFleet) -> None:
    """The same answer three ways."""
    plain = {"name": "demo", "models": "models", "runtime": {"use": "fake"}}
    cluster = Cluster(plain, environment=fleet.environment).up()
    answer = cluster.explain()
    assert json.loads(json.dumps(answer)) == scaling()
    assert repr(answer) == str(answer) == explained(scaling())
    html = answer._repr_html_()
    for word in ("demo", "shrinks to 1 in 180 s", "in_flight", "limits 1 to 2", "cooldown 60 s"):
        assert word in html


def test_a_cluster_that_is_not_there_is_an_error(fleet: FakeFleet) -> None:
    """Nothing is made up."""
    with pytest.raises(NotFoundError):
        Cluster.named("other", fleet.environment).explain()


def test_the_status_has_a_line_about_the_size() -> None:
    """Where the policy wants something; a fixed size needs no such line."""
    status = {"name": "ocr", "state": "ready", "ready": 2, "desired": 2}
    size = {"sentence": "2 replicas, as policy target wants: so; no change is due."}
    wants = {**status, "holds": {"policy": {"wanted": 2}, "size": size}}
    assert cluster_table(wants, None).splitlines()[2] == f"size: {size['sentence']}"
    for nothing in ({}, {"policy": {"wanted": None}, "size": size}):
        assert "size:" not in cluster_table({**status, "holds": nothing}, None)
