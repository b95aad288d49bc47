"""Checks whether a path can be read, in a child process that may be left behind.

A process that reads a file on a mount whose server is away (NFS, FUSE) waits until it is back, and
no signal ends that. So a child process reads first, and we give up on it if it hangs.
"""

import contextlib
import math
import os
import re
import select
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import attrs

from tarn.interfaces import Finding

__all__ = ["ANSWER_WITHIN_S", "MountedFilesystem", "mount_of", "unanswered"]

ANSWER_WITHIN_S = 10.0
"""For each directory and each configuration; a server that is only slow needs less than one."""
# How many the child reads: enough to get past answers from a cache.
MOST_DIRECTORIES = 200

_MOUNTS = Path("/proc/self/mountinfo")
# The program of the child. It writes a dot for each directory that was read, or raised an error.
_LOOK = """
import os, sys
pending, most = [sys.argv[1]], int(sys.argv[2])
while pending and most:
    most -= 1
    try:
        with os.scandir(pending.pop()) as listed:
            for entry in listed:
                if entry.is_dir():
                    pending.insert(0, entry.path)
                elif entry.name == "config.pbtxt" and entry.is_file():
                    with open(entry.path, "rb") as file:
                        file.read(1)
    except OSError:
        pass
    os.write(1, b".")
"""


@attrs.frozen
class MountedFilesystem:
    """A mounted file system."""

    point: str
    kind: str
    """Its type as the kernel calls it: ``nfs4``, ``fuse.sshfs``, ``ext4``."""
    source: str

    def __str__(self) -> str:
        """Return it for people."""
        return f"the mount {self.point} ({self.kind} of {self.source})"


def mount_of(path: Path, mountinfo: str | None = None) -> MountedFilesystem | None:
    """Return the mount of *path*, by its text alone, without accessing it."""
    try:
        lines = (os.fsdecode(_MOUNTS.read_bytes()) if mountinfo is None else mountinfo).split("\n")
    except OSError:
        return None
    found: MountedFilesystem | None = None
    for line in filter(None, lines):
        left, _, right = line.partition(" - ")
        kind, source = right.split()[:2]
        point = re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), left.split()[4])
        inside = path == Path(point) or Path(point) in path.parents
        if inside and (found is None or len(point) >= len(found.point)):  # the last one covers
            found = MountedFilesystem(point, kind, source)
    return found


def unanswered(
    path: Path,
    where: str,
    *,
    within_s: float = ANSWER_WITHIN_S,
    look: Sequence[str] = (sys.executable, "-I", "-S", "-c", _LOOK),
) -> Finding | None:
    """Return a finding if reading *path* hangs; None if it ends, with or without an error.

    *where* is the key that names the path. *look* is the command of the child; the path and the
    number of directories are added to it.
    """
    path = path.absolute()
    child = subprocess.Popen(
        [*look, str(path), str(MOST_DIRECTORIES)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # an interrupt at the terminal is handled here
    )
    assert child.stdout is not None
    try:
        answered = _hear(child.stdout.fileno(), within_s)
    finally:
        _leave(child)
    if answered:
        return None
    mount = mount_of(path)
    return Finding(
        "TARN-3205",
        where,
        f"{mount or path} does not answer: {path} could not be read within {within_s:g} s",
        "Bring its server back, or unmount it (umount -l) and name another path",
    )


def _hear(signs: int, within_s: float) -> bool:
    """Return whether the child ended without a silence longer than *within_s*."""
    poll, end_s = (
        select.poll(),
        time.monotonic() + within_s,
    )  # `select` fails beyond descriptor 1023
    poll.register(signs, select.POLLIN)
    while (left_s := end_s - time.monotonic()) > 0:
        if poll.poll(math.ceil(left_s * 1000)):
            if not os.read(signs, 4096):
                return True
            end_s = time.monotonic() + within_s
    return False


def _leave(child: "subprocess.Popen[bytes]") -> None:
    """Kill the child, and let a daemon thread wait for it, since it may hang in the kernel."""
    with contextlib.suppress(ProcessLookupError):
        child.kill()
    if child.stdout is not None:
        child.stdout.close()
    threading.Thread(target=child.wait, name="left-behind", daemon=True).start()
