"""The layout of an environment, without the files that no node needs, and its archive.

The same content always gives the same archive: its members are sorted, and have no owner and no
time. The compressed bytes also depend on the version of zlib, so the archive's name contains the
hash of the uncompressed content.
"""

import csv
import gzip
import hashlib
import io
import os
import re
import shutil
import tarfile
from collections import deque
from collections.abc import Collection, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from io import BytesIO
from pathlib import Path
from typing import IO

import attrs

__all__ = [
    "PackedArchive",
    "interpreter",
    "owners",
    "packages",
    "site_packages",
    "version_in",
    "write",
]

# In ``lib/python3.N``: tests, graphical programs, and installers of packages.
_NOT_OF_PYTHON = frozenset(
    {"test", "idlelib", "tkinter", "turtledemo", "turtle.py", "ensurepip", "lib2to3", "pydoc_data"}
    | {"site-packages", "__pycache__", "EXTERNALLY-MANAGED", "__phello__"}
)
_NOT_OF_A_MODULE = re.compile(r"(_tkinter|_test\w*|_xxtestfuzz|_ctypes_test|xxlimited\w*)\..*\.so")
_LIBRARY = re.compile(r"libpython3.*\.so.*")
_OF_PACKAGES = re.compile(r".*\.(pyi|a|h|pyx|pxd)|direct_url\.json|uv_cache\.json|REQUESTED")
_DIRECTORIES = frozenset({"tests", "test", "__pycache__"})
_SYSCONFIG = "_sysconfigdata_*.py"
_HOME = re.compile(r"python3\.\d+")

_LEVEL = 6
_BLOCK = 4 << 20
# How many blocks are compressed at the same time.
_AHEAD = 8
_READ, _RUN = 0o644, 0o755


def version_in(home: Path) -> str:
    """Return the version of the Python in *home*, such as ``3.11``.

    Raises:
        FileNotFoundError: It has no standard library, or no interpreter.
    """
    for path in sorted((home / "lib").glob("python3.*")):
        if _HOME.fullmatch(path.name) and (path / "os.py").is_file():
            version = path.name.removeprefix("python")
            if (home / "bin" / f"python{version}").is_file():
                return version
    raise FileNotFoundError(f"no bin/python3.N with lib/python3.N in {home}")


def site_packages(root: Path, version: str) -> Path:
    """Return the folder of the packages of the environment *root*."""
    return root / "lib" / f"python{version}" / "site-packages"


def interpreter(home: Path, root: Path) -> str:
    """Copy the interpreter in *home*, as far as nodes need it, to *root*; return its version.

    Raises:
        OSError: It cannot be read, or the disk is full.
    """
    version = version_in(home)
    (root / "bin").mkdir(parents=True)
    (root / "lib").mkdir()
    shutil.copy2(home / "bin" / f"python{version}", root / "bin" / f"python{version}")
    for name in ("python3", "python"):
        (root / "bin" / name).symlink_to(f"python{version}")
    for path in (home / "lib").iterdir():
        if _LIBRARY.fullmatch(path.name):
            shutil.copy2(path, root / "lib" / path.name, follow_symlinks=False)
    standard = root / "lib" / f"python{version}"
    shutil.copytree(
        home / "lib" / f"python{version}", standard, symlinks=True, ignore=_useless_of_python
    )
    for path in standard.glob(_SYSCONFIG):
        # uv writes the interpreter's place into this file. It is different in every cache, and does
        # not exist on a node.
        path.write_text(path.read_text("utf-8").replace(str(home), "/install"), "utf-8")
    return version


def packages(root: Path, version: str) -> dict[str, str]:
    """Remove the files of packages that no node needs; return name -> version.

    Raises:
        OSError: They cannot be read or removed.
    """
    site = site_packages(root, version)
    shutil.rmtree(site / "bin", ignore_errors=True)
    for folder, folders, files in os.walk(site):
        for name in [one for one in folders if one in _DIRECTORIES]:
            shutil.rmtree(Path(folder, name))
            folders.remove(name)
        for name in files:
            if _OF_PACKAGES.fullmatch(name):
                Path(folder, name).unlink()
    for lock in site.glob(".lock"):
        lock.unlink()
    found = {}
    for info in sorted(site.glob("*.dist-info")):
        _record(info)
        name, _, number = info.name.removesuffix(".dist-info").rpartition("-")
        found[name] = number
    return found


def _useless_of_python(_folder: str, names: Collection[str]) -> set[str]:
    return {
        name
        for name in names
        if name in _NOT_OF_PYTHON or name.startswith("config-") or _NOT_OF_A_MODULE.fullmatch(name)
    }


def _record(info: Path) -> None:
    """Reduce the list of installed files to those that still exist, and sort it."""
    record = info / "RECORD"
    if not record.is_file():
        return
    rows = csv.reader(io.StringIO(record.read_text("utf-8")))
    kept = sorted(row for row in rows if row and (info.parent / row[0]).exists())
    written = io.StringIO()
    csv.writer(written, lineterminator="\n").writerows(kept)
    record.write_text(written.getvalue(), "utf-8")


def owners(root: Path, version: str) -> dict[str, str]:
    """Return file, relative to *root* -> the package that installed it."""
    site, found = site_packages(root, version), {}
    for record in site.glob("*.dist-info/RECORD"):
        name = record.parent.name.removesuffix(".dist-info").replace("-", " ")
        for row in csv.reader(io.StringIO(record.read_text("utf-8"))):
            found[str((site / row[0]).relative_to(root))] = name
    return found


@attrs.frozen
class PackedArchive:
    """The figures of an archive."""

    digest: str
    """SHA-256 of its uncompressed content, hexadecimal."""
    files: int
    unpacked: int
    """Bytes of its files."""


def write(root: Path, first: tuple[str, bytes], into: Path) -> PackedArchive:
    """Write the tree *root* as a tar.gz whose first member is *first* (name, content).

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
    """A writable file that compresses blocks on several cores.

    Each block becomes a gzip member; readers of gzip concatenate them.
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
        # Waits for the oldest block, so that they do not pile up in memory.
        if len(self._under_way) > _AHEAD:
            self._put()

    def _put(self) -> None:
        self.raw.write(self._under_way.popleft().result())


def _ordered(root: Path) -> Iterator[Path]:
    """Yield every directory, file and link below *root*, a directory before what is in it."""
    # The order of a directory's entries differs between machines.
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
    # Without times and owners, so that the same tree makes the same archive, named by its digest.
    member = tarfile.TarInfo(name)
    member.size, member.mtime, member.mode = size, 0, _READ
    return member
