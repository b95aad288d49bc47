"""The logs of instances that ended: the newest are kept, by count and by bytes."""

import os
from pathlib import Path

import pytest

from tarn.errors import NotFoundError
from tarn_plugins.runtime.local import files
from tarn_plugins.runtime.local.files import KEPT, logged, logs_of, remove_oldest


def ended(directory: Path, number: int, size: int = 1) -> str:
    """Leave the log of an instance that ended in this second."""
    folder = directory / "logs" / f"x-{number:04}"
    folder.mkdir(parents=True)
    (folder / "triton.stderr").write_bytes(bytes(size))
    os.utime(folder / "triton.stderr", (number, number))
    return folder.name


def test_the_newest_that_ended_are_kept_beside_those_that_run(tmp_path: Path) -> None:
    """A hundred scale cycles leave a bounded number; the master's log and others' files stay."""
    ids = [ended(tmp_path, number) for number in range(1, 101)]
    (tmp_path / "logs" / "master.log").touch()
    (tmp_path / "logs" / "x-0500").mkdir()
    remove_oldest(tmp_path, {"x-0001"})
    assert list(logged(tmp_path)) == ["x-0001", *ids[-KEPT:]]
    assert (tmp_path / "logs" / "master.log").exists()
    assert (tmp_path / "logs" / "x-0500").exists()
    with pytest.raises(NotFoundError, match=f"keeps the logs of the last {KEPT} instances"):
        logs_of(tmp_path, "x-0050")


def test_they_have_a_bound_in_bytes_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last one stays, however long it is: it says why the last one ended."""
    monkeypatch.setattr(files, "KEPT_MIB", 1)
    for number in range(1, 5):
        ended(tmp_path, number, 2**19)
    remove_oldest(tmp_path, frozenset())
    assert logged(tmp_path) == ("x-0003", "x-0004")
    ended(tmp_path, 5, 2**21)
    remove_oldest(tmp_path, frozenset())
    assert logged(tmp_path) == ("x-0005",)
