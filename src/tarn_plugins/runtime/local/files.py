"""The files of a cluster's directory: instance records, the reference, and logs.

``instances/`` has one file for each instance, written before its process exists and removed after
its last report. ``ref.json`` tells clients where the master is. The master logs to
``logs/master.log``, and each instance to ``logs/<instance>/``.
"""

import contextlib
import json
import os
import re
import shutil
from collections.abc import Set as AbstractSet
from pathlib import Path

import attrs

from tarn.descriptors import shortage
from tarn.domain import Endpoint
from tarn.errors import NotFoundError
from tarn.interfaces import ClusterRef, LogTail
from tarn.plain.master_files import LAST_PORT, MASTER_FILES, SCRAPE_TOKEN, ref_in, written_ref
from tarn.plain.structure import from_record, to_record
from tarn.triton.log_files import MOST_BYTES, last_lines, rotated
from tarn_plugins.runtime.local.machine import alive, kill, processes_of
from tarn_plugins.runtime.local.processes import LOG
from tarn_plugins.runtime.local.state import forget_epoch, replace_file

__all__ = [
    "ProcessRecord",
    "Records",
    "clear",
    "living_ref",
    "log_tail",
    "logged",
    "logs_of",
    "read_keeper",
    "read_ref",
    "remove_files",
    "remove_oldest",
    "write_ref",
]


# How many ended instances keep their logs, over all clusters of one name.
KEPT = 20
# The most that these logs may hold together.
KEPT_MIB = 1024
_INSTANCE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")

_SHM = Path("/dev/shm")  # noqa: S108 (POSIX shared memory, not a temporary folder)
_FILES = ("ref.json", LAST_PORT, SCRAPE_TOKEN, *MASTER_FILES)


@attrs.frozen
class ProcessRecord:
    """What a later master needs to adopt an instance."""

    instance_id: str
    spec_hash: str
    endpoint: Endpoint
    shm_prefix: str
    exit_timeout_s: float
    started_at: float
    """Wall time, Unix seconds."""
    gpus: tuple[str, ...] = ()
    """UUIDs of the GPUs that it was given."""
    pid: int | None = None
    """None until its process was started."""
    start: int | None = None
    """Clock ticks since boot at which the process started."""
    stop_at: float | None = None
    """Wall time at which its stop was requested; None: it should run."""


@attrs.frozen
class Records:
    """The folder ``instances`` of a cluster's directory."""

    folder: Path

    def write(self, record: ProcessRecord) -> None:
        """Write *record* in place of an older one of the same instance; fsynced."""
        self.folder.mkdir(mode=0o700, exist_ok=True)
        data = json.dumps(to_record(record)).encode()
        replace_file(self._path(record.instance_id), data)

    def remove(self, instance_id: str) -> None:
        """Remove the record of an instance. Idempotent."""
        self._path(instance_id).unlink(missing_ok=True)

    def read(self) -> tuple[tuple[ProcessRecord, ...], tuple[str, ...]]:
        """Return the readable records, by id, and the names of unreadable files.

        Raises:
            OSError: This process lacks a resource, such as descriptors, for reading.
        """
        records: list[ProcessRecord] = []
        damaged: list[str] = []
        for path in sorted(self.folder.glob("*.json")):
            try:
                records.append(from_record(ProcessRecord, json.loads(path.read_bytes())))
            # Python's JSON raises a RecursionError for a file that is nested too deeply.
            except (OSError, ValueError, RecursionError) as error:
                if shortage(error):  # a lack of descriptors does not make a file damaged
                    raise
                damaged.append(path.name)
        return tuple(records), tuple(damaged)

    def _path(self, instance_id: str) -> Path:
        return self.folder / f"{instance_id}.json"


def write_ref(directory: Path, ref: ClusterRef) -> None:
    """Write *ref* to *directory*."""
    replace_file(directory / "ref.json", written_ref(ref))


def read_ref(directory: Path) -> ClusterRef | None:
    """Return the written reference; None when it is missing or unreadable."""
    try:
        return ref_in((directory / "ref.json").read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        if shortage(error):
            raise
        return None


def living_ref(directory: Path) -> ClusterRef | None:
    """Return the written reference if its master is alive, else None."""
    ref = read_ref(directory)
    return ref if ref is not None and alive(ref.pid, ref.pid_started) else None


def logs_of(directory: Path, instance_id: str) -> tuple[Path, ...]:
    """Return the files of one log, oldest first; the id '' names the master's.

    Raises:
        NotFoundError: There is no such log, or *instance_id* is malformed.
    """
    folder = directory / "logs"
    if not instance_id:
        found = rotated(folder / "master.log")
    elif _INSTANCE.fullmatch(instance_id):
        found = rotated(folder / instance_id / LOG)
    else:
        found = ()
    if not found:
        whose = f"'{instance_id}'" if instance_id else "the master"
        raise NotFoundError(
            f"there is no log of {whose}",
            where=directory.name,
            next_step="`tarn logs --all` shows the existing ones; TARN keeps the logs of the last "
            f"{KEPT} instances that ended, at most {KEPT_MIB} MiB",
        )
    return found


def logged(directory: Path) -> tuple[str, ...]:
    """Return the ids of the instances that have a log, sorted."""
    found = (directory / "logs").glob(f"*/{LOG}")
    return tuple(sorted(path.parent.name for path in found))


def log_tail(directory: Path, instance_id: str, lines: int) -> LogTail:
    """Return the end of one log; see `logs_of`."""
    return LogTail(*last_lines(logs_of(directory, instance_id), lines, MOST_BYTES))


def remove_oldest(directory: Path, running: AbstractSet[str]) -> None:
    """Remove all logs except those of *running* instances and the last `KEPT` ended ones.

    Older ones of the latter go, too, while these hold more than `KEPT_MIB` together. The log of the
    instance that ended last always stays.
    """
    ended = [
        (max(file.st_mtime for file in files), sum(file.st_size for file in files), folder)
        for folder in (directory / "logs").glob("*")
        if folder.name not in running and (files := _files(folder))
    ]
    left = KEPT_MIB * 2**20
    for place, (_, size, folder) in enumerate(sorted(ended, reverse=True)):
        left -= size
        if place >= KEPT or (left < 0 and place):
            shutil.rmtree(folder, ignore_errors=True)


def _files(folder: Path) -> list[os.stat_result]:
    """Return the files of an instance's logs; [] if *folder* is not a folder."""
    try:
        return [file.stat() for file in folder.iterdir()] if folder.is_dir() else []
    except FileNotFoundError:
        return []


@attrs.frozen
class KeeperNote:
    """The content of ``keeper.json``."""

    pid: int
    start: int
    exits: tuple[int, ...]
    """Exit codes of the last ten masters that it restarted."""


def read_keeper(directory: Path) -> KeeperNote | None:
    """Return the keeper's note; None when it is missing or unreadable."""
    try:
        note = json.loads((directory / "keeper.json").read_bytes())
        codes = tuple(int(end["code"]) for end in note["exits"])
        return KeeperNote(note["pid"], note["start"], codes)
    except (OSError, ValueError, RecursionError, KeyError, TypeError) as error:
        if shortage(error):
            raise
        return None


def clear(directory: Path, record: ProcessRecord | None = None) -> None:
    """Kill the processes left by an ended instance, and remove its shared memory.

    Without *record*, do so for every instance of the cluster in *directory*.
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
    """Remove a cluster's files from *directory*, except its logs. Idempotent."""
    shutil.rmtree(directory / "instances", ignore_errors=True)
    named = (directory / name for name in _FILES)
    globs = ("state-*.json", "kept-*", ".*.new")
    for path in (*named, *(path for glob in globs for path in directory.glob(glob))):
        path.unlink(missing_ok=True)
    forget_epoch(directory)
