"""Read processes from ``/proc``, also those in the middle of ``exec``."""

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

__all__ = ["age_s", "environment_of", "pids_of", "start_ticks"]

_PROC = Path("/proc")
# Fields of ``/proc/<pid>/stat``, counted from 1 as in proc(5).
_FIRST_AFTER_NAME, _STARTED, _SIZE, _END_OF_ENVIRONMENT = 3, 22, 23, 51
# Longest wait for an ``exec``, which may read a large program from a slow disk.
_EXEC_TAKES_S, _PAUSE_S = 1.0, 0.0005
# Empty environments that are read before one counts: ``exec`` may begin or end between two reads.
_READINGS = 3


def pids_of(user: int) -> Iterator[int]:
    """Yield the pid of each process that *user* (a uid) runs now."""
    for entry in _PROC.iterdir():
        if entry.name.isdigit():
            try:
                owner = entry.stat().st_uid
            except FileNotFoundError:  # it has ended meanwhile
                continue
            if owner == user:
                yield int(entry.name)


def environment_of(pid: int) -> tuple[bytes, ...]:
    """Return the variables with which *pid* was started, each as ``NAME=value``.

    Raises:
        OSError: The process has ended, or belongs to another user.
    """
    # During ``exec`` the kernel shows an empty environment, and a search by environment would miss
    # the process. So this waits until ``exec`` is over.
    deadline_s = time.monotonic() + _EXEC_TAKES_S
    while time.monotonic() < deadline_s:
        for _ in range(_READINGS):
            if text := (_PROC / str(pid) / "environ").read_bytes():
                return tuple(pair for pair in text.split(b"\0") if pair)
            if _in_exec(pid):
                break
        else:
            return ()
        threading.Event().wait(_PAUSE_S)  # the kernel has no event for the end of ``exec``
    return ()


def age_s(pid: int) -> float:
    """Return for how many seconds *pid* has been running, by the time since boot."""
    # A process that has ended meanwhile counts as old as the machine.
    now_s = time.clock_gettime(time.CLOCK_BOOTTIME)
    try:
        return now_s - _numbers(pid, _STARTED)[0] / os.sysconf("SC_CLK_TCK")
    except OSError:
        return now_s


def start_ticks(pid: int) -> int | None:
    """Return when *pid* started, in clock ticks since boot; None when it is gone or a zombie."""
    try:
        fields = _fields(pid)
    except OSError:
        return None
    return None if fields[0] in "ZX" else int(fields[_STARTED - _FIRST_AFTER_NAME])


def _in_exec(pid: int) -> bool:
    """Tell whether *pid* has memory already, but no place for its environment yet."""
    size, end = _numbers(pid, _SIZE, _END_OF_ENVIRONMENT)
    return size > 0 and end == 0


def _fields(pid: int) -> list[str]:
    """Return the fields of its ``stat`` from `_FIRST_AFTER_NAME` on."""
    # Split behind the last parenthesis, since the name before it may have spaces.
    text = (_PROC / str(pid) / "stat").read_text(errors="replace")
    return text.rpartition(")")[2].split()


def _numbers(pid: int, *fields: int) -> list[int]:
    values = _fields(pid)
    return [int(values[field - _FIRST_AFTER_NAME]) for field in fields]
