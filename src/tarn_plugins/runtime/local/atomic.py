"""Files that are either the old one or the new one, whenever the power goes."""

import contextlib
import os
from pathlib import Path

__all__ = ["replace_file"]


def replace_file(
    path: Path,
    data: bytes,
    *,
    mode: int = 0o600,
    guard: contextlib.AbstractContextManager[None] | None = None,
) -> None:
    """Make *path* hold *data*: written next to it, fsynced, renamed over it.

    The renaming alone happens inside *guard*: the slow part holds no lock. An ``OSError`` (a full
    disk) or a refusal of the guard leaves the old content, and no temporary file.
    """
    beside = path.with_name(f".{path.name}.{os.getpid()}.new")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode)
    try:
        try:
            _write(descriptor, data)
        finally:
            os.close(descriptor)
        with guard or contextlib.nullcontext():
            beside.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            beside.unlink()
        raise
    _sync_directory(path.parent)


def _write(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
    os.fsync(descriptor)


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
