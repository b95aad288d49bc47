"""Small files on a Hadoop file system, through the node's own client."""

import secrets
from pathlib import Path
from typing import Any

import attrs

from tarn.errors import NotFoundError, ProviderError, RefusedError, TarnError
from tarn.java import Fault, describe, load, throwable
from tarn_plugins.runtime.yarn.denied import opening
from tarn_plugins.runtime.yarn.messages import FileEntry
from tarn_plugins.runtime.yarn.tokens import TOKENS_ENDED

__all__ = ["DENIED", "HadoopFiles"]

DENIED = "TARN-3171"
"""Code of the error of a file or directory that this user may not use."""

_GONE = "java.io.FileNotFoundException"
_EXISTS = (
    "org.apache.hadoop.fs.FileAlreadyExistsException",
    "java.nio.file.FileAlreadyExistsException",
)
_NOT_EMPTY = "org.apache.hadoop.fs.PathIsNotEmptyDirectoryException"
_OVER = "org.apache.hadoop.security.token.SecretManager$InvalidToken"
_DENIED = "org.apache.hadoop.security.AccessControlException"
_EVERYBODY_READS = 0o004
_EVERYBODY_PASSES = 0o001
_PRIVATE, _PRIVATE_DIRECTORY = 0o600, 0o700
_CHUNK = 1 << 20
_RETRY_S = 5.0


@attrs.define
class HadoopFiles:
    """`wire.Files`, and what only the client needs. Any thread; needs the JVM.

    A URI without a scheme is a path of ``fs.defaultFS``. Hadoop keeps one connection for each
    file system, so this holds nothing that would have to be closed.
    """

    conf: Any
    """A Java ``Configuration``."""
    _contexts: dict[str, Any] = attrs.field(factory=dict, init=False)
    """Scheme and authority to ``FileContext``: the one public door to a rename that replaces."""

    def read(self, uri: str) -> bytes:
        """Return the content of a file."""
        path = self._path(uri)
        try:
            stream = path.getFileSystem(self.conf).open(path)
            try:
                return bytes(stream.readAllBytes())
            finally:
                stream.close()
        except throwable() as error:
            raise _failed("read", uri, describe(error)) from None

    def head(self, uri: str, most: int) -> bytes:
        """Return the first *most* bytes of a file, or all that it has."""
        path = self._path(uri)
        try:
            stream = path.getFileSystem(self.conf).open(path)
            try:
                return bytes(stream.readNBytes(most))
            finally:
                stream.close()
        except throwable() as error:
            raise _failed("read", uri, describe(error)) from None

    def write(self, uri: str, data: bytes, *, mode: int = 0o600, replace: bool = False) -> None:
        """Write a file; missing directories are made, as private as the file is.

        Nobody ever sees a part of it: the bytes go to a hidden name next to it, reach the disks,
        and the name is changed last.
        """
        try:
            source = load("java.io.ByteArrayInputStream")(data)
            self._place(uri, source, mode, replace=replace)
        except throwable() as error:
            raise _failed("write", uri, describe(error)) from None

    def directory(self, uri: str, mode: int) -> None:
        """Make a directory and those above it that are missing; what exists keeps its mode."""
        path = self._path(uri)
        try:
            _make_directories(path.getFileSystem(self.conf), path, mode)
        except throwable() as error:
            raise _failed("make", uri, describe(error)) from None

    def upload(self, local: Path, uri: str, *, mode: int = 0o600) -> FileEntry:
        """Copy a local file to *uri* as `write` does; its bytes never enter Python."""
        try:
            with local.open("rb") as opened:
                # by number: Java reads a name in the locale's encoding, which may be ASCII
                number = f"/proc/self/fd/{opened.fileno()}"
                self._place(uri, load("java.io.FileInputStream")(number), mode, replace=True)
        except OSError as error:
            raise NotFoundError(f"it cannot be read: {error.strerror}", where=str(local)) from error
        except throwable() as error:
            raise _failed("copy a file to", uri, describe(error)) from None
        return self.entry(uri)

    def listing(self, uri: str, *, deep: bool = False) -> tuple[FileEntry, ...]:
        """Return the files in a directory (with *deep* in those below it too), by path."""
        path = self._path(uri)
        try:
            fs = path.getFileSystem(self.conf)
            root = str(fs.makeQualified(path))
            passable: dict[str, bool] = {}
            found = []
            each = fs.listFiles(path, deep)
            while each.hasNext():
                found.append(_entry(fs, root, each.next(), passable))
        except throwable() as error:
            raise _failed("list", uri, describe(error)) from None
        return tuple(sorted(found, key=lambda entry: entry.path))

    def entry(self, uri: str) -> FileEntry:
        """Return what is known of one file; its *path* is its name."""
        path = self._path(uri)
        try:
            fs = path.getFileSystem(self.conf)
            status = fs.getFileStatus(path)
            return _entry(fs, str(status.getPath().getParent()), status, {})
        except throwable() as error:
            raise _failed("look at", uri, describe(error)) from None

    def rename(self, source: str, target: str) -> None:
        """Rename a file; an existing target is replaced in one step."""
        try:
            self._rename(self._path(source), self._path(target), replace=True)
        except throwable() as error:
            raise _failed("rename", source, describe(error)) from None

    def remove(self, uri: str) -> None:
        """Remove a file, or a directory with all that is in it; a missing one is not an error."""
        path = self._path(uri)
        try:
            path.getFileSystem(self.conf).delete(path, True)  # noqa: FBT003 (recursive)
        except throwable() as error:
            raise _failed("remove", uri, describe(error)) from None

    def prune(self, uri: str) -> None:
        """Remove a directory if it is empty; one that is not, or is not there, is not an error."""
        path = self._path(uri)
        try:
            path.getFileSystem(self.conf).delete(path, False)  # noqa: FBT003 (not recursive)
        except throwable() as error:
            fault = describe(error)
            if not fault.is_a(_NOT_EMPTY, _GONE):
                raise _failed("remove", uri, fault) from None

    def qualified(self, uri: str) -> str:
        """Return *uri* with scheme and authority, without a trailing ``/``; it need not exist."""
        path = self._path(uri)
        try:
            return str(path.getFileSystem(self.conf).makeQualified(path))
        except throwable() as error:
            raise _failed("reach", uri, describe(error)) from None

    def home(self) -> str:
        """Return the URI of the user's home directory; it need not exist."""
        try:
            return str(load("org.apache.hadoop.fs.FileSystem").get(self.conf).getHomeDirectory())
        except throwable() as error:
            raise _failed("find", "the home directory", describe(error)) from None

    def _path(self, uri: str) -> Any:
        try:
            return load("org.apache.hadoop.fs.Path")(uri)
        except throwable() as error:
            raise _failed("name", uri, describe(error)) from None

    def _place(self, uri: str, source: Any, mode: int, *, replace: bool) -> None:
        """Make *uri* from a Java stream, which is closed."""
        path = self._path(uri)
        name = f".{path.getName()}.{secrets.token_hex(4)}.tmp"
        hidden = load("org.apache.hadoop.fs.Path")(path.getParent(), name)
        try:
            fs = path.getFileSystem(self.conf)
            _make_directories(fs, path.getParent(), _directory_mode(mode))
            try:
                _fill(fs, hidden, source, mode)
                self._rename(hidden, path, replace=replace)
            except throwable():
                fs.delete(hidden, False)  # noqa: FBT003 (Java takes no keywords)
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


def _make_directories(fs: Any, directory: Any, mode: int) -> None:
    """Make what is missing, from the top; what exists keeps its mode."""
    missing = []
    while directory is not None and not fs.exists(directory):
        missing.append(directory)
        directory = directory.getParent()
    for each in reversed(missing):
        fs.mkdirs(each, _permission(_PRIVATE_DIRECTORY))
        if mode != _PRIVATE_DIRECTORY:
            fs.setPermission(each, _permission(mode))


def _fill(fs: Any, path: Any, source: Any, mode: int) -> None:
    """Make a new file, private from its first byte, and see it on the disks of the data nodes."""
    new = fs.createFile(path).recursive().overwrite(False).permission(_permission(_PRIVATE))  # noqa: FBT003
    stream = new.build()
    try:
        load("org.apache.hadoop.io.IOUtils").copyBytes(source, stream, _CHUNK, False)  # noqa: FBT003
        if stream.hasCapability("hsync"):
            stream.hsync()
    finally:
        stream.close()
    if mode != _PRIVATE:
        # the client's umask does not matter: what is public must be public
        fs.setPermission(path, _permission(mode))


def _directory_mode(mode: int) -> int:
    """Return the mode of a directory for files of *mode*: who may read one may pass. Pure."""
    return mode | 0o700 | (mode & 0o444) >> 2


def _permission(mode: int) -> Any:
    # the constructor that takes a number takes a Java short
    return load("org.apache.hadoop.fs.permission.FsPermission")(f"{mode:o}")


def _entry(fs: Any, root: str, status: Any, passable: dict[str, bool]) -> FileEntry:
    """Return one file; *passable* remembers the directories of this listing."""
    path = status.getPath()
    uri = str(path)
    readable = bool(int(status.getPermission().toShort()) & _EVERYBODY_READS)
    return FileEntry(
        path=uri.removeprefix(root.rstrip("/") + "/") if uri != root else str(path.getName()),
        uri=uri,
        bytes=int(status.getLen()),
        modified_ms=int(status.getModificationTime()),
        public=readable and _passable(fs, path.getParent(), passable),
    )


def _passable(fs: Any, directory: Any, known: dict[str, bool]) -> bool:
    """Say whether everybody may pass through *directory* and all above it.

    The NodeManager looks at the same bits before it takes a file as public.
    """
    if directory is None:
        return True
    key = str(directory)
    if key not in known:
        bits = int(fs.getFileStatus(directory).getPermission().toShort())
        known[key] = bool(bits & _EVERYBODY_PASSES) and _passable(fs, directory.getParent(), known)
    return known[key]


def _failed(what: str, uri: str, fault: Fault) -> TarnError:
    """Return the error for a *fault*: its class tells what a caller may do about it."""
    if fault.is_a(*_EXISTS):
        return RefusedError("it exists already", where=uri)
    if fault.is_a(_GONE):
        return NotFoundError("there is no such file or directory", where=uri)
    if fault.is_a(_OVER):
        return ProviderError(
            "yarn",
            f"could not {what} it: the delegation token has expired or is unknown ({fault})",
            code=TOKENS_ENDED,
            where=uri,
            next_step="`tarn down`, then `tarn up` submits the cluster again.",
        )
    if fault.is_a(_DENIED):
        return ProviderError(
            "yarn",
            f"could not {what} it: permission denied ({fault})",
            code=DENIED,
            where=uri,
            next_step=opening(str(fault), uri)
            or "Ask its owner for the permission; with Kerberos, check `klist`.",
        )
    return ProviderError("yarn", f"could not {what} it: {fault}", retry_after_s=_RETRY_S, where=uri)
