"""What ``/proc`` says of processes; one in the middle of ``exec`` is not missed."""

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

__all__ = ["age_s", "environment_of", "pids_of", "start_ticks"]

_PROC = Path("/proc")
_FIRST_AFTER_NAME, _STARTED, _SIZE, _END_OF_ENVIRONMENT = 3, 22, 23, 51
"""Fields of ``/proc/<pid>/stat``, counted from 1 as in proc(5)."""
_EXEC_TAKES_S, _PAUSE_S = 1.0, 0.0005
"""How long ``exec`` may take at most; reading a large program from a slow disk is part of it."""
_READINGS = 3
"""``exec`` may begin or end between two looks: so many empty ones outside of it are believed."""


def pids_of(user: int) -> Iterator[int]:
    """Yield the pid of each process that *user* (a uid) runs now."""
    for entry in _PROC.iterdir():
        if entry.name.isdigit():
            try:
                owner = entry.stat().st_uid
            except FileNotFoundError:  # it ended while we looked
                continue
            if owner == user:
                yield int(entry.name)


def environment_of(pid: int) -> tuple[bytes, ...]:
    """Return the environment that *pid* was started with, each as ``NAME=value``.

    While a process becomes another program (``exec``), the kernel shows an empty environment. This
    waits until that is over, for a second at most: a search by environment would miss it else.

    Raises:
        OSError: It has ended, or is not ours to read.
    """
    deadline_s = time.monotonic() + _EXEC_TAKES_S
    while time.monotonic() < deadline_s:
        for _ in range(_READINGS):
            if text := (_PROC / str(pid) / "environ").read_bytes():
                return tuple(pair for pair in text.split(b"\0") if pair)
            if _in_exec(pid):
                break
        else:
            return ()
        threading.Event().wait(_PAUSE_S)  # the kernel tells nobody
    return ()


def age_s(pid: int) -> float:
    """Return for how many seconds *pid* has been running, by a clock that nobody sets.

    One that has ended in the meantime is as old as the machine.
    """
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
    """Say whether *pid* has memory already, and its environment has no place in it yet."""
    size, end = _numbers(pid, _SIZE, _END_OF_ENVIRONMENT)
    return size > 0 and end == 0


def _fields(pid: int) -> list[str]:
    """Return the fields of its ``stat`` from `_FIRST_AFTER_NAME` on: a name may have spaces."""
    text = (_PROC / str(pid) / "stat").read_text(errors="replace")
    return text.rpartition(")")[2].split()


def _numbers(pid: int, *fields: int) -> list[int]:
    values = _fields(pid)
    return [int(values[field - _FIRST_AFTER_NAME]) for field in fields]
