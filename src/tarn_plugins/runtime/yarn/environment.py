"""A packed Python environment: the archive of `tarn pack`, as the nodes use it.

The NodeManager unpacks it, and links it into a container's directory as ``.tarn/python``. Its
interpreter is ``bin/python3``, and it may contain a Java for the master in ``jre``. Its first
member describes it, so that its first bytes show whether it fits.

An archive of the client's machine is copied to where the nodes read it::

    <staging>/.environments/<digest>.tar.gz     0644

The digest is that of the content. So all clusters of a user share one copy, and a second `up`
copies nothing.
"""

import hashlib
import json
import re
import tarfile
import zlib
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Final

import attrs

from tarn.errors import LaunchError, NotFoundError, ProviderError, RefusedError
from tarn.interfaces import Finding
from tarn_plugins.runtime.yarn import READS
from tarn_plugins.runtime.yarn.messages import ClientFiles, FileEntry, LocalFile

__all__ = [
    "DIRECTORY",
    "INTERPRETER",
    "PYTHONS",
    "about",
    "bring",
    "is_local",
    "is_packed",
    "look",
    "packed",
    "put",
    "resource",
]

# Its place in a container's directory.
DIRECTORY: Final = ".tarn/python"
# The path in a launch file, which the run script makes absolute.
INTERPRETER: Final = f"{DIRECTORY}/bin/python3"
# The first bytes of an archive, which contain its description.
HEAD: Final = 65536
# Its first member.
ABOUT: Final = "tarn-environment.json"
# A zip keeps neither links nor executable bits.
_ENDS = (".tar.gz", ".tgz")
# The oldest Python for tarn, and the first one that is too new.
PYTHONS = ((3, 11), (3, 14))
_GZIP = 16 + zlib.MAX_WBITS
# YARN's launch script contains the file's name.
_PLAIN = re.compile(r"[A-Za-z0-9._,=@%+~:/-]+")
_WHERE = "runtime.options.python"
_PACK = "`tarn pack` makes one that fits"

# The directory's name in the user's staging directory, next to the clusters'.
SHELF = ".environments"
# It contains no secret, so all users of a node may share a copy.
_OPEN, _PASSABLE = 0o644, 0o755


@attrs.frozen
class ArchiveManifest:
    """The description in an archive."""

    tarn: str
    """Version of tarn in it."""
    python: str
    """Version of its interpreter, such as ``3.11.9``."""


@attrs.frozen
class ArchiveInspection:
    """The result of the inspection of an archive."""

    found: str = ""
    """Why it cannot be used; empty when it was read."""
    code: str = ""
    about: ArchiveManifest | None = None
    """None: it has no description."""


def is_packed(python: str | None) -> bool:
    """Return whether the setting names an archive, not a path of the nodes."""
    return python is not None and ("://" in python or python.lower().endswith(_ENDS))


def packed(python: str | None) -> str:
    """Return the archive that ``runtime.options.python`` names, or ''."""
    return python if python is not None and is_packed(python) else ""


def is_local(python: str) -> bool:
    """Return whether the archive *python* is a file of the client's machine."""
    return "://" not in python


def resource(entry: FileEntry) -> LocalFile:
    """Return the archive as a file for NodeManagers to localize."""
    # If everybody may read it, all users of a node share one copy, and no token is needed.
    return LocalFile(
        DIRECTORY, entry.uri, entry.bytes, entry.modified_ms,
        public=entry.public, archive=True, application=not entry.public,
    )  # fmt: skip


def examine(head: bytes) -> ArchiveInspection:
    """Inspect the first `HEAD` bytes of an archive."""
    if not head.startswith(b"\x1f\x8b"):
        return ArchiveInspection("is not a tar.gz", "TARN-3192")
    try:
        plain = zlib.decompressobj(_GZIP).decompress(head)
        with tarfile.open(fileobj=BytesIO(plain), mode="r:") as archive:
            first = archive.next()
            if first is None:
                return ArchiveInspection("is an empty archive", "TARN-3192")
            file = archive.extractfile(first) if first.name == ABOUT else None
            return ArchiveInspection(about=None if file is None else about(file.read()))
    except (tarfile.TarError, zlib.error, EOFError):
        return ArchiveInspection(
            "is not a tar.gz: the compressed content is not an archive", "TARN-3192"
        )


def about(content: bytes) -> ArchiveManifest | None:
    """Read the description of an archive; None if it is malformed."""
    try:
        said = json.loads(content)
        return ArchiveManifest(tarn=str(said["tarn"]), python=str(said["python"]))
    except (ValueError, KeyError, TypeError):
        return None


def findings(python: str, seen: ArchiveInspection, ours: str) -> Iterator[Finding]:
    """Yield the problems of the archive *python* for a client of tarn *ours*."""
    where = f"{_WHERE} = '{python}'"
    if seen.found:
        yield Finding(seen.code, where, seen.found, f"Name another archive; {_PACK}")
    elif seen.about is None:
        yield Finding(
            "TARN-3194",
            where,
            "does not list its content; it must hold bin/python3, able to run from any "
            f"directory, with tarn-orchestrator[yarn] {ours}",
            f"{_PACK}, and lists its content",
            fatal=False,
        )
    else:
        yield from _unfit(where, seen.about, ours)


def misplaced(python: str) -> Finding | None:
    """Return the problem of the location *python*, or None. Pure."""
    where, scheme = f"{_WHERE} = '{python}'", python.partition("://")[0]
    if is_local(python):
        if python.startswith("/"):
            return None
        found = "is not an absolute path, so it is unclear where to find it"
        return Finding("TARN-3190", where, found, "Give the archive's absolute path, or its URI")
    if scheme not in READS:
        found = f"the nodes' Hadoop does not read '{scheme}' (it reads {', '.join(sorted(READS))})"
        step = (
            "Put it where they can read it, or name a file of this machine, which is then "
            "copied once"
        )
        return Finding("TARN-3191", where, found, step)
    if not _PLAIN.fullmatch(python):
        found = "has a character that YARN's launch script would misread"
        step = "Rename it: letters, digits and . _ - + = @ % , only"
        return Finding("TARN-3191", where, found, step)
    return None


def _unfit(where: str, said: ArchiveManifest, ours: str) -> Iterator[Finding]:
    if said.tarn != ours:
        yield Finding(
            "TARN-3193",
            where,
            f"holds tarn {said.tarn}, but this is tarn {ours}",
            f"Pack it again: {_PACK}; or use tarn {said.tarn} here",
        )
    parts = said.python.split(".")[:2]
    fits = all(map(str.isdecimal, parts)) and PYTHONS[0] <= tuple(map(int, parts)) < PYTHONS[1]
    if not fits:
        least, beyond = (".".join(map(str, one)) for one in PYTHONS)
        yield Finding(
            "TARN-3193",
            where,
            f"holds Python {said.python}; tarn needs {least} or newer, below {beyond}",
            "Pack it again: `tarn pack --python 3.11`",
        )


def look(python: str, files: ClientFiles, ours: str) -> tuple[Finding, ...]:
    """Return the problems of the archive *python* for a client of tarn *ours*."""
    if (wrong := misplaced(python)) is not None:
        return (wrong,)
    try:
        seen = examine(_head(python, files))
    except NotFoundError as error:
        seen = ArchiveInspection(error.found, "TARN-3190")
    except ProviderError as error:
        seen = ArchiveInspection(f"cannot be read: {error.found}", "TARN-3191")
    return tuple(findings(python, seen, ours))


def bring(python: str, staging: str, files: ClientFiles) -> FileEntry:
    """Return the archive where the nodes read it; copy a local one if needed.

    Raises:
        LaunchError: It cannot be read (TARN-3190, TARN-3191).
        ProviderError: The file system did not answer, or has no space.
    """
    if not is_local(python):
        return files.entry(python)
    local = Path(python)
    try:
        with local.open("rb") as archive:
            digest = hashlib.file_digest(archive, "sha256").hexdigest()[:32]
        target = f"{staging}/{SHELF}/{digest}.tar.gz"
        size = local.stat().st_size
    except OSError as error:
        raise LaunchError(
            "yarn",
            f"the packed environment cannot be read: {error.strerror}",
            code="TARN-3190" if isinstance(error, FileNotFoundError) else "TARN-3191",
            where=python,
            next_step="Name another archive in runtime.options.python; `tarn pack` makes one.",
        ) from error
    there = _there(files, target)
    if there is not None and there.bytes == size:
        return there
    files.directory(staging, _PASSABLE)
    return files.upload(local, target, mode=_OPEN)


def put(local: Path, uri: str, files: ClientFiles) -> tuple[str, bool]:
    """Copy *local* to *uri*, unless a file of its size exists; see `tarn.interfaces.Uploader`.

    Raises:
        RefusedError: Another file exists there.
        ProviderError: It cannot be written.
    """
    if (wrong := misplaced(uri)) is not None:
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


def _there(files: ClientFiles, uri: str) -> FileEntry | None:
    try:
        return files.entry(uri)
    except NotFoundError:
        return None


def _head(python: str, files: ClientFiles) -> bytes:
    if not is_local(python):
        return files.head(python, HEAD)
    try:
        with Path(python).open("rb") as archive:
            return archive.read(HEAD)
    except FileNotFoundError as error:
        raise NotFoundError("there is no such file on this machine") from error
    except OSError as error:
        raise ProviderError("yarn", error.strerror or "no reason was given") from error
