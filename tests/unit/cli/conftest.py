from pathlib import Path

import pytest
from fake_fleet import FakeFleet, repository


@pytest.fixture
def fleet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeFleet:
    """A fleet in memory, with a folder to stand in and a repository with one model."""
    folder = tmp_path / "demo"
    repository(folder)
    monkeypatch.chdir(folder)
    return FakeFleet(tmp_path / "home")
