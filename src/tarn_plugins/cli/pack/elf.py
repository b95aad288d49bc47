"""What a program or a library needs of the system, read from its ELF file. Pure.

From the dynamic section only, as the loader does: section headers may have been stripped. Facts:
``elf(5)``, and glibc's ``elf/elf.h`` for the records of needed versions (``Elf64_Verneed``).
"""

import re
import struct
from collections.abc import Iterator, Mapping
from mmap import mmap

import attrs

__all__ = ["Binary", "read"]

_MAGIC = b"\x7fELF"
_64_BIT, _LITTLE = 2, 1
_LOAD, _DYNAMIC = 1, 2
_NEEDED, _STRINGS, _SONAME, _RPATH, _RUNPATH = 1, 5, 14, 15, 29
_VERSIONS, _VERSIONS_COUNT = 0x6FFFFFFE, 0x6FFFFFFF
_HEADER, _SEGMENT, _ENTRY = struct.Struct("<16xHHIQQQIHHH6x"), struct.Struct("<IIQQQQQQ"), 16
_FILE, _VERSION = struct.Struct("<HHIII"), struct.Struct("<IHHII")
_WEAK = 2
"""A version that the loader does without."""
_GLIBC = re.compile(r"GLIBC_(\d+)\.(\d+)(?:\.\d+)?")
_RELATIVE_RELOCATIONS = "GLIBC_ABI_DT_RELR"
"""A feature, and the version that first had it."""
_FEATURES = {_RELATIVE_RELOCATIONS: (2, 36)}
_MOST = 100_000
"""Records in one table; a file with more is broken."""

Content = bytes | mmap


@attrs.frozen
class Binary:
    """What one ELF file needs."""

    needed: tuple[str, ...] = ()
    """Names of libraries."""
    glibc: tuple[int, int] = (0, 0)
    """The newest version of glibc that it asks for; (0, 0): none."""
    paths: tuple[str, ...] = ()
    """Where it looks for libraries first (``RPATH``, ``RUNPATH``)."""


def read(content: Content) -> Binary | None:
    """Return what a 64-bit little-endian ELF file needs; None: it is none, or is broken."""
    if content[:4] != _MAGIC or tuple(content[4:6]) != (_64_BIT, _LITTLE):
        return None
    try:
        return _read(content)
    except (struct.error, IndexError, ValueError, OverflowError):
        return None


@attrs.frozen
class _Image:
    """The file, and where its segments lie in memory."""

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


def _read(content: Content) -> Binary:
    header = _HEADER.unpack_from(content)
    start, size, count = header[4], header[8], header[9]
    segments = [_SEGMENT.unpack_from(content, start + n * size) for n in range(count)]
    image = _Image(content, tuple((s[3], s[2], s[5]) for s in segments if s[0] == _LOAD))
    tags: list[tuple[int, int]] = []
    for segment in segments:
        if segment[0] == _DYNAMIC:
            tags += _tags(content, segment[2], segment[5])
    return _binary(image, tags) if tags else Binary()


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
    """Yield the names of the versions that must be there, of every library."""
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
