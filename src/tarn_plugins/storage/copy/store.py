"""Where copies are kept: ``<cache>/models/<sha256 of the content>``; nothing ever changes there.

A copy is written to a temporary sibling, read back, and renamed into place, so that a failure at
any moment leaves the copies that were there. What a source looked like when it was copied is
kept in ``<cache>/models/seen``: an unchanged source costs a listing. A source that does not tell
its versions is copied each time.
"""

import errno
import fcntl
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import BinaryIO

import attrs

from tarn.errors import RefusedError, StorageError
from tarn.interfaces import ClientContext, Progress, Staged
from tarn.triton.folders import private_folder
from tarn_plugins.storage.copy.redact import redact
from tarn_plugins.storage.copy.source import RepositorySource, find

__all__ = ["CopyStorage"]

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


def _free_bytes(directory: Path) -> int:
    return shutil.disk_usage(directory).free


def _create_file(path: Path) -> BinaryIO:
    return path.open("xb")


@attrs.frozen
class CopyStorage:
    """Copies what a URI names into the cache."""

    free_bytes: Callable[[Path], int] = _free_bytes
    create_file: Callable[[Path], BinaryIO] = _create_file

    def resolve(self, uri: str, context: ClientContext) -> Staged:
        """Return the copy of *uri*; nothing is copied when the same content was copied before.

        The layout stays as it is. Left out is what tools leave behind (see ``is_junk``).

        Raises:
            StorageError: Missing, unreadable, changed while it was read, or not enough space.
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
        """Write every file below *place*; return path to SHA-256 of what was read."""
        for directory in source.directories:  # the empty ones too: an ensemble's version is one
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
            next_step="Fix the directory, or name another one in XDG_CACHE_HOME.",
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
    """Return the digest of an earlier copy of this very source, if all its files are there."""
    fingerprint = source.fingerprint
    if fingerprint is None:
        return None
    try:
        digest = str(json.loads((shelf / "seen" / fingerprint).read_text("ascii"))["digest"])
    except (FileNotFoundError, ValueError, KeyError):
        return None
    return digest if _complete(shelf / digest, source) else None


def _complete(copy: Path, source: RepositorySource) -> bool:
    """Say whether every file is there at its size: a cache may be cleared at any time."""
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
    with tempfile.NamedTemporaryFile("w", dir=notes, delete=False, encoding="ascii") as note:
        json.dump({"digest": digest}, note)
    Path(note.name).replace(notes / source.fingerprint)


def _verify(place: Path, source: RepositorySource, hashes: dict[str, str]) -> None:
    """Read the copy back: sizes as they were listed, content as it was read."""
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
    """Hash paths and contents, not times: the same models give the same place."""
    content = [sorted(source.directories), sorted(hashes.items())]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()


def _put(shelf: Path, place: Path, source: RepositorySource, digest: str) -> None:
    """Rename into place; a complete copy of the same content stays, for somebody may serve it."""
    target = shelf / digest
    with _locked(shelf):
        if _complete(target, source):
            return
        if target.exists():
            target.rename(place.with_name(f"{place.name}-damaged"))  # the next sweep takes it
        place.rename(target)


@contextmanager
def _workplace(shelf: Path) -> Iterator[Path]:
    """Yield a fresh directory next to the copies; it is gone afterwards unless it was renamed.

    It is locked while it is in use, so that what a killed process left is told from another's
    work, and swept by the next copy.
    """
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
    """Hold the shelf for a moment: nothing long happens under this lock."""
    with (shelf / ".lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _sweep(shelf: Path) -> None:
    """Remove the workplaces that nobody holds."""
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
