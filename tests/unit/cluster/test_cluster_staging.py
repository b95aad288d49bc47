"""Where a repository is used from depends on what the runtime's machines read."""

import json

import pytest
from fake_fleet import FakeFleet

from tarn.cluster import Cluster
from tarn.errors import ConfigError, ProviderMissingError
from tarn.interfaces import RuntimeCapabilities

REMOTE = RuntimeCapabilities(remote=True, reads=frozenset({"hdfs", "s3a"}))


def cluster(fleet: FakeFleet, repository: str, **overrides):
    spec = {"name": "demo", "runtime": {"use": "fake"}, "models": repository}
    return Cluster(spec, environment=fleet.environment, **overrides)


def staged(fleet):
    return json.loads(fleet.asked[-1][3]["staged.json"])


@pytest.mark.parametrize("uri", ["hdfs:///user/models", "s3a://bucket/models.tar.gz"])
def test_what_the_nodes_read_is_left_where_it_is(fleet, uri):
    """Nothing is copied, and no storage is needed."""
    fleet.capabilities = REMOTE
    cluster(fleet, uri).up()
    assert (staged(fleet)["location"], staged(fleet)["kind"]) == (uri, "localize")


def test_what_the_nodes_do_not_read_is_copied(fleet):
    """By whichever storage takes the scheme: here none does."""
    fleet.capabilities = REMOTE
    with pytest.raises(ProviderMissingError, match="s3://"):
        cluster(fleet, "s3://bucket/models").up()
    with pytest.raises(ProviderMissingError, match="s3://"):
        cluster(fleet, "s3://bucket/models").plan()


def test_a_local_runtime_reads_no_uri(fleet):
    """What a runtime says of its machines counts only where these are others."""
    fleet.capabilities = RuntimeCapabilities(reads=REMOTE.reads)
    with pytest.raises(ProviderMissingError, match="hdfs://"):
        cluster(fleet, "hdfs:///models").up()


def test_a_path_of_the_nodes_need_not_be_here(fleet):
    """It is not looked at; that it is not here is a note, for it may be a slip."""
    fleet.capabilities = REMOTE
    heard = []
    cluster(fleet, "/nowhere/on/the/client").up(heard.append)
    assert staged(fleet)["kind"] == "in_place"
    (note,) = [p.message for p in heard if p.note]
    assert "/nowhere/on/the/client" in note
    assert "every node" in note


def test_a_path_of_the_nodes_that_is_here_is_not_judged(fleet, tmp_path):
    """What lies here under its name need not be what lies there."""
    fleet.capabilities = REMOTE
    heard = []
    cluster(fleet, str(tmp_path)).up(heard.append)
    assert not [p for p in heard if "note" in p.message]


def test_a_plan_says_the_same(fleet):
    """Where the models lie, and what is noted."""
    fleet.capabilities = REMOTE
    plan = cluster(fleet, "/nowhere").plan()
    assert [finding["fatal"] for finding in plan["findings"]] == [False]
    assert cluster(fleet, "hdfs:///m").plan()["findings"] == []


def test_a_test_request_must_be_there(fleet, tmp_path):
    """Refused before anything starts: it would be missed only when an instance is suspected."""
    file = tmp_path / "test.json"
    tested = {"instance": {"test_request": str(file)}}
    with pytest.raises(ConfigError, match=r"instance\.test_request"):
        cluster(fleet, str(tmp_path), **tested).up()
    file.write_text('{"model": "m", "inputs": []}')
    (tmp_path / "m" / "1").mkdir(parents=True)
    findings = cluster(fleet, str(tmp_path), **tested).plan()["findings"]
    assert not [one for one in findings if "test_request" in str(one)]


def test_warm_up_needs_a_repository_that_the_master_sees(fleet):
    """Refused in words before anything starts, not by a master that ends."""
    fleet.capabilities = REMOTE
    warm = {"instance": {"warmup": "warmup/*.json"}}
    with pytest.raises(ConfigError, match=r"instance\.warmup") as caught:
        cluster(fleet, "hdfs:///m", **warm).up()
    assert caught.value.exit_code == 2
    assert "submit" not in fleet.verbs()
    cluster(fleet, "/mounted", **warm).up()
