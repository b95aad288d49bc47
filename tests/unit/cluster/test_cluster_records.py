"""Answers as classes: attributes for what is known, and the dict that they always were."""

import copy
import json
import pickle

import pytest
from fake_fleet import FakeFleet, scaling, status

from tarn.cluster import Cluster
from tarn.cluster.read.records import Explanation, InstanceStatus, Status


def test_attributes_and_keys_say_the_same(cluster: Cluster, fleet: FakeFleet) -> None:
    """Who read answers as dicts goes on to."""
    found = cluster.status()
    assert found.ready == found["ready"] == found.get("ready")
    assert [one.id for one in found.instances] == [one["id"] for one in found["instances"]]
    assert isinstance(found.instances[0], InstanceStatus)
    assert json.loads(json.dumps(found)) == status()
    assert cluster.instances()[0].http == found["instances"][0]["http"]
    fleet.scaling = scaling()
    assert cluster.explain().signals[0].name == scaling()["signals"][0]["name"]
    assert cluster.drain("demo-0001").message == "drain is done"


def test_a_master_of_another_version_says_less_or_more() -> None:
    """What is missing has its default; what is new can be read by its key."""
    found = Status.from_answer({"name": "llama", "of_tomorrow": 1})
    assert (found.desired, found.limits, found.instances, found.warnings) == (0, None, (), ())
    assert found["of_tomorrow"] == 1
    with pytest.raises(KeyError):
        _ = found["desired"]


def test_a_record_says_in_one_line_what_matters() -> None:
    """Of what is long, how much there is."""
    answer = {"name": "llama", "state": "ready", "instances": [{"id": "a"}], "limits": {"max": 4}}
    found = Status.from_answer(answer)
    limits = "SizeLimits(max=4)"
    assert repr(found) == f"Status(name='llama', state='ready', limits={limits}, instances=1)"
    assert repr(found.instances[0]) == "InstanceStatus(id='a')"


def test_a_record_can_be_copied_and_sent_to_another_process() -> None:
    """With its attributes."""
    found = Status.from_answer({"name": "llama", "instances": [{"id": "a"}]})
    for other in (copy.deepcopy(found), pickle.loads(pickle.dumps(found))):
        assert other == found
        assert other.instances[0].id == "a"


def test_an_attribute_cannot_be_set() -> None:
    """An answer is what was answered."""
    found = Explanation.from_answer({"name": "llama"})
    with pytest.raises(AttributeError):
        found.name = "other"  # type: ignore[misc]
