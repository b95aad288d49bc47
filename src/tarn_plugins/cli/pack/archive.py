"""An archive whose bytes depend on nothing but its content.

Members are in order, belong to nobody in particular, and are as old as time; the compressed bytes
also depend on the zlib that wrote them, so the name has the hash of what is inside.
"""

import gzip
import hashlib
import os
import tarfile
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from io import BytesIO
from pathlib import Path
from typing import IO

import attrs

__all__ = ["PackedArchive", "write"]

_LEVEL = 6
_BLOCK = 4 << 20
_AHEAD = 8
"""Blocks that are compressed at once."""
_READ, _RUN = 0o644, 0o755


@attrs.frozen
class PackedArchive:
    """An archive."""

    digest: str
    """SHA-256 of its content: hexadecimal."""
    files: int
    unpacked: int
    """Bytes of its files."""


def write(root: Path, first: tuple[str, bytes], into: Path) -> PackedArchive:
    """Write the tree *root* as a tar.gz, with the file *first* (name, content) before all else.

    Raises:
        OSError: The disk is full, or a file cannot be read.
    """
    digest, files, unpacked = hashlib.sha256(), 0, 0
    with into.open("wb") as raw, ThreadPoolExecutor(_AHEAD, "pack") as pool:
        squeezed = _Squeezed(raw, pool, digest)
        with tarfile.open(fileobj=squeezed, mode="w|", format=tarfile.PAX_FORMAT) as tar:  # type: ignore[call-overload]  # it only writes
            tar.addfile(_member(first[0], len(first[1])), BytesIO(first[1]))
            for path in _ordered(root):
                files, unpacked = files + 1, unpacked + _add(tar, root, path)
        squeezed.close()
    return PackedArchive(digest.hexdigest(), files, unpacked)


@attrs.define
class _Squeezed:
    """Compresses what is written, block by block on every core; the blocks do not depend on it.

    Each block is a gzip member of its own: whoever reads gzip reads them as one.
    """

    raw: IO[bytes]
    pool: Executor
    digest: "hashlib._Hash"
    _block: bytearray = attrs.field(factory=bytearray, init=False)
    _under_way: deque[Future[bytes]] = attrs.field(factory=deque, init=False)

    def write(self, data: bytes) -> int:
        self.digest.update(data)
        self._block += data
        while len(self._block) >= _BLOCK:
            self._squeeze(_BLOCK)
        return len(data)

    def close(self) -> None:
        self._squeeze(len(self._block))
        while self._under_way:
            self._put()

    def _squeeze(self, size: int) -> None:
        block = bytes(self._block[:size])
        del self._block[:size]
        self._under_way.append(self.pool.submit(gzip.compress, block, _LEVEL, mtime=0))
        if len(self._under_way) > _AHEAD:
            self._put()

    def _put(self) -> None:
        self.raw.write(self._under_way.popleft().result())


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
