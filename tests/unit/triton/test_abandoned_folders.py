"""What killed Tritons leave in /tmp is removed, and nothing that one uses which runs."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tarn import process_table
from tarn.triton import abandoned
from tarn.triton.abandoned import remove_abandoned

DAY_S = 86400.0
MAPS = """
import mmap, sys
with open(sys.argv[1], "rb") as file:
    mapped = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
print("mapped", flush=True)
sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """These tests may run in a container, whose processes are all there are for them."""
    monkeypatch.setattr(abandoned, "_OF_ALL", Path("/proc/self/ns/pid").stat().st_ino)


@pytest.fixture
def triton(tmp_path: Path) -> Iterator[Callable[[], None]]:
    """Return a starter of processes that have Triton's Python back end in their memory."""
    library = tmp_path / "libtriton_python.so"
    library.write_bytes(b"\0" * 4096)
    running = []

    def start() -> None:
        argv = [sys.executable, "-ISc", MAPS, str(library)]
        one = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        running.append(one)
        assert one.stdout.readline() == b"mapped\n"

    yield start
    for one in running:
        one.communicate()


def folder(tmp: Path, name: str, age_s: float = 0.0) -> Path:
    path = tmp / f"python_env_{name}"
    path.mkdir(mode=0o700)
    made = time.time() - age_s
    os.utime(path, (made, made))
    return path


def test_a_running_triton_keeps_what_may_be_its_own(tmp_path: Path, triton: Callable) -> None:
    """Younger than itself, and a day more, for clocks are set."""
    triton()
    own, older, oldest = (folder(tmp_path, str(n), n) for n in (0.0, DAY_S - 60, 9 * DAY_S))
    remove_abandoned(tmp_path)
    assert own.exists()
    assert older.exists()
    assert not oldest.exists()


def test_processes_that_cannot_be_looked_at_keep_everything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A Triton that is about to start does so all the same."""
    old = folder(tmp_path, "old", 9 * DAY_S)
    monkeypatch.setattr(process_table, "_PROC", tmp_path / "proc")
    remove_abandoned(tmp_path)
    assert old.exists()


def test_only_empty_folders_of_that_name_go(tmp_path: Path) -> None:
    """An unpacked environment, a file and other folders stay whatever their age."""
    full, empty = folder(tmp_path, "full", 9 * DAY_S), folder(tmp_path, "empty", 9 * DAY_S)
    (full / "bin").mkdir()
    file, other = tmp_path / "python_env_file", tmp_path / "python_enw_other"
    file.touch()
    other.mkdir()
    link = tmp_path / "python_env_link"
    link.symlink_to(other)
    remove_abandoned(tmp_path)
    assert [full.exists(), file.exists(), other.exists(), link.is_symlink()] == [True] * 4
    # a Triton of another test may run on this machine, but none for nine days
    assert not empty.exists()


def test_where_others_are_not_seen_nothing_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A container may share /tmp with a Triton that it cannot see."""
    monkeypatch.setattr(abandoned, "_OF_ALL", 1)
    empty = folder(tmp_path, "empty", 9 * DAY_S)
    remove_abandoned(tmp_path)
    assert empty.exists()


def test_a_process_that_hides_its_memory_keeps_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As process 1 does in some containers; of a Triton that hides, the folders are kept."""
    hidden = {"maps": PermissionError(), "comm": b"systemd\n"}
    read = Path.read_bytes

    def shown(path: Path) -> bytes:
        if path.parent != Path("/proc/self-hidden"):
            return read(path)
        if isinstance(one := hidden[path.name], PermissionError):
            raise one
        return one

    monkeypatch.setattr(Path, "read_bytes", shown)
    monkeypatch.setattr(abandoned, "pids_of", lambda _user: ["self-hidden"])
    monkeypatch.setattr(abandoned, "age_s", lambda _pid: 60.0)
    hidden["comm"] = b"tritonserver\n"
    young = folder(tmp_path, "young")
    remove_abandoned(tmp_path)
    assert young.exists()
    hidden["comm"] = b"systemd\n"
    remove_abandoned(tmp_path)
    assert not young.exists()
