"""Folders that a killed Triton leaves in ``/tmp``.

Triton's Python back end makes ``/tmp/python_env_XXXXXX`` when it is loaded, unpacks models'
environments in it, and removes it only at an orderly end. YARN kills a container a quarter of a
second after the signal to end, so there the folder always stays. Its name does not say which
process made it. It is abandoned if all running Tritons of this user were started after it.
"""

import contextlib
import os
import time
from pathlib import Path

from tarn.process_table import age_s, pids_of

__all__ = ["remove_abandoned"]

_TMP = Path("/tmp")  # noqa: S108 (a constant in the back end)
_PATTERN = "python_env_*"
_BACK_END = b"/libtriton_python.so"
# The kernel's number (``PROC_PID_INIT_INO``) of the namespace in which all processes are visible.
# From a container's, a Triton outside that shares this ``/tmp`` would not be.
_PROCESSES, _OF_ALL = Path("/proc/self/ns/pid"), 0xEFFFFFFC
# The age of a process comes from the kernel, that of a folder from a clock that may be set.
_CLOCK_MAY_STEP_S = 86400.0


def remove_abandoned(tmp: Path = _TMP) -> None:
    """Remove each empty folder of this user whose Triton has ended; errors are ignored.

    Folders that are younger than a running Triton, or at most a day older, are kept.
    """
    with contextlib.suppress(OSError):  # an error here must not keep Triton from starting
        if _PROCESSES.stat().st_ino == _OF_ALL:
            _remove_abandoned(tmp)


def _remove_abandoned(tmp: Path) -> None:
    # The folders first: the process that made one of them has already loaded the back end.
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
    """Return whether *pid* is a Triton with the Python back end."""
    process = Path(f"/proc/{pid}")
    try:
        return _BACK_END in (process / "maps").read_bytes()
    except PermissionError:  # a process with more capabilities than ours, such as process 1
        return (process / "comm").read_bytes() == b"tritonserver\n"
    except (FileNotFoundError, ProcessLookupError):
        return False
