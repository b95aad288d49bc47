"""The archive of Hadoop's classes for masters: copied once to where the nodes read it.

::

    <staging>/.classes/<key>.jsa     0644

NodeManagers keep it for all users of a node, and link it into a master's directory as
``.tarn/<key>.jsa``. A master uses it only if its own Java and jars have that key. It is never
replaced or removed, since later attempts of running masters need it unchanged.
"""

import contextlib
from pathlib import Path
from typing import Final

from tarn.errors import NotFoundError, TarnError
from tarn_plugins.runtime.yarn.messages import ClientFiles, FileEntry, LocalFile

__all__ = ["DIRECTORY", "bring", "resources"]

# The archives' place in a container's directory.
DIRECTORY: Final = ".tarn"
# The directory's name in the user's staging directory, next to the clusters'.
SHELF = ".classes"
_OPEN, _PASSABLE = 0o644, 0o755


def resources(archive: Path, staging: str, files: ClientFiles, user: str) -> tuple[LocalFile, ...]:
    """Return *archive* as a file of a master's container; nothing if it is not on the nodes' side.

    Nothing either if not everybody may read it, as each application would fetch a copy of its own;
    or if it is not *user*'s, as Java runs what is in it, and several users may share a directory.
    """
    there = _there(archive, staging, files)
    if there is None or not there.public or there.owner != user:
        return ()
    name = f"{DIRECTORY}/{archive.name}"
    return (LocalFile(name, there.uri, there.bytes, there.modified_ms, public=True),)


def bring(archive: Path, staging: str, files: ClientFiles) -> None:
    """Copy *archive* to the nodes' side, unless it is there. A failure only costs the next start.

    It takes as long as the copy of 40 MB.
    """
    with contextlib.suppress(TarnError, OSError):
        if _there(archive, staging, files) is None:
            files.directory(staging, _PASSABLE)
            files.upload(archive, f"{staging}/{SHELF}/{archive.name}", mode=_OPEN)


def _there(archive: Path, staging: str, files: ClientFiles) -> FileEntry | None:
    try:
        return files.entry(f"{staging}/{SHELF}/{archive.name}")
    except NotFoundError:
        return None
