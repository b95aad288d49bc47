"""Secrets in memory."""

import threading

import attrs

from tarn.errors import NotFoundError, ProviderError
from tarn.hookspecs import Factory
from tarn.interfaces import MasterContext, Secret, SecretStore

__all__ = ["FakeSecret", "FakeSecretStore", "FakeSecretStoreSettings", "fake_secret_store_factory"]


class FakeSecret:
    """A value that neither ``repr`` nor ``str`` shows."""

    def __init__(self, value: str) -> None:
        self._value = value

    def __repr__(self) -> str:
        """Return the mask."""
        return "<secret>"

    def reveal(self) -> str:
        """Return the value."""
        return self._value


@attrs.frozen
class FakeSecretStoreSettings:
    """What can be set on the fake secret store."""

    values: dict[str, str] = attrs.field(factory=dict, repr=False, hash=False)
    writable: bool = True


class FakeSecretStore:
    """Keeps a copy of the values it was given; usable from any thread."""

    def __init__(self, settings: FakeSecretStoreSettings | None = None) -> None:
        self.settings = settings or FakeSecretStoreSettings()
        self._lock = threading.Lock()
        self._values = dict(self.settings.values)

    def names(self) -> tuple[str, ...]:
        """Return the names, sorted."""
        with self._lock:
            return tuple(sorted(self._values))

    def read(self, name: str) -> Secret:
        """Return one secret."""
        with self._lock:
            if name not in self._values:
                raise NotFoundError(f"there is no secret '{name}'", where="fake secret store")
            return FakeSecret(self._values[name])

    def write(self, name: str, value: str) -> None:
        """Keep *value*, unless the store is read-only."""
        if not self.settings.writable:
            raise ProviderError("fake", f"'{name}' cannot be written: the store is read-only")
        with self._lock:
            self._values[name] = value


def fake_secret_store_factory(
    kind: type[FakeSecretStore] = FakeSecretStore,
) -> Factory[SecretStore]:
    """Return a factory of secret stores of *kind*."""

    def create(settings: FakeSecretStoreSettings, _context: MasterContext) -> SecretStore:
        return kind(settings)

    return Factory(FakeSecretStoreSettings, create, "secrets in memory, for tests")
