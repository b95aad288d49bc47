"""A token in the environment that does not count is told, and never shown."""

from pathlib import Path

import pytest
from fake_fleet import API_TOKEN, FakeFleet, repository

from tarn import config
from tarn.cluster import Cluster

GIVEN = {"TARN_TOKEN": "a-secret-of-mine"}
PLAIN = {"name": "demo", "models": "/m"}


@pytest.mark.parametrize("kind", ["none", "file", "env"])
def test_one_beside_a_token_of_the_command_line_is_told(kind: str) -> None:
    """With what would be right."""
    source = {"none": "none", "file": "file:/t", "env": "env:OTHER"}[kind]
    loaded = config.load(PLAIN, arguments={"api": {"token": source}}, environ=GIVEN)
    (note,) = [one for one in loaded.notes if "TARN_TOKEN" in one]
    assert f"api.token is '{kind}'" in note
    assert "'auto'" in note
    assert loaded.api_token is None
    assert "a-secret-of-mine" not in "".join(loaded.notes)


@pytest.mark.parametrize("source", ["auto", "env:TARN_TOKEN"])
def test_one_that_counts_is_not_told(source: str) -> None:
    """By the spec's own word, or as the cluster's token."""
    loaded = config.load(PLAIN, arguments={"api": {"token": source}}, environ=GIVEN)
    assert not [one for one in loaded.notes if "TARN_TOKEN" in one]


def test_a_running_cluster_keeps_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`up` attaches, and says that the other one is not used."""
    repository(tmp_path / "demo")
    monkeypatch.chdir(tmp_path / "demo")
    fleet, said = FakeFleet(tmp_path / "home"), list[str]()
    plain = {"name": "demo", "models": "models", "runtime": {"use": "fake"}}
    Cluster(plain, environment=fleet.environment).up()
    kept = fleet.directory / "api_token"
    kept.write_text(API_TOKEN)
    fleet.environ |= GIVEN
    hear = lambda progress: said.append(progress.message)  # noqa: E731
    assert not Cluster(plain, environment=fleet.environment).up(hear).started_here
    (note,) = [one for one in said if "TARN_TOKEN" in one]
    assert str(kept) in note
    assert GIVEN["TARN_TOKEN"] not in note
    kept.write_text(GIVEN["TARN_TOKEN"])
    said.clear()
    Cluster(plain, environment=fleet.environment).up(hear)
    assert not [one for one in said if "TARN_TOKEN" in one]
