"""Where a copy comes from: the one place that speaks fsspec."""

import difflib
import hashlib
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any

import attrs
import fsspec

from tarn.errors import RepositoryError, StorageError
from tarn.triton.repository import MOST_ENTRIES, is_junk, listing
from tarn_plugins.storage.copy.redact import redact, without_secrets

__all__ = ["RepositorySource", "SourceFile", "find"]

_PIECE = 8 * 1024 * 1024  # bytes: seldom enough to cost nothing, often enough to see progress
_MARKS = (  # what file systems call the version of a file in their listings
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
    """What tells one version from the next; empty: the source does not say."""
    executable: bool


@attrs.frozen
class RepositorySource:
    """A repository at a URI: its files, listed once, and their content on demand."""

    uri: str
    files: tuple[SourceFile, ...]
    directories: tuple[str, ...]
    """Every one, the empty ones too; sorted."""
    _filesystem: Any
    _top: str

    @property
    def total_bytes(self) -> int:
        """The size of everything."""
        return sum(file.size for file in self.files)

    @property
    def fingerprint(self) -> str | None:
        """A hash that changes whenever the content does; None when the source cannot promise it."""
        if not all(file.marks for file in self.files):
            return None
        seen = repr((self.uri, [(file.path, file.size, file.marks) for file in self.files]))
        return hashlib.sha256(seen.encode()).hexdigest()

    def read(self, file: SourceFile) -> Generator[bytes]:
        """Yield the content of *file* in pieces; what the file system raises is translated."""
        name, opened = f"{self._top}/{file.path}", self._filesystem.open
        with _translated(self.uri, f"cannot read {file.path}"), opened(name, "rb") as content:
            while piece := content.read(_PIECE):
                yield piece


def find(uri: str) -> RepositorySource:
    """List the repository at *uri*, without what tools leave behind.

    Raises:
        RepositoryError: There is nothing there, or a file, or too much for a repository.
        StorageError: Nobody speaks the scheme, a package is missing, or the source refuses.
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
    """Tell a package that is missing from one that is there and cannot be imported."""
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
    """Return relative path to what the file system says of it, directories included.

    A file has the relative path ``""`` when *top* itself is one.
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
    """Return every directory of the listing; one that held only junk stays as an empty one."""
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
    """Make whatever a file system raises a ``StorageError``.

    Every fsspec implementation has its own family of errors, so there is no narrower class.
    The cause is cut off: such errors repeat signed URIs and passwords.
    """
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
