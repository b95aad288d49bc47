"""A Hadoop file system in memory: a ``Files``."""

from pathlib import Path

import attrs

from tarn.errors import NotFoundError, ProviderError, RefusedError
from tarn_plugins.runtime.yarn.messages import FileEntry


@attrs.define
class MemoryFiles:
    """Content, time and mode of each file, by URI."""

    found: dict[str, tuple[bytes, int, int]] = attrs.field(factory=dict)
    listed: list[str] = attrs.field(factory=list)
    uploaded: list[str] = attrs.field(factory=list)
    directories: dict[str, int] = attrs.field(factory=dict)
    """Mode of each, also of those that the first file in them made."""
    time_ms: int = 1_000
    down: bool = False

    def read(self, uri: str) -> bytes:
        return self.found[uri][0]

    def write(self, uri: str, data: bytes, *, mode: int = 0o600, replace: bool = False) -> None:
        self._ask()
        if uri in self.found and not replace:
            raise RefusedError("exists", where=uri)
        self.time_ms += 1
        self.found[uri] = (data, self.time_ms, mode)
        self.directory(uri.rpartition("/")[0], 0o755 if mode & 0o004 else 0o700)

    def listing(self, uri: str, *, deep: bool = False) -> tuple[FileEntry, ...]:
        self._ask()
        self.listed.append(uri)
        top = uri.rstrip("/") + "/"
        below = {path.removeprefix(top): path for path in self.found if path.startswith(top)}
        if not below:
            raise NotFoundError("does not exist", where=uri)
        return tuple(
            FileEntry(path, whole, len(data), time_ms, bool(mode & 0o004))
            for path, whole in sorted(below.items())
            for data, time_ms, mode in [self.found[whole]]
            if deep or "/" not in path
        )

    def directory(self, uri: str, mode: int) -> None:
        self._ask()
        while "//" in uri and not uri.endswith("/"):
            self.directories.setdefault(uri, mode)
            uri = uri.rpartition("/")[0]

    def entry(self, uri: str) -> FileEntry:
        self._ask()
        if uri not in self.found:
            raise NotFoundError("does not exist", where=uri)
        data, time_ms, mode = self.found[uri]
        return FileEntry(uri.rpartition("/")[2], uri, len(data), time_ms, bool(mode & 0o004))

    def upload(self, local: Path, uri: str, *, mode: int = 0o600) -> FileEntry:
        self.uploaded.append(uri)
        self.write(uri, local.read_bytes(), mode=mode, replace=True)
        return FileEntry(local.name, uri, local.stat().st_size, self.time_ms, bool(mode & 0o004))

    def rename(self, source: str, target: str) -> None:
        self.found[target] = self.found.pop(source)

    def remove(self, uri: str) -> None:
        self.found.pop(uri, None)

    def prune(self, uri: str) -> None:
        """A directory is only a part of a name here."""

    def _ask(self) -> None:
        if self.down:
            raise ProviderError("hdfs", "the NameNode does not answer", retry_after_s=1.0)
