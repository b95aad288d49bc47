"""A repository that only the client could read, put where the nodes read it, once by its content.

::

    <staging>/.models/<digest>/<model>/<version>/<file>     0600

The digest is the content's, so nothing ever changes there, every cluster of the user shares it, and
an upload that was cut short goes on where it ended. No cluster has a name with a dot.
"""

from pathlib import Path
from typing import Protocol

from tarn.errors import NotFoundError, StorageError
from tarn.interfaces import Staged
from tarn.triton.repository import listing
from tarn_plugins.runtime.yarn.messages import FileEntry

__all__ = ["SHELF", "UploadTarget", "upload"]

SHELF = ".models"
"""The directory's name in the user's staging directory, next to the clusters'."""
_PASSABLE = 0o755
"""Of the staging directory: the clusters' public files are public only through passable ones."""


class UploadTarget(Protocol):
    """What is asked of a Hadoop file system; see ``files.HadoopFiles``."""

    def listing(self, uri: str, *, deep: bool = False) -> tuple[FileEntry, ...]:
        """Return the files below a directory; ``NotFoundError`` without one."""
        ...

    def directory(self, uri: str, mode: int) -> None:
        """Make a directory and those above it that are missing; what exists keeps its mode."""
        ...

    def upload(self, local: Path, uri: str, *, mode: int = 0o600) -> FileEntry:
        """Copy a local file; nobody ever sees a part of it."""
        ...


def upload(staged: Staged, staging: str, files: UploadTarget) -> Staged:
    """Put the local copy *staged* into *staging* and return it as what the nodes localize.

    Files that are there already, at their size, are not copied again: a name below a digest has
    one content. May take long, in the caller's thread.

    Raises:
        StorageError: The copy was cleared meanwhile, or its storage told no digest (final).
        ProviderError: The file system did not answer, or has no space.
    """
    if not staged.digest:
        raise _failed(
            staged,
            "its storage does not report a digest, so an earlier copy could not be recognised",
        )
    local, target = Path(staged.location), f"{staging}/{SHELF}/{staged.digest}"
    there = _there(files, target)
    try:
        # an empty version ends with a slash; the container makes it
        sizes = {p: (local / p).stat().st_size for p in listing(local) if not p.endswith("/")}
    except OSError as error:
        raise _failed(staged, f"cannot be read ({error.strerror})") from error
    files.directory(staging, _PASSABLE)  # the first upload would make it as private as its files
    for path, size in sizes.items():
        if there.get(path) != size:
            files.upload(local / path, f"{target}/{path}", mode=0o600)
    return Staged(target, "localize", digest=staged.digest, bytes=sum(sizes.values()))


def _there(files: UploadTarget, target: str) -> dict[str, int]:
    try:
        return {entry.path: entry.bytes for entry in files.listing(target, deep=True)}
    except NotFoundError:
        return {}


def _failed(staged: Staged, found: str) -> StorageError:
    return StorageError(
        "yarn",
        found,
        where=staged.location,
        next_step="Try again, or put the repository where the nodes read it: hdfs dfs -put.",
    )
