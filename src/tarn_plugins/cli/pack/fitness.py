"""Find the files of a tree that need a newer C library than the nodes', or other libraries.

The needs of a program or a library are read from the dynamic section of its ELF file, as the loader
does. Section headers are not used, since they may have been stripped. Sources: ``elf(5)``, and
glibc's ``elf/elf.h`` for the records of needed versions (``Elf64_Verneed``).
"""

import mmap
import re
import struct
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import attrs

from tarn_plugins.cli.pack.options import Glibc

__all__ = ["BinaryNeeds", "binaries", "foreign", "newest", "too_new"]

_MAGIC = b"\x7fELF"
_64_BIT, _LITTLE = 2, 1
_LOAD, _DYNAMIC = 1, 2
_NEEDED, _STRINGS, _SONAME, _RPATH, _RUNPATH = 1, 5, 14, 15, 29
_VERSIONS, _VERSIONS_COUNT = 0x6FFFFFFE, 0x6FFFFFFF
_HEADER, _SEGMENT, _ENTRY = struct.Struct("<16xHHIQQQIHHH6x"), struct.Struct("<IIQQQQQQ"), 16
_FILE, _VERSION = struct.Struct("<HHIII"), struct.Struct("<IHHII")
# The loader accepts the absence of such a version.
_WEAK = 2
_GLIBC = re.compile(r"GLIBC_(\d+)\.(\d+)(?:\.\d+)?")
# A feature, and the first version of glibc that has it.
_RELATIVE_RELOCATIONS = "GLIBC_ABI_DT_RELR"
_FEATURES = {_RELATIVE_RELOCATIONS: (2, 36)}
# The most records of one table; a file with more is broken.
_MOST = 100_000

Content = bytes | mmap.mmap

_GLIBCS = frozenset(
    {"libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1", "libutil.so.1"}
    | {"libresolv.so.2", "libnsl.so.1", "libanl.so.1", "libthread_db.so.1", "libmvec.so.1"}
)
# Every Linux with glibc has them; PEP 599 lets wheels rely on them.
_EVERYWHERE = _GLIBCS | {"libgcc_s.so.1", "libstdc++.so.6", "libz.so.1", "linux-vdso.so.1"}
# The loader; and the Pythons of Triton's other stubs: only the packed Python's stub is used.
_LOADER = re.compile(r"ld-linux.*|libpython3\..*")


@attrs.frozen
class Binary:
    """What one ELF file needs."""

    needed: tuple[str, ...] = ()
    """Names of libraries."""
    glibc: tuple[int, int] = (0, 0)
    """The newest version of glibc that it needs; (0, 0): none."""
    paths: tuple[str, ...] = ()
    """Directories that it searches first for libraries (``RPATH``, ``RUNPATH``)."""


def read_elf(content: Content) -> Binary | None:
    """Return the needs of a 64-bit little-endian ELF file; None if it is not one, or broken."""
    if content[:4] != _MAGIC or tuple(content[4:6]) != (_64_BIT, _LITTLE):
        return None
    try:
        header = _HEADER.unpack_from(content)
        start, size, count = header[4], header[8], header[9]
        segments = [_SEGMENT.unpack_from(content, start + n * size) for n in range(count)]
        image = _Image(content, tuple((s[3], s[2], s[5]) for s in segments if s[0] == _LOAD))
        tags: list[tuple[int, int]] = []
        for segment in segments:
            if segment[0] == _DYNAMIC:
                tags += _tags(content, segment[2], segment[5])
        return _binary(image, tags) if tags else Binary()
    except (struct.error, IndexError, ValueError, OverflowError):
        return None


@attrs.frozen
class _Image:
    """The file, and the addresses of its segments."""

    content: Content
    loads: tuple[tuple[int, int, int], ...]
    """(address, offset in the file, size)."""

    def at(self, address: int) -> int:
        for start, offset, size in self.loads:
            if start <= address < start + size:
                return offset + address - start
        raise ValueError(address)

    def text(self, offset: int) -> str:
        end = self.content.find(b"\0", offset)
        if offset < 0 or end < 0:
            raise ValueError(offset)
        return bytes(self.content[offset:end]).decode("utf-8", "replace")


def _tags(content: Content, offset: int, size: int) -> Iterator[tuple[int, int]]:
    for at in range(offset, offset + min(size, _MOST * _ENTRY), _ENTRY):
        tag, value = struct.unpack_from("<qQ", content, at)
        if tag == 0:
            return
        yield tag, value


def _binary(image: _Image, tags: list[tuple[int, int]]) -> Binary:
    one: Mapping[int, int] = dict(tags)
    strings = image.at(one[_STRINGS]) if _STRINGS in one else -1
    names = tuple(image.text(strings + value) for tag, value in tags if tag == _NEEDED)
    paths = tuple(
        path
        for tag, value in tags
        if tag in (_RPATH, _RUNPATH)
        for path in image.text(strings + value).split(":")
        if path
    )
    versions = (0, 0)
    if _VERSIONS in one:
        asked = _versions(image, image.at(one[_VERSIONS]), one.get(_VERSIONS_COUNT, 0), strings)
        versions = max((_number(version) for version in asked), default=versions)
    return Binary(names, versions, paths)


def _versions(image: _Image, offset: int, count: int, strings: int) -> Iterator[str]:
    """Yield the names of the versions that the libraries must have."""
    for _ in range(min(count, _MOST)):
        _, records, _, first, following = _FILE.unpack_from(image.content, offset)
        at = offset + first
        for _ in range(records):
            _, flags, _, name, after = _VERSION.unpack_from(image.content, at)
            if not flags & _WEAK:
                yield image.text(strings + name)
            at += after
        if not following:
            return
        offset += following


def _number(version: str) -> tuple[int, int]:
    found = _GLIBC.fullmatch(version)
    return (int(found[1]), int(found[2])) if found else _FEATURES.get(version, (0, 0))


@attrs.frozen
class BinaryNeeds:
    """The needs of one file of the tree."""

    path: str
    """Relative to the tree."""
    binary: Binary


def binaries(root: Path) -> tuple[BinaryNeeds, ...]:
    """Return every ELF file below *root*, by path; links are not followed."""
    found = []
    for path in root.rglob("*"):
        # An empty file cannot be mapped.
        if path.is_symlink() or not path.is_file() or not path.stat().st_size:
            continue
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as content:
            binary = read_elf(content)
        if binary is not None:
            found.append(BinaryNeeds(str(path.relative_to(root)), binary))
    return tuple(sorted(found, key=lambda need: need.path))


def too_new(needs: Iterable[BinaryNeeds], limit: Glibc) -> tuple[BinaryNeeds, ...]:
    """Return the files that need a newer glibc than *limit*, newest first. Pure."""
    found = [need for need in needs if need.binary.glibc > limit]
    return tuple(sorted(found, key=lambda need: need.binary.glibc, reverse=True))


def newest(needs: Iterable[BinaryNeeds]) -> Glibc:
    """Return the newest glibc that any of them needs. Pure."""
    return max((need.binary.glibc for need in needs), default=(0, 0))


def foreign(needs: Iterable[BinaryNeeds]) -> tuple[str, ...]:
    """Return the libraries that nodes must have beyond those of every Linux. Pure."""
    needs = tuple(needs)
    own = {need.path.rpartition("/")[2] for need in needs}
    asked = {library for need in needs for library in need.binary.needed}
    return tuple(sorted(one for one in asked - own - _EVERYWHERE if not _LOADER.fullmatch(one)))
