"""The user's test request: refused in words before anything starts, brought to the master."""

import json
import os
from pathlib import Path

import attrs
import pytest
from fake_fleet import FakeFleet

from tarn.cluster import Cluster
from tarn.control.editions import tests_of as known_tests
from tarn.control.warmup import WarmupRequest
from tarn.errors import ConfigError
from tarn.plain.master_files import TEST_REQUESTS
from tarn.testing.context import cluster_spec
from tarn.triton.test_requests import FILE, WARM_UP

GOOD = {"model": "echo", "inputs": []}


def cluster(fleet: FakeFleet, named: str, **more: object) -> Cluster:
    spec = {"name": "demo", "runtime": {"use": "fake"}, "models": {"repository": "models", **more}}
    return Cluster({**spec, "instance": {"test_request": named}}, environment=fleet.environment)


def refused(fleet: FakeFleet, named: str, **more: object) -> str:
    """Return the refusal; the plan says the same, and nothing was submitted."""
    one = cluster(fleet, named, **more)
    with pytest.raises(ConfigError) as caught:
        one.up()
    assert "submit" not in fleet.verbs()
    found = [finding for finding in one.plan()["findings"] if finding["code"] == "TARN-2013"]
    assert found
    assert all(finding["where"].startswith("instance.test_request") for finding in found)
    assert caught.value.exit_code == 2
    return str(caught.value)


def test_the_file_travels_to_the_master(fleet: FakeFleet) -> None:
    text = json.dumps(GOOD)
    Path("test.json").write_text(text)
    cluster(fleet, "test.json").up()
    assert fleet.asked[-1][3][TEST_REQUESTS] == text.encode()


@pytest.mark.parametrize("named", [None, "none"])
def test_without_a_file_nothing_travels(fleet: FakeFleet, named: str) -> None:
    cluster(fleet, named).up()
    assert TEST_REQUESTS not in fleet.asked[-1][3]


def test_what_is_wrong_in_the_file_is_told_with_place_and_what_is_right(fleet: FakeFleet) -> None:
    """All of it at once."""
    Path("test.json").write_text(json.dumps({"inputs": [{"name": "IN"}]}))
    said = refused(fleet, "test.json")
    assert "test.json', model: is missing. Expected the name of a model" in said
    assert "test.json', inputs[0].shape: is missing" in said


def test_a_file_that_is_not_there(fleet: FakeFleet) -> None:
    assert "cannot be read (No such file or directory)" in refused(fleet, "missing.json")


def test_something_that_is_not_a_file_is_not_opened(fleet: FakeFleet) -> None:
    """A pipe would be waited for."""
    os.mkfifo("pipe")
    assert "is not a file" in refused(fleet, "pipe")
    assert "is not a file" in refused(fleet, ".")


def test_a_model_that_is_not_served_is_named_with_the_nearest(fleet: FakeFleet) -> None:
    Path("test.json").write_text(json.dumps({**GOOD, "model": "ecko"}))
    said = refused(fleet, "test.json", serve=["echo"])
    assert "'ecko' is not in models.serve" in said
    assert "echo" in said.partition("models.serve")[2]


# -- at the master ---------------------------------------------------------------------------

WARM = (WarmupRequest("/v2/models/a b/infer", b"w"), WarmupRequest("/v2/models/echo/infer", b"w"))


def spec(named: str | None):
    one = cluster_spec()
    return attrs.evolve(one, instance=attrs.evolve(one.instance, test_request=named))


def test_a_master_takes_the_file_then_the_warm_up() -> None:
    text = json.dumps(GOOD)
    known = known_tests(spec("/client/test.json"), text, WARM)
    found = {model: known.test_for(model) for model in ("echo", "a b")}
    assert {model: test.source for model, test in found.items() if test} == {
        "echo": FILE,
        "a b": WARM_UP,
    }
    assert found["a b"] == known.test_for("a b")
    assert known_tests(spec(None), text, WARM).test_for("echo") is not None
    assert known_tests(spec("none"), text, WARM).test_for("echo") is None


def test_a_master_refuses_a_file_that_no_client_brought() -> None:
    with pytest.raises(ConfigError, match=r"model is missing") as caught:
        known_tests(spec("/client/test.json"), "{}", ())
    assert caught.value.code == "TARN-2013"
