"""Storages with one fault each."""

import hashlib
import threading
from pathlib import Path

import attrs

from tarn.interfaces import ClientContext, Progress, Staged
from tarn.testing.fakes import FakeStorage


class MakesWhatIsMissing(FakeStorage):
    """Gives an empty directory for a repository that does not exist."""

    def resolve(self, uri: str, context: ClientContext) -> Staged:
        self.repositories.setdefault(uri, {})
        return super().resolve(uri, context)


class RaisesForeignErrors(FakeStorage):
    """Lets a KeyError out."""

    def resolve(self, uri: str, context: ClientContext) -> Staged:
        self.repositories[uri]
        return super().resolve(uri, context)


class FlattensDirectories(FakeStorage):
    """Copies files by their last name."""

    def copy(self, files: dict[str, bytes], place: Path, uri: str) -> None:
        super().copy({Path(name).name: text for name, text in files.items()}, place, uri)


class SkipsEmptyFiles(FakeStorage):
    """Does not copy what has no bytes."""

    def copy(self, files: dict[str, bytes], place: Path, uri: str) -> None:
        super().copy({name: text for name, text in files.items() if text}, place, uri)


class TrustsNames(FakeStorage):
    """Takes a repository with the same names for the same repository."""

    def digest(self, files: dict[str, bytes]) -> str:
        return hashlib.sha256("".join(sorted(files)).encode()).hexdigest()


class TrustsSizes(FakeStorage):
    """Takes files of the same size for the same files."""

    def digest(self, files: dict[str, bytes]) -> str:
        sizes = sorted((name, len(text)) for name, text in files.items())
        return hashlib.sha256(repr(sizes).encode()).hexdigest()


class CopiesOverTheOld(FakeStorage):
    """Copies into one place, over what was there."""

    def digest(self, files: dict[str, bytes]) -> str:
        return "the-one-place"

    def resolve(self, uri: str, context: ClientContext) -> Staged:
        staged = super().resolve(uri, context)
        for name, text in self.repositories[uri].items():
            (Path(staged.location) / name).parent.mkdir(parents=True, exist_ok=True)
            (Path(staged.location) / name).write_bytes(text)
        return staged


class CountsBlocks(FakeStorage):
    """Gives the size in KiB."""

    def resolve(self, uri: str, context: ClientContext) -> Staged:
        staged = super().resolve(uri, context)
        return attrs.evolve(staged, bytes=(staged.bytes or 0) // 1024)


class CopiesEachTime(FakeStorage):
    """Makes a new copy for every resolve."""

    def digest(self, files: dict[str, bytes]) -> str:
        count = self.repositories.setdefault("count", {})
        count[str(len(count))] = b""
        return f"{super().digest(files)}-{len(count)}"


class ServesFromTheCacheAlone(FakeStorage):
    """Goes on with the old copy when the repository is gone, and says nothing."""

    def resolve(self, uri: str, context: ClientContext) -> Staged:
        kept = context.paths.cache / "last.txt"
        if uri not in self.repositories and kept.exists():
            return Staged(kept.read_text(), "local")
        staged = super().resolve(uri, context)
        kept.write_text(staged.location)
        return staged


class CopiesInPlace(FakeStorage):
    """Writes into the final place, so that a second start sees half a copy."""

    def copy(self, files: dict[str, bytes], place: Path, uri: str) -> None:
        place.mkdir(parents=True, exist_ok=True)
        threading.Event().wait(0.05)
        for name, text in files.items():
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            (place / name).write_bytes(text)


class EmptiesTheSource(FakeStorage):
    """Moves instead of copying."""

    def resolve(self, uri: str, context: ClientContext) -> Staged:
        staged = super().resolve(uri, context)
        self.repositories[uri].pop("ocr/1/model.onnx", None)
        return staged


class TellsTooMuch(FakeStorage):
    """Is done twice over."""

    def resolve(self, uri: str, context: ClientContext) -> Staged:
        context.progress(Progress("staging", uri, 2.0, 1.0))
        return super().resolve(uri, context)


class InventsAKind(FakeStorage):
    """Says a kind that nobody knows."""

    def resolve(self, uri: str, context: ClientContext) -> Staged:
        return attrs.evolve(super().resolve(uri, context), kind="copied")


class RaisesOnNothing(FakeStorage):
    """Lets a ValueError out when there is nothing to copy."""

    def copy(self, files: dict[str, bytes], place: Path, uri: str) -> None:
        max(len(text) for text in files.values())
        super().copy(files, place, uri)


class ClaimsAUri(FakeStorage):
    """Claims what no scheme looks like."""

    schemes = frozenset({"fake://"})
