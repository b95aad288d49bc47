"""Folders that a killed Triton leaves in ``/tmp``.

Triton's Python back end makes ``/tmp/python_env_XXXXXX`` when it is loaded, unpacks models'
environments in it, and removes it in an orderly end only. YARN kills a container a quarter of a
second after it asked it to end, so there the folder always stays. Its name says nothing of who made
it. It is nobody's once every Triton of this user that runs now has begun after it.
"""

import contextlib
import os
import time
from pathlib import Path

from tarn.process_table import age_s, pids_of

__all__ = ["remove_abandoned"]

_TMP = Path("/tmp")  # noqa: S108 (the back end has this path in its program)
_PATTERN = "python_env_*"
_BACK_END = b"/libtriton_python.so"
_PROCESSES, _OF_ALL = Path("/proc/self/ns/pid"), 0xEFFFFFFC
"""The kernel's number (``PROC_PID_INIT_INO``) of the namespace in which every process is seen. In
another one, a container's, a Triton outside that shares this ``/tmp`` would not be."""
_CLOCK_MAY_STEP_S = 86400.0
"""A process's start is told by the kernel, a folder's age by a clock that somebody may set."""


def remove_abandoned(tmp: Path = _TMP) -> None:
    """Remove each empty folder of this user whose Triton has ended; what cannot be is left.

    A Triton that runs keeps the folders that are younger than itself, and for a day older ones.
    """
    with contextlib.suppress(OSError):  # what cannot be looked at keeps no Triton from its start
        if _PROCESSES.stat().st_ino == _OF_ALL:
            _remove_abandoned(tmp)


def _remove_abandoned(tmp: Path) -> None:
    # The folders first: who made one of them has loaded the back end already.
    empty = [path for path in tmp.glob(_PATTERN) if _ours_and_empty(path)]
    if not empty:
        return
    ages_s = [age_s(pid) for pid in pids_of(os.getuid()) if _has_back_end(pid)]
    kept_s = max(ages_s) + _CLOCK_MAY_STEP_S if ages_s else float("-inf")
    for path in empty:
        with contextlib.suppress(OSError):
            if time.time() - path.stat().st_mtime > kept_s:
                path.rmdir()


def _ours_and_empty(path: Path) -> bool:
    try:
        return path.lstat().st_uid == os.getuid() and path.is_dir() and not any(path.iterdir())
    except OSError:
        return False


def _has_back_end(pid: int) -> bool:
    """Say whether *pid* is a Triton with the Python back end; one that hides is known by its name.

    The memory of a process with more capabilities than ours, such as process 1, is not shown.
    """
    process = Path(f"/proc/{pid}")
    try:
        return _BACK_END in (process / "maps").read_bytes()
    except PermissionError:
        return (process / "comm").read_bytes() == b"tritonserver\n"
    except (FileNotFoundError, ProcessLookupError):
        return False
