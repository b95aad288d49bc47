"""What a secret store promises: values come back whole, and are never shown."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tarn.errors import NotFoundError, ProviderError
from tarn.hookspecs import SecretStoreFactory
from tarn.interfaces import SecretStore
from tarn.testing.context import client_context
from tarn.testing.strategies import for_any, texts

__all__ = ["SecretStoreContract"]

_VALUE = " hunter2-\u00e4-\N{SNOWMAN} "


class SecretStoreContract:
    """Set `factory` and `settings`; a store that cannot be written overrides `seed`."""

    factory: SecretStoreFactory
    settings: Mapping[str, Any] = {}
    writable: bool = True
    empty: bool = True
    """Whether an empty value can be stored; where it cannot, that is said."""

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
        """Names are sorted, and are all that is listed."""
        store = self.seed(tmp_path, {"hf": _VALUE, "aws": "two", "ngc": "three"})
        assert store.names() == ("aws", "hf", "ngc")

    def test_gives_back_what_was_stored(self, tmp_path: Path) -> None:
        """Only `reveal` gives it, to the last character."""
        assert self.seed(tmp_path, {"hf": _VALUE}).read("hf").reveal() == _VALUE

    def test_never_shows_a_value(self, tmp_path: Path) -> None:
        """Neither secret nor store shows it when printed, formatted or logged."""
        store = self.seed(tmp_path, {"hf": _VALUE})
        secret = store.read("hf")
        for shown in (repr(secret), str(secret), f"{secret}", f"{[secret]}", repr(store)):
            assert _VALUE not in shown
            assert repr(_VALUE)[1:-1] not in shown

    def test_a_missing_name_is_said(self, tmp_path: Path) -> None:
        """`NotFoundError` names what is missing, and shows no value."""
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
        """Empty, long, with line ends, beyond ASCII: a value is not interpreted."""
        if not value and not self.empty:
            with pytest.raises(ProviderError):
                self.seed(tmp_path, {"any": value})
            return
        assert self.seed(tmp_path, {"any": value}).read("any").reveal() == value

    def test_one_secret_is_not_another(self, tmp_path: Path) -> None:
        """Each name has its own value."""
        store = self.seed(tmp_path, {"one": "1", "two": "2"})
        assert [store.read(name).reveal() for name in ("one", "two", "one")] == ["1", "2", "1"]
