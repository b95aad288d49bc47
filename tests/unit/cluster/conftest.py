from pathlib import Path

import pytest
from fake_fleet import API_TOKEN, FakeFleet, repository

from tarn.cluster import Cluster


@pytest.fixture
def fleet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeFleet:
    """A fleet in memory, with a folder to stand in and a repository with one model."""
    folder = tmp_path / "demo"
    repository(folder)
    monkeypatch.chdir(folder)
    return FakeFleet(tmp_path / "home")


@pytest.fixture
def cluster(fleet: FakeFleet) -> Cluster:
    """A cluster that runs, with an api token."""
    plain = {"name": "demo", "models": "models", "runtime": {"use": "fake"}}
    one = Cluster(plain, environment=fleet.environment).up()
    (fleet.directory / "api_token").write_text(API_TOKEN)
    return one
