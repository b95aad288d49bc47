"""Where the logs of a cluster lie on this machine: ``logs/master.log``, ``logs/<instance>/``."""

import re
from pathlib import Path

from tarn.errors import NotFoundError
from tarn.interfaces import LogTail
from tarn.triton.log_files import MOST_BYTES, last_lines, rotated

__all__ = ["log_tail", "logged", "logs_of"]

STDERR = "triton.stderr"
_INSTANCE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")


def logs_of(directory: Path, instance_id: str) -> tuple[Path, ...]:
    """Return the files of one log, oldest first; '' is the master's.

    Raises:
        NotFoundError: There is none; also for an id that is no instance's.
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
            next_step="`tarn logs --all` shows those that there are",
        )
    return found


def logged(directory: Path) -> tuple[str, ...]:
    """Return the ids of the instances that have a log, sorted."""
    found = (directory / "logs").glob(f"*/{STDERR}")
    return tuple(sorted(path.parent.name for path in found))


def log_tail(directory: Path, instance_id: str, lines: int) -> LogTail:
    """Return the end of one log; see `logs_of`."""
    return LogTail(*last_lines(logs_of(directory, instance_id), lines, MOST_BYTES))
