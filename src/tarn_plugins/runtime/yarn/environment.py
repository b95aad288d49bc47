"""A packed Python environment: the archive that `tarn pack` makes, as the nodes use it. Pure.

It is unpacked by the NodeManager and linked into a container's directory as ``.tarn/python``; the
interpreter is ``bin/python3`` in it, and a Java for the master may be ``jre``. Its first member
says what it is, so that a look at its first bytes tells whether it fits.
"""

import json
import re
import tarfile
import zlib
from collections.abc import Iterator
from io import BytesIO
from typing import Final

import attrs

from tarn.interfaces import Finding
from tarn_plugins.runtime.yarn import READS
from tarn_plugins.runtime.yarn.messages import FileEntry, LocalFile

__all__ = [
    "DIRECTORY",
    "HEAD",
    "INTERPRETER",
    "PYTHONS",
    "ArchiveInspection",
    "about",
    "examine",
    "findings",
    "is_local",
    "is_packed",
    "misplaced",
    "resource",
]

DIRECTORY: Final = ".tarn/python"
"""Where it lies in a container's directory."""
INTERPRETER: Final = f"{DIRECTORY}/bin/python3"
"""What a launch file names; the run script makes it absolute."""
HEAD: Final = 65536
"""Bytes at the beginning of an archive that hold what it says of itself."""
ABOUT: Final = "tarn-environment.json"
"""Its first member."""
_ENDS = (".tar.gz", ".tgz")
"""A zip keeps neither links nor who may execute what."""
PYTHONS = ((3, 11), (3, 14))
"""The first one that tarn runs on, and the first one that it does not."""
_GZIP = 16 + zlib.MAX_WBITS
_PLAIN = re.compile(r"[A-Za-z0-9._,=@%+~:/-]+")
"""The file's name is part of YARN's launch script."""
_WHERE = "runtime.options.python"
_PACK = "`tarn pack` makes one that fits"


@attrs.frozen
class ArchiveManifest:
    """What an archive says of itself."""

    tarn: str
    """Version of tarn in it."""
    python: str
    """Version of its interpreter, such as ``3.11.9``."""


@attrs.frozen
class ArchiveInspection:
    """What a look at an archive found."""

    found: str = ""
    """Why it cannot be used, in words; empty when it was read."""
    code: str = ""
    about: ArchiveManifest | None = None
    """None: it does not say what it is."""


def is_packed(python: str | None) -> bool:
    """Say whether the setting names an archive; else it is a path of the nodes, or nothing."""
    return python is not None and ("://" in python or python.lower().endswith(_ENDS))


def is_local(python: str) -> bool:
    """Say whether the archive *python* is a file of the client's machine."""
    return "://" not in python


def resource(entry: FileEntry) -> LocalFile:
    """Return the archive as NodeManagers bring it.

    Where everybody may read it, all users of a node share one copy, and no token is needed.
    """
    return LocalFile(
        DIRECTORY, entry.uri, entry.bytes, entry.modified_ms,
        public=entry.public, archive=True, application=not entry.public,
    )  # fmt: skip


def examine(head: bytes) -> ArchiveInspection:
    """Look at the first `HEAD` bytes of an archive."""
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
    """Read what an archive says of itself; None: not in words that are known."""
    try:
        said = json.loads(content)
        return ArchiveManifest(tarn=str(said["tarn"]), python=str(said["python"]))
    except (ValueError, KeyError, TypeError):
        return None


def findings(python: str, seen: ArchiveInspection, ours: str) -> Iterator[Finding]:
    """Yield what is wrong with the archive *python* for a client of tarn *ours*."""
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
    """Return what is wrong with the place that *python* names; None when nothing is. Pure."""
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
    if not _fits(said.python):
        least, beyond = (".".join(map(str, one)) for one in PYTHONS)
        yield Finding(
            "TARN-3193",
            where,
            f"holds Python {said.python}; tarn needs {least} or newer, below {beyond}",
            "Pack it again: `tarn pack --python 3.11`",
        )


def _fits(version: str) -> bool:
    parts = version.split(".")[:2]
    return all(map(str.isdecimal, parts)) and PYTHONS[0] <= tuple(map(int, parts)) < PYTHONS[1]
