"""Where the logs of a cluster lie on this machine: ``logs/master.log``, ``logs/<instance>/``."""

import os
import re
import shutil
from collections.abc import Set as AbstractSet
from pathlib import Path

from tarn.errors import NotFoundError
from tarn.interfaces import LogTail
from tarn.triton.log_files import MOST_BYTES, last_lines, rotated

__all__ = ["KEPT", "KEPT_MIB", "log_tail", "logged", "logs_of", "remove_oldest"]

KEPT = 20
"""Instances that ended of which the logs are kept, of all clusters of one name."""
KEPT_MIB = 1024
"""Of these logs altogether."""
STDERR = "triton.stderr"
_INSTANCE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")


def logs_of(directory: Path, instance_id: str) -> tuple[Path, ...]:
    """Return the files of one log, oldest first; '' is the master's.

    Raises:
        NotFoundError: There is none; also for an id that is not an instance's.
    """
    folder = directory / "logs"
    if not instance_id:
        found = rotated(folder / "master.log")
    elif _INSTANCE.fullmatch(instance_id):
        found = rotated(folder / instance_id / STDERR)
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
    found = (directory / "logs").glob(f"*/{STDERR}")
    return tuple(sorted(path.parent.name for path in found))


def log_tail(directory: Path, instance_id: str, lines: int) -> LogTail:
    """Return the end of one log; see `logs_of`."""
    return LogTail(*last_lines(logs_of(directory, instance_id), lines, MOST_BYTES))


def remove_oldest(directory: Path, running: AbstractSet[str]) -> None:
    """Remove the logs of all instances but the *running* and the last `KEPT` that ended.

    Of the latter, too, once they have more than `KEPT_MIB`; the one that ended last stays.
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
    """Return the files of an instance's logs; none where it is something else."""
    try:
        return [file.stat() for file in folder.iterdir()] if folder.is_dir() else []
    except FileNotFoundError:
        return []
