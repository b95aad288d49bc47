"""The contracts of a storage and of a secret store."""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import attrs
import pytest

from tarn.errors import NotFoundError, ProviderError, StorageError
from tarn.hookspecs import SecretStoreFactory, StorageFactory
from tarn.interfaces import Progress, SecretStore, Staged, Storage
from tarn.testing.context import client_context
from tarn.testing.strategies import for_any, texts
from tarn.testing.wait import within

__all__ = ["REPOSITORY", "SecretStoreContract", "StorageContract", "write_files"]

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
    """Write *files* below *directory*, which is created if it is missing."""
    directory.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_bytes(content)


class StorageContract:
    """Set `factory`; override `place`, `missing` and `remove`."""

    factory: StorageFactory

    def make(self) -> Storage:
        """Return the storage under test, made by its factory."""
        return self.factory.create()

    def place(self, tmp_path: Path, files: Mapping[str, bytes]) -> str:
        """Create or change the repository so that it has exactly *files*; return its URI."""
        raise NotImplementedError

    def missing(self, tmp_path: Path) -> str:
        """Return the URI of a repository that does not exist."""
        raise NotImplementedError

    def remove(self, tmp_path: Path) -> None:
        """Remove the repository that `place` made."""
        raise NotImplementedError

    def test_claims_a_scheme(self) -> None:
        """The URI's scheme chooses the storage, so it must claim one, in lower case."""
        assert self.factory.schemes
        assert all(scheme == scheme.lower() for scheme in self.factory.schemes)
        assert not any(":" in scheme for scheme in self.factory.schemes)

    def test_gives_the_whole_repository(self, tmp_path: Path) -> None:
        """Instances read exactly the files of the repository."""
        staged = self._resolve(tmp_path, self.place(tmp_path, REPOSITORY))
        assert staged.kind in {"in_place", "localize", "local"}
        assert staged.location
        if staged.kind == "local":
            assert _content(Path(staged.location)) == REPOSITORY

    def test_says_how_much_it_is(self, tmp_path: Path) -> None:
        """If a size is given, it is that of the files."""
        staged = self._resolve(tmp_path, self.place(tmp_path, REPOSITORY))
        assert staged.bytes in (None, sum(map(len, REPOSITORY.values())))

    def test_resolving_twice_is_resolving_once(self, tmp_path: Path) -> None:
        """The result has the same place, digest and content."""
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
        """A file that was removed from the repository is not served from an old copy."""
        self._resolve(tmp_path, self.place(tmp_path, REPOSITORY))
        fewer = {name: text for name, text in REPOSITORY.items() if name.startswith("echo")}
        self._holds(self._resolve(tmp_path, self.place(tmp_path, fewer)), fewer)

    def test_a_missing_repository_is_said(self, tmp_path: Path) -> None:
        """`StorageError` names the repository, and nothing is created in its place."""
        uri = self.missing(tmp_path)
        for _ in range(2):
            with pytest.raises(StorageError) as caught:
                self._resolve(tmp_path, uri)
            assert uri.rsplit("/", 1)[-1] in str(caught.value)

    def test_an_empty_repository_is_empty_or_refused_in_words(self, tmp_path: Path) -> None:
        """The result has no files and no size, or is a `StorageError`."""
        uri = self.place(tmp_path, {})
        try:
            staged = self._resolve(tmp_path, uri)
        except StorageError as refusal:
            assert refusal.found.strip()  # noqa: PT017 (either answer is right)
        else:
            self._holds(staged, {})
            assert not staged.bytes

    def test_the_repository_is_left_as_it_was(self, tmp_path: Path) -> None:
        """Resolving only reads: a second storage with its own cache gets the same."""
        uri = self.place(tmp_path, REPOSITORY)
        first = self._resolve(tmp_path, uri)
        again = self._resolve(tmp_path / "elsewhere", uri)
        self._holds(again, REPOSITORY)
        assert (again.digest, again.bytes) == (first.digest, first.bytes)

    def test_a_failure_leaves_the_old_copy_usable(self, tmp_path: Path) -> None:
        """Instances that run from a copy do not notice that its source is missing."""
        first = self._resolve(tmp_path, self.place(tmp_path, REPOSITORY))
        copied = first.kind == "local" and Path(first.location).is_relative_to(tmp_path / "cache")
        uri = self.place(tmp_path, REPOSITORY)
        self.remove(tmp_path)
        with pytest.raises(StorageError):
            self._resolve(tmp_path, uri)
        if copied:
            assert _content(Path(first.location)) == REPOSITORY

    def test_two_at_once_both_get_all_of_it(self, tmp_path: Path) -> None:
        """Starts on one machine share a cache, and never see half a copy."""
        uri = self.place(tmp_path, REPOSITORY)

        def resolve() -> None:
            self._holds(self._resolve(tmp_path, uri), REPOSITORY)

        with ThreadPoolExecutor(4) as pool:
            for asked in [pool.submit(resolve) for _ in range(4)]:
                asked.result(_RESOLVE_WITHIN_S)

    def test_tells_progress_in_its_own_words(self, tmp_path: Path) -> None:
        """Each report is a `Progress`, and never says more than the whole."""
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


_VALUE = " hunter2-\u00e4-\N{SNOWMAN} "


class SecretStoreContract:
    """Set `factory` and `settings`; override `seed` for a read-only store."""

    factory: SecretStoreFactory
    settings: Mapping[str, Any] = {}
    writable: bool = True
    empty: bool = True
    """Whether an empty value can be stored; if not, `write` must raise `ProviderError`."""

    def make(self, tmp_path: Path) -> SecretStore:
        """Return the store under test, made by its factory; empty, or as `seed` left it."""
        made = self.factory.settings(**self.settings)
        return self.factory.create(made, client_context(tmp_path))

    def seed(self, tmp_path: Path, values: Mapping[str, str]) -> SecretStore:
        """Return a store that holds *values*."""
        store = self.make(tmp_path)
        for name, value in values.items():
            store.write(name, value)
        return store

    def test_lists_names_in_order(self, tmp_path: Path) -> None:
        """The list is sorted, and has only names."""
        store = self.seed(tmp_path, {"hf": _VALUE, "aws": "two", "ngc": "three"})
        assert store.names() == ("aws", "hf", "ngc")

    def test_gives_back_what_was_stored(self, tmp_path: Path) -> None:
        """`reveal` returns every character of it."""
        assert self.seed(tmp_path, {"hf": _VALUE}).read("hf").reveal() == _VALUE

    def test_never_shows_a_value(self, tmp_path: Path) -> None:
        """Neither the secret nor the store shows it when printed, formatted or logged."""
        store = self.seed(tmp_path, {"hf": _VALUE})
        secret = store.read("hf")
        for shown in (repr(secret), str(secret), f"{secret}", f"{[secret]}", repr(store)):
            assert _VALUE not in shown
            assert repr(_VALUE)[1:-1] not in shown

    def test_a_missing_name_is_said(self, tmp_path: Path) -> None:
        """`NotFoundError` has the missing name, and no value."""
        store = self.seed(tmp_path, {"hf": _VALUE})
        with pytest.raises(NotFoundError) as caught:
            store.read("no-such-name")
        assert "no-such-name" in str(caught.value)
        assert _VALUE not in str(caught.value)

    def test_writing_replaces_or_is_refused_in_words(self, tmp_path: Path) -> None:
        """A later value wins; a read-only store raises `ProviderError` and keeps the old one."""
        store = self.seed(tmp_path, {"hf": _VALUE})
        if self.writable:
            store.write("hf", "new")
            assert store.read("hf").reveal() == "new"
            assert store.names() == ("hf",)
        else:
            with pytest.raises(ProviderError) as caught:
                store.write("hf", "new-value")
            assert "new-value" not in str(caught.value)
            assert store.read("hf").reveal() == _VALUE

    @for_any(examples=20, value=texts)
    def test_keeps_any_text(self, tmp_path: Path, value: str) -> None:
        """A value may be empty or long, have newlines, or be beyond ASCII."""
        if not value and not self.empty:
            with pytest.raises(ProviderError):
                self.seed(tmp_path, {"any": value})
            return
        assert self.seed(tmp_path, {"any": value}).read("any").reveal() == value

    def test_one_secret_is_not_another(self, tmp_path: Path) -> None:
        """Each name has its own value."""
        store = self.seed(tmp_path, {"one": "1", "two": "2"})
        assert [store.read(name).reveal() for name in ("one", "two", "one")] == ["1", "2", "1"]
