"""The packed environment that a spec names: looked at, and brought to where the nodes read it.

::

    <staging>/.environments/<digest>.tar.gz     0644

As with repositories the digest is the content's: every cluster of the user shares one copy, and a
second `up` copies nothing.
"""

import hashlib
from pathlib import Path
from typing import Protocol

from tarn.errors import LaunchError, NotFoundError, ProviderError, RefusedError
from tarn.interfaces import Finding
from tarn_plugins.runtime.yarn import environment
from tarn_plugins.runtime.yarn.environment import HEAD, ArchiveInspection
from tarn_plugins.runtime.yarn.messages import FileEntry

__all__ = ["Archives", "bring", "look", "put"]

SHELF = ".environments"
"""The directory's name in the user's staging directory, next to the clusters'."""
_OPEN, _PASSABLE = 0o644, 0o755
"""It holds no secret, so all users of a node may share a copy."""


class Archives(Protocol):
    """What is asked of a Hadoop file system; see ``files.HadoopFiles``."""

    def head(self, uri: str, most: int) -> bytes:
        """Return the first *most* bytes of a file, or all that it has."""
        ...

    def entry(self, uri: str) -> FileEntry:
        """Return what is known of one file."""
        ...

    def qualified(self, uri: str) -> str:
        """Return *uri* with scheme and authority."""
        ...

    def directory(self, uri: str, mode: int) -> None:
        """Make a directory and those above it that are missing; what exists keeps its mode."""
        ...

    def upload(self, local: Path, uri: str, *, mode: int = 0o600) -> FileEntry:
        """Copy a local file; nobody ever sees a part of it."""
        ...


def look(python: str, files: Archives, ours: str) -> tuple[Finding, ...]:
    """Return what is wrong with the archive *python* for a client of tarn *ours*."""
    if (wrong := environment.misplaced(python)) is not None:
        return (wrong,)
    try:
        seen = environment.examine(_head(python, files))
    except NotFoundError as error:
        seen = ArchiveInspection(error.found, "TARN-3190")
    except ProviderError as error:
        seen = ArchiveInspection(f"cannot be read: {error.found}", "TARN-3191")
    return tuple(environment.findings(python, seen, ours))


def bring(python: str, staging: str, files: Archives) -> FileEntry:
    """Return the archive where the nodes read it; a file of this machine is copied once.

    Raises:
        LaunchError: TARN-3190, TARN-3191: it cannot be read.
        ProviderError: The file system did not answer, or has no space.
    """
    if not environment.is_local(python):
        return files.entry(python)
    local = Path(python)
    try:
        target = f"{staging}/{SHELF}/{_digest(local)}.tar.gz"
        size = local.stat().st_size
    except OSError as error:
        raise _unreadable(python, error) from error
    there = _there(files, target)
    if there is not None and there.bytes == size:
        return there
    files.directory(staging, _PASSABLE)
    return files.upload(local, target, mode=_OPEN)


def put(local: Path, uri: str, files: Archives) -> tuple[str, bool]:
    """Copy *local* to *uri*, unless a file of its size is there; see `tarn.interfaces.Uploader`.

    Raises:
        RefusedError: Another file is there.
        ProviderError: It cannot be written.
    """
    if (wrong := environment.misplaced(uri)) is not None:
        raise ProviderError("yarn", wrong.found, code="TARN-3198", where=uri)
    uri = files.qualified(uri)
    there = _there(files, uri)
    if there is None:
        return files.upload(local, uri, mode=_OPEN).uri, False
    if there.bytes != local.stat().st_size:
        raise RefusedError(
            "there is another file of this name",
            code="TARN-3198",
            where=uri,
            next_step="Name the directory only: an archive is named by its content.",
        )
    return there.uri, True


def _there(files: Archives, uri: str) -> FileEntry | None:
    try:
        return files.entry(uri)
    except NotFoundError:
        return None


def _head(python: str, files: Archives) -> bytes:
    if not environment.is_local(python):
        return files.head(python, HEAD)
    try:
        with Path(python).open("rb") as archive:
            return archive.read(HEAD)
    except FileNotFoundError as error:
        raise NotFoundError("there is no such file on this machine") from error
    except OSError as error:
        raise ProviderError("yarn", error.strerror or "no reason was given") from error


def _digest(local: Path) -> str:
    with local.open("rb") as archive:
        return hashlib.file_digest(archive, "sha256").hexdigest()[:32]


def _unreadable(python: str, error: OSError) -> LaunchError:
    gone = isinstance(error, FileNotFoundError)
    return LaunchError(
        "yarn",
        f"the packed environment cannot be read: {error.strerror}",
        code="TARN-3190" if gone else "TARN-3191",
        where=python,
        next_step="Name another archive in runtime.options.python; `tarn pack` makes one.",
    )
