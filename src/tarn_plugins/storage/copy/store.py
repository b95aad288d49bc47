"""Keep copies at ``<cache>/models/<sha256 of the content>``, where nothing ever changes.

A copy is written to a temporary sibling, read back, and renamed into place, so that a failure never
harms the other copies. ``<cache>/models/seen`` keeps the fingerprint of each source that was
copied, so an unchanged source costs only a listing. A source without versions of its files is
copied each time.
"""

import difflib
import errno
import fcntl
import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO

import attrs
import fsspec

from tarn.errors import RefusedError, RepositoryError, StorageError
from tarn.interfaces import ClientContext, Progress, Staged
from tarn.triton.folders import private_folder
from tarn.triton.repository import MOST_ENTRIES, is_junk, listing

__all__ = ["CopyStorage", "RepositorySource", "find", "redact", "without_secrets"]

_USER = re.compile(r"(?<=//)[^/@\s]*@")
_QUERY = re.compile(r"\?\S+")


def redact(uri: str) -> str:
    """Return *uri* with user, password and query masked; a query often carries a signature."""
    return _QUERY.sub("?***", _USER.sub("***@", uri))


def without_secrets(text: str, uri: str) -> str:
    """Return *text* on one line, with the secrets of *uri* and of every URI in it masked."""
    user, query = _USER.search(uri), _QUERY.search(uri)
    carried = [query[0][1:]] if query else []
    if user:
        carried += [user[0][:-1], *user[0][:-1].split(":")]
    for secret in sorted(filter(None, carried), key=len, reverse=True):
        text = text.replace(secret, "***")
    return redact(" ".join(text.split()))


_PIECE = 8 * 1024 * 1024  # bytes: seldom enough to cost nothing, often enough to see progress
_MARKS = (  # the names that file systems give to the version of a file in their listings
    *("ETag", "etag", "md5Hash", "md5", "checksum", "contentHash", "generation", "version_id"),
    *("LastModified", "last_modified", "mtime", "modified", "updated", "created"),
)


@attrs.frozen
class SourceFile:
    """One file, as the source lists it."""

    path: str
    """Relative to the repository, with ``/`` between its parts."""
    size: int
    """Bytes."""
    marks: tuple[str, ...]
    """Values that change with the content; empty: the source has none."""
    executable: bool


@attrs.frozen
class RepositorySource:
    """A repository at a URI: its files, listed once, and their content on demand."""

    uri: str
    files: tuple[SourceFile, ...]
    directories: tuple[str, ...]
    """All directories, sorted, including empty ones."""
    _filesystem: Any
    _top: str

    @property
    def total_bytes(self) -> int:
        """The size of everything."""
        return sum(file.size for file in self.files)

    @property
    def fingerprint(self) -> str | None:
        """A hash that changes whenever the content does; None if the source has no versions."""
        if not all(file.marks for file in self.files):
            return None
        seen = repr((self.uri, [(file.path, file.size, file.marks) for file in self.files]))
        return hashlib.sha256(seen.encode()).hexdigest()

    def read(self, file: SourceFile) -> Generator[bytes]:
        """Yield the content of *file* in pieces; errors of the file system are translated."""
        name, opened = f"{self._top}/{file.path}", self._filesystem.open
        with _translated(self.uri, f"cannot read {file.path}"), opened(name, "rb") as content:
            while piece := content.read(_PIECE):
                yield piece


def find(uri: str) -> RepositorySource:
    """List the repository at *uri*, without the files that tools leave behind.

    Raises:
        RepositoryError: There is nothing, a file, or more than a repository may hold.
        StorageError: The scheme is unknown, a package is missing, or the source refuses.
    """
    filesystem, top = _open(uri)
    with _translated(uri, "cannot be listed"):
        found = _infos(filesystem, top)
        there = bool(found) or bool(filesystem.exists(top))
    if not there:
        raise _no_repository(uri, "does not exist", "TARN-2200")
    if "" in found:
        raise _no_repository(uri, "is a file, not a directory", "TARN-2200")
    if len(found) >= MOST_ENTRIES:
        raise _no_repository(uri, f"holds {MOST_ENTRIES:,} files or more", "TARN-2202")
    clean = {path: info for path, info in found.items() if not any(map(is_junk, path.split("/")))}
    if not any(map(_is_file, clean.values())):
        raise _no_repository(uri, "is empty", "TARN-2201")
    files = tuple(_file(uri, p, info) for p, info in sorted(clean.items()) if _is_file(info))
    return RepositorySource(uri, files, tuple(sorted(_directories(found))), filesystem, top)


def _open(uri: str) -> tuple[Any, str]:
    protocol = uri.partition("://")[0]
    try:
        filesystem, top = fsspec.core.url_to_fs(uri)
    except ImportError as error:
        raise _no_filesystem(uri, protocol, error) from error
    except ValueError as error:
        near = difflib.get_close_matches(protocol, fsspec.available_protocols(), n=1)
        raise StorageError(
            "copy",
            f"no storage supports '{protocol}'",
            where=_where(uri),
            next_step=f"Did you mean '{near[0]}://'?" if near else "Use a scheme of fsspec's.",
        ) from error
    except Exception as error:  # noqa: BLE001 (see _translated)
        raise _failed(uri, "cannot be opened", error) from None
    return filesystem, top.rstrip("/")


def _no_filesystem(uri: str, protocol: str, error: ImportError) -> StorageError:
    """Return the error for a package that is missing, or that cannot be imported."""
    cause = error.__cause__ if isinstance(error.__cause__, ImportError) else error
    missing = cause.name if isinstance(cause, ModuleNotFoundError) else None
    if missing or cause is error:
        found = f"'{protocol}' needs the module {missing or error}, not installed here"
        step = f"pip install '{missing or f'fsspec[{protocol}]'}'"
    else:
        found = f"'{protocol}' needs a module that cannot be used here: {cause}"
        step = "Install versions that fit each other, or copy the repository to a directory first."
    return StorageError("copy", found, where=_where(uri), next_step=step)


def _infos(filesystem: Any, top: str) -> dict[str, Mapping[str, Any]]:
    """Return relative path to fsspec's info, for files and directories.

    If *top* is itself a file, its relative path is ``""``.
    """
    if "file" in filesystem.protocol and Path(top).is_dir():  # fsspec does not follow links there
        paths = [path.rstrip("/") for path in listing(Path(top))]
        return {path: filesystem.info(f"{top}/{path}") for path in paths}
    found = filesystem.find(top, detail=True, withdirs=True)
    relative = {path.removeprefix(top).strip("/"): info for path, info in found.items()}
    return {path: info for path, info in relative.items() if path or _is_file(info)}


def _is_file(info: Mapping[str, Any]) -> bool:
    return bool(info.get("type") == "file")


def _directories(found: Mapping[str, Mapping[str, Any]]) -> set[str]:
    """Return every directory of the listing; one that held only junk counts as empty."""
    own = {path for path, info in found.items() if not _is_file(info)}
    above = {str(parent) for path in found for parent in PurePosixPath(path).parents}
    paths = (own | above) - {"."}
    return {path for path in paths if not any(map(is_junk, path.split("/")))}


def _file(uri: str, path: str, info: Mapping[str, Any]) -> SourceFile:
    if ".." in path.split("/"):  # an object's key may be anything; a path must stay inside
        raise StorageError("copy", f"holds a file named '{path}'", where=_where(uri))
    marks = tuple(f"{mark}={info[mark]}" for mark in _MARKS if info.get(mark) is not None)
    executable = bool(int(info.get("mode") or 0) & 0o100)
    return SourceFile(path, int(info.get("size") or 0), marks, executable)


@contextmanager
def _translated(uri: str, doing: str) -> Iterator[None]:
    """Translate every error of a file system into a ``StorageError``."""
    # Every fsspec implementation has its own family of errors, so there is no narrower class. The
    # cause is cut off: such errors quote signed URIs and passwords.
    try:
        yield
    except (StorageError, MemoryError):
        raise
    except Exception as error:  # noqa: BLE001 (translated, never kept)
        raise _failed(uri, doing, error) from None


def _failed(uri: str, doing: str, error: Exception) -> StorageError:
    said = without_secrets(str(error), uri) or "no reason given"
    return StorageError(
        "copy",
        f"{doing}: {type(error).__name__}: {said}",
        where=_where(uri),
        next_step="Check the URI, and the credentials in the environment or ~/.config/fsspec.",
    )


def _no_repository(uri: str, found: str, code: str) -> RepositoryError:
    return RepositoryError(
        "copy",
        found,
        code=code,
        where=_where(uri),
        next_step="Name the directory that holds <model>/<version>/<file>.",
    )


def _where(uri: str) -> str:
    return f"models.repository = '{redact(uri)}'"


_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


def _free_bytes(directory: Path) -> int:
    return shutil.disk_usage(directory).free


def _create_file(path: Path) -> BinaryIO:
    return path.open("xb")


@attrs.frozen
class CopyStorage:
    """Copies repositories into the cache."""

    free_bytes: Callable[[Path], int] = _free_bytes
    create_file: Callable[[Path], BinaryIO] = _create_file

    def resolve(self, uri: str, context: ClientContext) -> Staged:
        """Return the copy of *uri*, which may be an earlier one of the same content.

        The layout stays the same, without the files that tools leave behind (see ``is_junk``).

        Raises:
            StorageError: It is missing, unreadable, or changed meanwhile; or the disk is full.
        """
        source = find(uri)
        shelf = context.paths.cache / "models"
        try:
            private_folder(shelf.parent)
            private_folder(shelf)
            digest = _seen(shelf, source) or self._copy(shelf, source, context)
        except RefusedError as error:
            raise StorageError(
                "copy",
                error.found,
                code=error.code,
                where=error.where,
                next_step=error.next_step,
            ) from error
        except OSError as error:
            raise self._local_failure(shelf, source, error) from error
        return Staged(str(shelf / digest), "local", digest=digest, bytes=source.total_bytes)

    def _copy(self, shelf: Path, source: RepositorySource, context: ClientContext) -> str:
        """Copy, verify, rename; return the digest of the content."""
        if source.total_bytes > self.free_bytes(shelf):
            raise self._no_space(shelf, source)
        with _workplace(shelf) as place:
            hashes = self._fill(place, source, context.progress)
            _verify(place, source, hashes)
            digest = _digest(source, hashes)
            _put(shelf, place, source, digest)
        _remember(shelf, source, digest)
        return digest

    def _fill(
        self, place: Path, source: RepositorySource, progress: Callable[[Progress], None]
    ) -> dict[str, str]:
        """Write every file below *place*; return path to SHA-256 of the source."""
        for directory in source.directories:  # also empty ones, such as the version of an ensemble
            private_folder(place / directory, 0o755)
        hashes, done = {}, 0
        for file in source.files:
            target = place / file.path
            seen = hashlib.sha256()
            with closing(source.read(file)) as pieces, self.create_file(target) as copy:
                for piece in pieces:
                    copy.write(piece)
                    seen.update(piece)
                    done += len(piece)
                    progress(Progress("staging", file.path, done, source.total_bytes))
            target.chmod(0o755 if file.executable else 0o644)
            hashes[file.path] = seen.hexdigest()
        return hashes

    def _local_failure(self, shelf: Path, source: RepositorySource, error: OSError) -> StorageError:
        if error.errno in _FULL:
            return self._no_space(shelf, source)
        return StorageError(
            "copy",
            f"cannot write below {shelf}: {error.strerror or error}",
            where=redact(source.uri),
            next_step="Make the directory writable, or name another one in XDG_CACHE_HOME.",
        )

    def _no_space(self, shelf: Path, source: RepositorySource) -> StorageError:
        needed, free = source.total_bytes, self.free_bytes(shelf)
        return StorageError(
            "copy",
            f"needs {needed:,} bytes below {shelf}, where {free:,} are free",
            code="TARN-3201",
            where=redact(source.uri),
            next_step=f"Free {max(needed - free, 1):,} bytes; earlier copies stay usable.",
        )


def _seen(shelf: Path, source: RepositorySource) -> str | None:
    """Return the digest of an earlier copy of the unchanged source, if that is complete."""
    fingerprint = source.fingerprint
    if fingerprint is None:
        return None
    try:
        digest = str(json.loads((shelf / "seen" / fingerprint).read_text("ascii"))["digest"])
    except (FileNotFoundError, ValueError, KeyError):
        return None
    return digest if _complete(shelf / digest, source) else None


def _complete(copy: Path, source: RepositorySource) -> bool:
    """Return whether every file exists with its size: somebody may have cleared the cache."""
    try:
        whole = all((copy / file.path).stat().st_size == file.size for file in source.files)
        return whole and all((copy / directory).is_dir() for directory in source.directories)
    except (FileNotFoundError, NotADirectoryError):
        return False


def _remember(shelf: Path, source: RepositorySource, digest: str) -> None:
    if source.fingerprint is None:
        return
    notes = shelf / "seen"
    private_folder(notes)
    # Renamed when it is whole, since another process may be reading the notes.
    with tempfile.NamedTemporaryFile("w", dir=notes, delete=False, encoding="ascii") as note:
        json.dump({"digest": digest}, note)
    Path(note.name).replace(notes / source.fingerprint)


def _verify(place: Path, source: RepositorySource, hashes: dict[str, str]) -> None:
    """Read the copy back; compare sizes with the listing, and content with the source."""
    for file in source.files:
        target = place / file.path
        if (size := target.stat().st_size) != file.size:
            found = f"{file.path} has {size:,} bytes, but {file.size:,} were listed"
            raise _changed(source, found)
        with target.open("rb") as copy:
            written = hashlib.file_digest(copy, "sha256").hexdigest()
        if written != hashes[file.path]:
            raise _changed(source, f"the copy of {file.path} differs from what was read")


def _changed(source: RepositorySource, found: str) -> StorageError:
    return StorageError(
        "copy",
        found,
        retry_after_s=0.0,
        where=redact(source.uri),
        next_step="Try again once nobody writes to the repository.",
    )


def _digest(source: RepositorySource, hashes: dict[str, str]) -> str:
    # paths and contents without times: the same models get the same place
    content = [sorted(source.directories), sorted(hashes.items())]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()


def _put(shelf: Path, place: Path, source: RepositorySource, digest: str) -> None:
    """Rename *place* to its digest, unless a complete copy is there, which may be in use."""
    target = shelf / digest
    with _locked(shelf):
        if _complete(target, source):
            return
        if target.exists():
            target.rename(place.with_name(f"{place.name}-damaged"))  # the next sweep removes it
        place.rename(target)


@contextmanager
def _workplace(shelf: Path) -> Iterator[Path]:
    """Yield a new directory next to the copies, which is removed unless it was renamed."""
    # Its lock tells the work of a live process from the remains of a killed one, which the next
    # copy sweeps.
    with _locked(shelf):
        _sweep(shelf)
        place = Path(tempfile.mkdtemp(prefix=".staging-", dir=shelf))
        handle = os.open(place, os.O_RDONLY | os.O_DIRECTORY)
        fcntl.flock(handle, fcntl.LOCK_EX)
    try:
        place.chmod(0o755)
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)
        os.close(handle)


@contextmanager
def _locked(shelf: Path) -> Iterator[None]:
    """Lock the shelf, for short steps only."""
    with (shelf / ".lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _sweep(shelf: Path) -> None:
    """Remove the workplaces that no process has locked."""
    for left in shelf.glob(".staging-*"):
        handle = os.open(left, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            continue
        else:
            shutil.rmtree(left, ignore_errors=True)
        finally:
            os.close(handle)
