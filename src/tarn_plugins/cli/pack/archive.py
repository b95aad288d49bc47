"""An archive whose bytes depend on nothing but its content.

Members are in order, belong to nobody in particular, and are as old as time; the compressed bytes
also depend on the zlib that wrote them, so the name has the hash of what is inside.
"""

import contextlib
import gzip
import hashlib
import os
import tarfile
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import IO

import attrs

__all__ = ["Written", "write"]

_LEVEL = 6
_READ, _RUN = 0o644, 0o755


@attrs.frozen
class Written:
    """An archive."""

    digest: str
    """SHA-256 of its content: hexadecimal."""
    files: int
    unpacked: int
    """Bytes of its files."""


def write(root: Path, first: tuple[str, bytes], into: Path) -> Written:
    """Write the tree *root* as a tar.gz, with the file *first* (name, content) before all else.

    Raises:
        OSError: The disk is full, or a file cannot be read.
    """
    digest, files, unpacked = hashlib.sha256(), 0, 0
    with into.open("wb") as raw, _squeezed(raw) as squeezed:
        both = _Both(squeezed, digest)
        with tarfile.open(fileobj=both, mode="w|", format=tarfile.PAX_FORMAT) as tar:  # type: ignore[call-overload]  # it only writes
            tar.addfile(_member(first[0], len(first[1])), BytesIO(first[1]))
            for path in _ordered(root):
                files, unpacked = files + 1, unpacked + _add(tar, root, path)
        raw.flush()
    return Written(digest.hexdigest(), files, unpacked)


@contextlib.contextmanager
def _squeezed(raw: IO[bytes]) -> Iterator[gzip.GzipFile]:
    with gzip.GzipFile(filename="", mode="wb", compresslevel=_LEVEL, fileobj=raw, mtime=0) as one:
        yield one


@attrs.frozen
class _Both:
    """Writes to a file, and into a hash."""

    file: gzip.GzipFile
    digest: "hashlib._Hash"

    def write(self, data: bytes) -> int:
        self.digest.update(data)
        return self.file.write(data)


def _ordered(root: Path) -> Iterator[Path]:
    """Yield every directory, file and link below *root*, a directory before what is in it."""
    for path in sorted(root.iterdir(), key=lambda one: os.fsencode(one.name)):
        yield path
        if path.is_dir() and not path.is_symlink():
            yield from _ordered(path)


def _add(tar: tarfile.TarFile, root: Path, path: Path) -> int:
    member = _member(str(path.relative_to(root)), 0)
    if path.is_symlink():
        member.type, member.linkname = tarfile.SYMTYPE, str(path.readlink())
        member.mode = 0o777
        tar.addfile(member)
        return 0
    if path.is_dir():
        member.type, member.mode = tarfile.DIRTYPE, _RUN
        tar.addfile(member)
        return 0
    with path.open("rb") as content:
        found = os.fstat(content.fileno())
        member.size = found.st_size
        member.mode = _RUN if found.st_mode & 0o100 else _READ
        tar.addfile(member, content)
    return member.size


def _member(name: str, size: int) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.size, member.mtime, member.mode = size, 0, _READ
    return member
