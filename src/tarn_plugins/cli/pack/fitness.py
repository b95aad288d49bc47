"""Which files of a tree the nodes could not load: a newer C library, or one that is not theirs."""

import mmap
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import attrs

from tarn_plugins.cli.pack import elf
from tarn_plugins.cli.pack.options import Glibc

__all__ = ["BinaryNeeds", "binaries", "foreign", "newest", "too_new"]

_GLIBCS = frozenset(
    {"libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1", "libutil.so.1"}
    | {"libresolv.so.2", "libnsl.so.1", "libanl.so.1", "libthread_db.so.1", "libmvec.so.1"}
)
_EVERYWHERE = _GLIBCS | {"libgcc_s.so.1", "libstdc++.so.6", "libz.so.1", "linux-vdso.so.1"}
"""What every Linux with glibc has; PEP 599 lets wheels rely on them."""
_LOADER = re.compile(r"ld-linux.*|libpython3\..*")
"""The loader; and Triton's stubs for other Pythons, of which only the packed one's is used."""


@attrs.frozen
class BinaryNeeds:
    """What one file of the tree needs."""

    path: str
    """Relative to the tree."""
    binary: elf.Binary


def binaries(root: Path) -> tuple[BinaryNeeds, ...]:
    """Return every ELF file below *root*, by path; links are not followed."""
    return tuple(sorted(_found(root), key=lambda need: need.path))


def too_new(needs: Iterable[BinaryNeeds], limit: Glibc) -> tuple[BinaryNeeds, ...]:
    """Return the files that need a newer glibc than *limit*, the neediest first. Pure."""
    found = [need for need in needs if need.binary.glibc > limit]
    return tuple(sorted(found, key=lambda need: need.binary.glibc, reverse=True))


def newest(needs: Iterable[BinaryNeeds]) -> Glibc:
    """Return the version of glibc that all of them together need. Pure."""
    return max((need.binary.glibc for need in needs), default=(0, 0))


def foreign(needs: Iterable[BinaryNeeds]) -> tuple[str, ...]:
    """Return the libraries that the nodes must have themselves, besides every Linux's. Pure."""
    needs = tuple(needs)
    own = {need.path.rpartition("/")[2] for need in needs}
    asked = {library for need in needs for library in need.binary.needed}
    return tuple(sorted(one for one in asked - own - _EVERYWHERE if not _LOADER.fullmatch(one)))


def _found(root: Path) -> Iterator[BinaryNeeds]:
    for path in root.rglob("*"):
        if path.is_symlink() or not path.is_file() or not path.stat().st_size:
            continue
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as content:
            binary = elf.read(content)
        if binary is not None:
            yield BinaryNeeds(str(path.relative_to(root)), binary)
