"""A Hadoop file system in memory, shared by threads."""

import threading
from collections.abc import Callable

from tarn.errors import NotFoundError, RefusedError
from tarn_plugins.runtime.yarn.messages import FileEntry


class FilesInMemory:
    """`wire.Files`; *before* is called with (operation, uri) before each of them."""

    def __init__(self, at: Callable[[], float] = lambda: 0.0) -> None:
        self.content: dict[str, tuple[bytes, int, float]] = {}
        self.before: Callable[[str, str], None] = lambda _operation, _uri: None
        self.at, self._lock = at, threading.Lock()

    def read(self, uri: str) -> bytes:
        self.before("read", uri)
        with self._lock:
            if uri not in self.content:
                raise NotFoundError("there is no such file", where=uri)
            return self.content[uri][0]

    def write(self, uri: str, data: bytes, *, mode: int = 0o600, replace: bool = False) -> None:
        self.before("write", uri)
        with self._lock:
            if uri in self.content and not replace:
                raise RefusedError("it already exists", where=uri)
            self.content[uri] = (data, mode, self.at())

    def listing(self, uri: str, *, deep: bool = False) -> tuple[FileEntry, ...]:
        self.before("listing", uri)
        with self._lock:
            inside = {u: c for u, c in self.content.items() if u.startswith(f"{uri}/")}
            if not inside:
                raise NotFoundError("there is no such directory", where=uri)
            entries = [
                FileEntry(u.removeprefix(f"{uri}/"), u, len(data), int(at * 1000), bool(mode & 4))
                for u, (data, mode, at) in inside.items()
            ]
        return tuple(
            sorted((e for e in entries if deep or "/" not in e.path), key=lambda e: e.path)
        )

    def entry(self, uri: str) -> FileEntry:
        self.before("entry", uri)
        folder, _, name = uri.rpartition("/")
        found = [e for e in self.listing(folder) if e.path == name]
        if not found:
            raise NotFoundError("there is no such file", where=uri)
        return found[0]

    def rename(self, source: str, target: str) -> None:
        self.before("rename", source)
        with self._lock:
            self.content[target] = self.content.pop(source)

    def remove(self, uri: str) -> None:
        self.before("remove", uri)
        with self._lock:
            for each in [u for u in self.content if u == uri or u.startswith(f"{uri}/")]:
                del self.content[each]

    def prune(self, uri: str) -> None:
        """A directory is only a part of a name here."""
