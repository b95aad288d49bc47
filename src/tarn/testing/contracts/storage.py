"""What a storage promises: the whole repository where instances can use it, or a clear no."""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import attrs
import pytest

from tarn.errors import StorageError
from tarn.hookspecs import StorageFactory
from tarn.interfaces import Progress, Staged, Storage
from tarn.testing.context import client_context
from tarn.testing.wait import within

__all__ = ["REPOSITORY", "StorageContract", "write_files"]

REPOSITORY: Mapping[str, bytes] = {
    "echo/config.pbtxt": b'backend: "python"\n',
    "echo/1/model.py": b"class TritonPythonModel:\n    pass\n",
    "ocr/config.pbtxt": b'platform: "onnxruntime_onnx"\n',
    "ocr/1/model.onnx": bytes(range(256)) * 300,
    "ocr/1/empty.bin": b"",
    "ocr/1/b\u00fccher \N{SNOWMAN}.txt": "\u00e4\u00f6\u00fc".encode(),
}
"""A small repository: nested, with binary and empty files, and names beyond ASCII."""
_RESOLVE_WITHIN_S = 60.0


def write_files(directory: Path, files: Mapping[str, bytes]) -> None:
    """Write *files* below *directory*, which is made."""
    directory.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_bytes(content)


class StorageContract:
    """Set `factory`; write `place` and `missing`; `remove` where a copy should outlive it."""

    factory: StorageFactory

    def make(self) -> Storage:
        """Return the storage under test, made by its factory."""
        return self.factory.create()

    def place(self, tmp_path: Path, files: Mapping[str, bytes]) -> str:
        """Make (or change) one repository so that it holds exactly *files*; return its URI."""
        raise NotImplementedError

    def missing(self, tmp_path: Path) -> str:
        """Return the URI of a repository that does not exist."""
        raise NotImplementedError

    def remove(self, tmp_path: Path) -> None:
        """Take the repository that `place` made away."""
        raise NotImplementedError

    def test_claims_a_scheme(self) -> None:
        """The URI chooses the storage, so it must claim something, written as URIs write it."""
        assert self.factory.schemes
        assert all(scheme == scheme.lower() for scheme in self.factory.schemes)
        assert not any(":" in scheme for scheme in self.factory.schemes)

    def test_gives_the_whole_repository(self, tmp_path: Path) -> None:
        """What instances will read is what was put there, byte for byte."""
        staged = self._resolve(tmp_path, self.place(tmp_path, REPOSITORY))
        assert staged.kind in {"in_place", "localize", "local"}
        assert staged.location
        if staged.kind == "local":
            assert _content(Path(staged.location)) == REPOSITORY

    def test_says_how_much_it_is(self, tmp_path: Path) -> None:
        """A size, where one is given, is that of the files."""
        staged = self._resolve(tmp_path, self.place(tmp_path, REPOSITORY))
        assert staged.bytes in (None, sum(map(len, REPOSITORY.values())))

    def test_resolving_twice_is_resolving_once(self, tmp_path: Path) -> None:
        """The same place, the same digest, the same content."""
        uri = self.place(tmp_path, REPOSITORY)
        first = self._resolve(tmp_path, uri)
        assert self._resolve(tmp_path, uri) == first
        self._holds(first, REPOSITORY)

    def test_a_changed_repository_is_seen(self, tmp_path: Path) -> None:
        """A new version is served after the next start, even one of the same size."""
        first = self._resolve(tmp_path, self.place(tmp_path, REPOSITORY))
        changed = {**REPOSITORY, "echo/config.pbtxt": b'backend: "pythom"\n'}
        second = self._resolve(tmp_path, self.place(tmp_path, changed))
        self._holds(second, changed)
        if first.digest and second.digest:
            assert first.digest != second.digest

    def test_a_removed_file_is_gone(self, tmp_path: Path) -> None:
        """What the repository no longer holds is not served from an old copy."""
        self._resolve(tmp_path, self.place(tmp_path, REPOSITORY))
        fewer = {name: text for name, text in REPOSITORY.items() if name.startswith("echo")}
        self._holds(self._resolve(tmp_path, self.place(tmp_path, fewer)), fewer)

    def test_a_missing_repository_is_said(self, tmp_path: Path) -> None:
        """`StorageError` names what was looked for; nothing is made in its place."""
        uri = self.missing(tmp_path)
        for _ in range(2):
            with pytest.raises(StorageError) as caught:
                self._resolve(tmp_path, uri)
            assert uri.rsplit("/", 1)[-1] in str(caught.value)

    def test_an_empty_repository_is_empty_or_refused_in_words(self, tmp_path: Path) -> None:
        """Nothing is invented."""
        uri = self.place(tmp_path, {})
        try:
            staged = self._resolve(tmp_path, uri)
        except StorageError as refusal:
            assert refusal.found.strip()  # noqa: PT017 (either answer is right)
        else:
            self._holds(staged, {})
            assert not staged.bytes

    def test_the_repository_is_left_as_it_was(self, tmp_path: Path) -> None:
        """Resolving reads only: a second storage, with a cache of its own, gets the same."""
        uri = self.place(tmp_path, REPOSITORY)
        first = self._resolve(tmp_path, uri)
        again = self._resolve(tmp_path / "elsewhere", uri)
        self._holds(again, REPOSITORY)
        assert (again.digest, again.bytes) == (first.digest, first.bytes)

    def test_a_failure_leaves_the_old_copy_usable(self, tmp_path: Path) -> None:
        """Instances that run from a copy do not notice that its source went away."""
        first = self._resolve(tmp_path, self.place(tmp_path, REPOSITORY))
        copied = first.kind == "local" and Path(first.location).is_relative_to(tmp_path / "cache")
        uri = self.place(tmp_path, REPOSITORY)
        self.remove(tmp_path)
        with pytest.raises(StorageError):
            self._resolve(tmp_path, uri)
        if copied:
            assert _content(Path(first.location)) == REPOSITORY

    def test_two_at_once_both_get_all_of_it(self, tmp_path: Path) -> None:
        """Two starts on one machine share a cache: nobody sees half a copy."""
        uri = self.place(tmp_path, REPOSITORY)

        def resolve() -> None:
            self._holds(self._resolve(tmp_path, uri), REPOSITORY)

        with ThreadPoolExecutor(4) as pool:
            for asked in [pool.submit(resolve) for _ in range(4)]:
                asked.result(_RESOLVE_WITHIN_S)

    def test_tells_progress_in_its_own_words(self, tmp_path: Path) -> None:
        """What is told is `Progress`, and no part is done beyond the whole."""
        told: list[Progress] = []
        context = attrs.evolve(client_context(tmp_path), progress=told.append)
        self.make().resolve(self.place(tmp_path, REPOSITORY), context)
        for line in told:
            assert isinstance(line, Progress)
            assert line.done is None or line.of is None or 0 <= line.done <= line.of

    def _resolve(self, tmp_path: Path, uri: str) -> Staged:
        context = client_context(tmp_path)
        staged = within(_RESOLVE_WITHIN_S, lambda: self.make().resolve(uri, context), "resolve")
        assert isinstance(staged, Staged)
        return staged

    def _holds(self, staged: Staged, files: Mapping[str, bytes]) -> None:
        if staged.kind != "localize":
            assert _content(Path(staged.location)) == files


def _content(directory: Path) -> Mapping[str, Any]:
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }
