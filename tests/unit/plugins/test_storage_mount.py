"""A bare path is used where it is."""

import errno
import os
from pathlib import Path
from typing import NoReturn

import attrs
import pytest

from tarn.errors import RepositoryError, StorageError
from tarn.interfaces import ClientContext, Paths
from tarn_plugins.storage.mount import MountStorage, tarn_storages


@attrs.frozen
class Stopped:
    """A clock for code that must not look at it."""

    def now_s(self) -> float:
        raise AssertionError("no storage needs the time")

    at = now_s


@pytest.fixture
def context(tmp_path: Path) -> ClientContext:
    return ClientContext(Stopped(), {}, Paths(tmp_path / "home", tmp_path / "cache"))


def test_uses_a_directory_in_place(tmp_path: Path, context: ClientContext) -> None:
    """Nothing is copied, and nothing is made."""
    models = tmp_path / "models"
    models.mkdir()
    staged = MountStorage().resolve(str(models), context)
    assert (staged.location, staged.kind) == (str(models), "in_place")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["models"]


def test_never_makes_a_missing_directory(tmp_path: Path, context: ClientContext) -> None:
    """A slip stays a slip: exit code 2, the code, and the part of the path that is there."""
    with pytest.raises(RepositoryError) as caught:
        MountStorage().resolve(str(tmp_path / "modles" / "v1"), context)
    assert (caught.value.code, caught.value.exit_code) == ("TARN-2200", 2)
    assert caught.value.found == f"{tmp_path}/modles/v1 does not exist; {tmp_path} does"
    assert list(tmp_path.iterdir()) == []


def test_refuses_a_file(tmp_path: Path, context: ClientContext) -> None:
    """An archive is no repository."""
    (tmp_path / "models.zip").write_bytes(b"PK")
    with pytest.raises(RepositoryError, match="is a file, not a directory"):
        MountStorage().resolve(str(tmp_path / "models.zip"), context)


def test_says_when_reading_fails(tmp_path: Path, context: ClientContext) -> None:
    """A circle of links is the system's refusal that root gets too."""
    (tmp_path / "circle").symlink_to("circle")
    with pytest.raises(StorageError, match="cannot be read: Too many levels") as caught:
        MountStorage().resolve(str(tmp_path / "circle"), context)
    assert caught.value.exit_code == 1


def test_names_the_directory_above_that_lets_nobody_pass(
    tmp_path: Path, context: ClientContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A right to the repository itself would not help; root passes everywhere, so it is played."""
    closed = tmp_path / "team files"
    (closed / "models").mkdir(parents=True)

    def denied(_path: object) -> NoReturn:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(os, "scandir", denied)
    monkeypatch.setattr(os, "access", lambda path, _mode: Path(path) != closed)
    with pytest.raises(StorageError) as caught:
        MountStorage().resolve(str(closed / "models"), context)
    assert caught.value.found.endswith(f"Permission denied at {closed}")
    assert caught.value.next_step.endswith(f"chmod a+x '{closed}'")


def test_claims_bare_paths_only() -> None:
    """The empty scheme is a path without one."""
    assert tarn_storages()["mount"].schemes == {""}
