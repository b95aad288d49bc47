"""A mount whose server is away, for real: a FUSE file system that nobody serves. Needs root."""

import contextlib
import ctypes
import os
from collections.abc import Iterator
from pathlib import Path

__all__ = ["hanging_mount"]

_LIBC = ctypes.CDLL(None, use_errno=True)
_NOSUID_NODEV, _DETACH = 0x2 | 0x4, 0x2


@contextlib.contextmanager
def hanging_mount(point: Path) -> Iterator[Path]:
    """Mount at *point* what answers nothing; whoever waits for it is freed at the end.

    Raises:
        OSError: This user, kernel or container cannot mount it.
    """
    point.mkdir(parents=True, exist_ok=True)
    device = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
    try:
        options = f"fd={device},rootmode=40000,user_id={os.getuid()},group_id={os.getgid()}"
        kind = b"fuse.gone"
        if _LIBC.mount(b"nobody", bytes(point), kind, _NOSUID_NODEV, options.encode()):
            raise OSError(ctypes.get_errno(), "mount")
        try:
            yield point
        finally:
            _LIBC.umount2(bytes(point), _DETACH)
    finally:
        os.close(device)  # ends the connection: what waits gets ENOTCONN
