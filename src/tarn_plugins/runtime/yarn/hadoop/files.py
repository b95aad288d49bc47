"""Files on a Hadoop file system, through the Hadoop client of this machine."""

import contextlib
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs

from tarn.errors import NotFoundError, ProviderError, RefusedError, TarnError
from tarn.java import Fault, describe, load, throwable
from tarn_plugins.runtime.yarn.diagnostics import permission_step
from tarn_plugins.runtime.yarn.messages import FileEntry
from tarn_plugins.runtime.yarn.tokens import TOKENS_ENDED

__all__ = ["DENIED", "HadoopFiles"]

# The error code for a file or directory that this user may not use.
DENIED = "TARN-3171"

_NOT_FOUND = "java.io.FileNotFoundException"
_EXISTS = (
    "org.apache.hadoop.fs.FileAlreadyExistsException",
    "java.nio.file.FileAlreadyExistsException",
)
_NOT_EMPTY = "org.apache.hadoop.fs.PathIsNotEmptyDirectoryException"
_INVALID = "org.apache.hadoop.security.token.SecretManager$InvalidToken"
_DENIED = "org.apache.hadoop.security.AccessControlException"
_EVERYBODY_READS = 0o004
_EVERYBODY_PASSES = 0o001
_PRIVATE, _PRIVATE_DIRECTORY = 0o600, 0o700
_CHUNK = 1 << 20
_RETRY_S = 5.0


@attrs.define
class HadoopFiles:
    """`ClientFiles` through Hadoop's client. Any thread may use it; it needs the JVM.

    A URI without a scheme is a path of ``fs.defaultFS``. Hadoop itself keeps one connection for
    each file system, so there is nothing to close.
    """

    conf: Any
    """A Java ``Configuration``."""
    # Scheme and authority -> ``FileContext``, the only public API for a rename that replaces.
    _contexts: dict[str, Any] = attrs.field(factory=dict, init=False)

    def read(self, uri: str) -> bytes:
        """Return the content of a file."""
        return self._content(uri, lambda stream: stream.readAllBytes())

    def head(self, uri: str, most: int) -> bytes:
        """Return the first *most* bytes of a file, or all if it has fewer."""
        return self._content(uri, lambda stream: stream.readNBytes(most))

    def write(self, uri: str, data: bytes, *, mode: int = 0o600, replace: bool = False) -> None:
        """Write a file atomically; missing directories become as private as the file."""
        with _doing("write", uri):
            self._write_atomically(
                uri, load("java.io.ByteArrayInputStream")(data), mode, replace=replace
            )

    def directory(self, uri: str, mode: int) -> None:
        """Make a directory and its missing parents; existing ones keep their modes."""
        path = self._path(uri)
        with _doing("make", uri):
            _make_directories(path.getFileSystem(self.conf), path, mode)

    def upload(self, local: Path, uri: str, *, mode: int = 0o600) -> FileEntry:
        """Copy a local file to *uri* as `write` does, without reading it into Python."""
        try:
            with local.open("rb") as opened, _doing("copy a file to", uri):
                # Java opens it by its number: it would decode a name in the locale's encoding.
                number = f"/proc/self/fd/{opened.fileno()}"
                self._write_atomically(
                    uri, load("java.io.FileInputStream")(number), mode, replace=True
                )
        except OSError as error:
            raise NotFoundError(f"it cannot be read: {error.strerror}", where=str(local)) from error
        return self.entry(uri)

    def listing(self, uri: str, *, deep: bool = False) -> tuple[FileEntry, ...]:
        """Return the files in a directory, and with *deep* those below it, sorted by path."""
        path = self._path(uri)
        with _doing("list", uri):
            fs = path.getFileSystem(self.conf)
            root = str(fs.makeQualified(path))
            passable: dict[str, bool] = {}
            found = []
            each = fs.listFiles(path, deep)
            while each.hasNext():
                found.append(_entry(fs, root, each.next(), passable))
        return tuple(sorted(found, key=lambda entry: entry.path))

    def entry(self, uri: str) -> FileEntry:
        """Return the entry of one file, whose *path* is its name."""
        path = self._path(uri)
        with _doing("get the status of", uri):
            fs = path.getFileSystem(self.conf)
            status = fs.getFileStatus(path)
            return _entry(fs, str(status.getPath().getParent()), status, {})

    def rename(self, source: str, target: str) -> None:
        """Rename a file; atomically replace an existing target."""
        with _doing("rename", source):
            self._rename(self._path(source), self._path(target), replace=True)

    def remove(self, uri: str) -> None:
        """Remove a file, or a directory with its content; a missing one is not an error."""
        path = self._path(uri)
        with _doing("remove", uri):
            path.getFileSystem(self.conf).delete(path, True)  # noqa: FBT003 (recursive)

    def prune(self, uri: str) -> None:
        """Remove an empty directory; a missing or non-empty one is not an error."""
        path = self._path(uri)
        try:
            path.getFileSystem(self.conf).delete(path, False)  # noqa: FBT003 (not recursive)
        except throwable() as error:
            fault = describe(error)
            if not fault.is_a(_NOT_EMPTY, _NOT_FOUND):
                raise _failed("remove", uri, fault) from None

    def qualified(self, uri: str) -> str:
        """Return *uri* with scheme and authority, without a trailing ``/``; it need not exist."""
        path = self._path(uri)
        with _doing("reach", uri):
            return str(path.getFileSystem(self.conf).makeQualified(path))

    def home(self) -> str:
        """Return the URI of the user's home directory; it need not exist."""
        with _doing("find", "the home directory"):
            return str(load("org.apache.hadoop.fs.FileSystem").get(self.conf).getHomeDirectory())

    def _path(self, uri: str) -> Any:
        with _doing("parse", uri):
            return load("org.apache.hadoop.fs.Path")(uri)

    def _content(self, uri: str, read: Callable[[Any], Any]) -> bytes:
        path = self._path(uri)
        with _doing("read", uri):
            stream = path.getFileSystem(self.conf).open(path)
            try:
                return bytes(read(stream))
            finally:
                stream.close()

    def _write_atomically(self, uri: str, source: Any, mode: int, *, replace: bool) -> None:
        """Write *uri* from a Java stream, and close the stream."""
        path = self._path(uri)
        # `recovery.is_leftover` knows this form: the next master removes what a crash left.
        name = f".{path.getName()}.{secrets.token_hex(4)}.tmp"
        temporary = load("org.apache.hadoop.fs.Path")(path.getParent(), name)
        try:
            fs = path.getFileSystem(self.conf)
            # Everybody who may read the file may also pass through its directory.
            _make_directories(fs, path.getParent(), mode | 0o700 | (mode & 0o444) >> 2)
            try:
                _write_new(fs, temporary, source, mode)
                self._rename(temporary, path, replace=replace)
            except throwable():
                fs.delete(temporary, False)  # noqa: FBT003 (Java takes no keywords)
                raise
        finally:
            source.close()

    def _rename(self, source: Any, target: Any, *, replace: bool) -> None:
        how = load("org.apache.hadoop.fs.Options$Rename")
        self._context(target).rename(source, target, [how.OVERWRITE if replace else how.NONE])

    def _context(self, path: Any) -> Any:
        uri = path.toUri()
        key = f"{uri.getScheme()}://{uri.getAuthority()}"
        if key not in self._contexts:
            contexts = load("org.apache.hadoop.fs.FileContext")
            self._contexts[key] = (
                contexts.getFileContext(self.conf)
                if uri.getScheme() is None
                else contexts.getFileContext(uri, self.conf)
            )
        return self._contexts[key]


@contextlib.contextmanager
def _doing(what: str, uri: str) -> Iterator[None]:
    """Translate a Java exception into an error that says *what* failed on *uri*."""
    try:
        yield
    except throwable() as error:
        raise _failed(what, uri, describe(error)) from None


def _make_directories(fs: Any, directory: Any, mode: int) -> None:
    """Make the missing directories, from the top; existing ones keep their modes."""
    missing = []
    while directory is not None and not fs.exists(directory):
        missing.append(directory)
        directory = directory.getParent()
    for each in reversed(missing):
        # The client's umask reduces the mode of `mkdirs`, but not that of `setPermission`.
        fs.mkdirs(each, _permission(_PRIVATE_DIRECTORY))
        if mode != _PRIVATE_DIRECTORY:
            fs.setPermission(each, _permission(mode))


def _write_new(fs: Any, path: Any, source: Any, mode: int) -> None:
    """Make a new file, private from its first byte, and flush it to the data nodes' disks."""
    new = fs.createFile(path).recursive().overwrite(False).permission(_permission(_PRIVATE))  # noqa: FBT003
    stream = new.build()
    try:
        load("org.apache.hadoop.io.IOUtils").copyBytes(source, stream, _CHUNK, False)  # noqa: FBT003
        # Some file systems have none, such as those of object stores, and would raise.
        if stream.hasCapability("hsync"):
            stream.hsync()
    finally:
        stream.close()
    if mode != _PRIVATE:
        # A separate call, since the client's umask does not change the mode that it sets.
        fs.setPermission(path, _permission(mode))


def _permission(mode: int) -> Any:
    # The mode is passed as text, since the constructor for numbers takes a Java short.
    return load("org.apache.hadoop.fs.permission.FsPermission")(f"{mode:o}")


def _entry(fs: Any, root: str, status: Any, passable: dict[str, bool]) -> FileEntry:
    """Return the entry of a file; *passable* caches the directories of this listing."""
    path = status.getPath()
    uri = str(path)
    readable = bool(int(status.getPermission().toShort()) & _EVERYBODY_READS)
    return FileEntry(
        path=uri.removeprefix(root.rstrip("/") + "/") if uri != root else str(path.getName()),
        uri=uri,
        bytes=int(status.getLen()),
        modified_ms=int(status.getModificationTime()),
        public=readable and _passable(fs, path.getParent(), passable),
        owner=str(status.getOwner()),
    )


def _passable(fs: Any, directory: Any, known: dict[str, bool]) -> bool:
    """Return whether everybody may pass through *directory* and all above it."""
    # A NodeManager checks the same bits before it accepts a file as public.
    if directory is None:
        return True
    key = str(directory)
    if key not in known:
        bits = int(fs.getFileStatus(directory).getPermission().toShort())
        known[key] = bool(bits & _EVERYBODY_PASSES) and _passable(fs, directory.getParent(), known)
    return known[key]


def _failed(what: str, uri: str, fault: Fault) -> TarnError:
    """Return the error for *fault*; callers tell failures apart by its class and code."""
    if fault.is_a(*_EXISTS):
        return RefusedError("it already exists", where=uri)
    if fault.is_a(_NOT_FOUND):
        return NotFoundError("there is no such file or directory", where=uri)
    if fault.is_a(_INVALID):
        return ProviderError(
            "yarn",
            f"could not {what} it: the delegation token has expired or is unknown ({fault})",
            code=TOKENS_ENDED,
            where=uri,
            next_step="Submit the cluster again: `tarn down`, then `tarn up`.",
        )
    if fault.is_a(_DENIED):
        return ProviderError(
            "yarn",
            f"could not {what} it: permission denied ({fault})",
            code=DENIED,
            where=uri,
            next_step=permission_step(str(fault), uri)
            or "Ask its owner for the permission; with Kerberos, check `klist`.",
        )
    return ProviderError("yarn", f"could not {what} it: {fault}", retry_after_s=_RETRY_S, where=uri)
