"""What an instance or a cluster leaves behind; exactly that, and nothing else, is removed."""

import contextlib
import json
import shutil
from pathlib import Path

import attrs

from tarn.descriptors import shortage
from tarn.domain.master_files import LAST_PORT, MASTER_FILES, SCRAPE_TOKEN
from tarn_plugins.runtime.local import epoch
from tarn_plugins.runtime.local.procfs import kill, processes_of
from tarn_plugins.runtime.local.records import ProcessRecord, Records

__all__ = ["KeeperNote", "clear", "read_keeper", "remove_files"]

_SHM = Path("/dev/shm")  # noqa: S108 (POSIX shared memory, not a temporary folder)
_FILES = ("ref.json", LAST_PORT, SCRAPE_TOKEN, *MASTER_FILES)


@attrs.frozen
class KeeperNote:
    """What the keeper says of itself in ``keeper.json``."""

    pid: int
    start: int
    exits: tuple[int, ...]
    """Exit codes of the masters that it restarted, the last ten."""


def read_keeper(directory: Path) -> KeeperNote | None:
    """Return the keeper's note; None when there is none, or none that can be read."""
    try:
        note = json.loads((directory / "keeper.json").read_bytes())
        codes = tuple(int(end["code"]) for end in note["exits"])
        return KeeperNote(note["pid"], note["start"], codes)
    except (OSError, ValueError, RecursionError, KeyError, TypeError) as error:
        if shortage(error):
            raise
        return None


def clear(directory: Path, record: ProcessRecord | None = None) -> None:
    """End the processes that an ended instance left, and remove its shared memory.

    *record* None: those of every instance of the cluster in *directory*.
    """
    only = None if record is None else record.instance_id
    for process in processes_of(directory):
        if only in (None, process.instance_id):
            kill(process.pid, process.start)
    records = (record,) if record else Records(directory / "instances").read()[0]
    for prefix in {r.shm_prefix for r in records if r.shm_prefix}:
        for region in _SHM.glob(f"*{prefix}*"):
            with contextlib.suppress(OSError):
                region.unlink()


def remove_files(directory: Path) -> None:
    """Remove what a cluster keeps in *directory*, but for its logs. Idempotent."""
    shutil.rmtree(directory / "instances", ignore_errors=True)
    named = (directory / name for name in _FILES)
    globs = ("state-*.json", "kept-*", ".*.new")
    for path in (*named, *(path for glob in globs for path in directory.glob(glob))):
        path.unlink(missing_ok=True)
    epoch.forget(directory)
