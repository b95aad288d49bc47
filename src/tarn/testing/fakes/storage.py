"""A storage in memory that copies to the cache."""

import hashlib
import shutil
import tempfile
from pathlib import Path
from typing import ClassVar

from tarn.errors import StorageError
from tarn.hookspecs import StorageFactory
from tarn.interfaces import ClientContext, Progress, Staged

__all__ = ["FakeStorage", "fake_storage_factory"]


class FakeStorage:
    """Repositories as dictionaries of relative path to content, by URI."""

    schemes: ClassVar[frozenset[str]] = frozenset({"fake"})

    def __init__(self, repositories: dict[str, dict[str, bytes]] | None = None) -> None:
        self.repositories = {} if repositories is None else repositories
        self.broken = ""
        """While set, resolving fails half-way with this text."""

    def resolve(self, uri: str, context: ClientContext) -> Staged:
        """Copy the repository into the cache, under its content hash."""
        files = self.repositories.get(uri)
        if files is None:
            raise StorageError("fake", "there is no such repository", where=uri)
        digest = self.digest(files)
        place = context.paths.cache / "fake" / digest
        if not place.exists():
            self.copy(files, place, uri)
        context.progress(Progress("staging", uri, len(files), len(files)))
        size = sum(len(content) for content in files.values())
        return Staged(str(place), "local", digest, size)

    def digest(self, files: dict[str, bytes]) -> str:
        """Return the hash of names and contents."""
        seen = hashlib.sha256()
        for name, content in sorted(files.items()):
            seen.update(f"{len(name.encode())}:{name}:{len(content)}:".encode() + content)
        return seen.hexdigest()

    def copy(self, files: dict[str, bytes], place: Path, uri: str) -> None:
        """Write *files* into a fresh directory, and rename it to *place*."""
        place.parent.mkdir(parents=True, exist_ok=True)
        fresh = Path(tempfile.mkdtemp(dir=place.parent))
        for name, content in files.items():
            (fresh / name).parent.mkdir(parents=True, exist_ok=True)
            (fresh / name).write_bytes(content)
            if self.broken:
                shutil.rmtree(fresh)
                raise StorageError("fake", self.broken, where=uri)
        try:
            fresh.rename(place)
        except OSError:
            # Somebody else was first with the same content, which is as good as ours.
            shutil.rmtree(fresh)


def fake_storage_factory(
    repositories: dict[str, dict[str, bytes]], kind: type[FakeStorage] = FakeStorage
) -> StorageFactory:
    """Return a factory of storages over *repositories*, for URIs ``fake://…``."""
    return StorageFactory(
        kind.schemes, lambda: kind(repositories), "repositories in memory, for tests"
    )
