"""TARN's own folders, which only the user may write to; and errors of full file systems.

A user who may write to a folder can replace a program or a token in it, which the owner would then
run or send. So folders are made with mode 0700, whatever the umask, and a folder that others own or
may write to is refused, as ssh refuses such a ``~/.ssh``.
"""

import contextlib
import errno
import grp
import itertools
import os
import pwd
import shlex
import shutil
import stat
from pathlib import Path

from tarn.descriptors import lack_in
from tarn.errors import LaunchError, RefusedError

__all__ = ["no_room", "private_folder", "refuse_shared"]

_STEPS = {
    errno.ENOSPC: "Free some space",
    errno.EDQUOT: "Free some space",
    errno.EFBIG: "Raise it: ulimit -f unlimited",
    errno.EROFS: "Mount it writable",
}
"""What a person can do about an error of writing; `tarn.descriptors` has the text about it."""


def private_folder(path: Path, mode: int = 0o700) -> Path:
    """Make *path* and its missing parents with *mode*, and return it.

    Raises:
        RefusedError: It exists, and others own it or may write to it (code TARN-2104).
        OSError: It cannot be made.
    """
    missing = itertools.takewhile(lambda folder: not folder.exists(), (path, *path.parents))
    for folder in reversed([*missing]):
        with contextlib.suppress(FileExistsError):  # another process was first
            folder.mkdir(mode)
    _refuse(path)
    return path


def refuse_shared(path: Path, home: Path | None = None) -> None:
    """Refuse *path* if others could replace it, or a folder above it.

    Missing folders are skipped; links and their targets are both checked.

    Args:
        path: An absolute path.
        home: The user's home; folders above it are not checked.

    Raises:
        RefusedError: Others own a folder or may write to it (code TARN-2104).
    """
    for one in dict.fromkeys((path, path.resolve())):
        for folder in (one, *one.parents):
            if folder == Path(folder.root):
                break  # in a container its owner may be unknown
            with contextlib.suppress(FileNotFoundError, NotADirectoryError, PermissionError):
                _refuse(folder)
            if folder == home:
                break


def _refuse(folder: Path) -> None:
    found = folder.stat()
    if found.st_uid not in (0, os.geteuid()):
        raise _refusal(
            folder,
            f"belongs to {_user(found.st_uid)}, who can replace what TARN keeps and runs there",
            "Name a folder of your own in TARN_HOME or XDG_CACHE_HOME",
        )
    if _open(folder, found):
        raise _refusal(
            folder,
            f"other users may write to it (mode {stat.S_IMODE(found.st_mode):04o}), and so replace "
            "what TARN keeps and runs there",
            f"Check that everything in it is yours, then: chmod go-w {shlex.quote(str(folder))}",
        )


def _open(folder: Path, found: os.stat_result) -> bool:
    if found.st_mode & stat.S_ISVTX:  # as /tmp: nobody can replace the files of others
        return False
    if found.st_mode & stat.S_IWOTH:
        return True
    return bool(found.st_mode & stat.S_IWGRP) and not _alone(folder, found)


def _alone(folder: Path, found: os.stat_result) -> bool:
    """Return whether the group has no other member."""
    # Systems with a umask of 002 give each user a group.
    with contextlib.suppress(OSError):
        if "system.posix_acl_access" in os.listxattr(folder):
            return False  # with an ACL, the bits of the group are the mask of all its entries
    if found.st_gid == 0:
        return True
    user = _user(found.st_uid)
    try:
        group = grp.getgrgid(found.st_gid)
    except KeyError:
        return found.st_gid == found.st_uid
    return group.gr_name == user and set(group.gr_mem) <= {user}


def _user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"the user {uid}"


def _refusal(folder: Path, found: str, next_step: str) -> RefusedError:
    return RefusedError(found, code="TARN-2104", where=str(folder), next_step=next_step)


def no_room(error: OSError, where: Path | None = None) -> LaunchError | None:
    """Return the error for a file system without room; None if *error* has another reason.

    Args:
        error: The error of writing a file.
        where: The file or folder; None for the one that *error* names.
    """
    step = _STEPS.get(error.errno or 0)
    if step is None:
        return None
    place = where or (Path(error.filename) if isinstance(error.filename, str) else None)
    found = lack_in(error, starting=True) or "the file system is read-only"
    if error.errno == errno.ENOSPC:
        found += _free(place)
    return LaunchError(
        "client",
        f"cannot be written: {found}",
        code="TARN-2114",
        where=str(place or "a file"),
        next_step=f"{step}, or name another folder (TARN_HOME, XDG_CACHE_HOME, TMPDIR)",
    )


def _free(place: Path | None) -> str:
    there = [one for one in (place, *place.parents) if one.exists()] if place else []
    return f", {shutil.disk_usage(there[0]).free} bytes are free" if there else ""
