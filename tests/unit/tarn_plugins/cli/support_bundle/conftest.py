from collections.abc import Iterator
from pathlib import Path

import pytest
from fake_fleet import FakeFleet, repository

import tarn_plugins.cli.support_bundle as plugin


@pytest.fixture
def fleet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeFleet]:
    """A fleet in memory, with a folder to stand in and the plugin next to the fake one."""
    folder = tmp_path / "demo"
    repository(folder)
    monkeypatch.chdir(folder)
    return FakeFleet(tmp_path / "home", plugins=[plugin])
