"""Secrets in memory."""

import threading

import attrs

from tarn.errors import NotFoundError, ProviderError
from tarn.hookspecs import SecretStoreFactory
from tarn.interfaces import ClientContext, Secret, SecretStore

__all__ = ["FakeSecretStore", "FakeSecretStoreSettings", "fake_secret_store_factory"]


@attrs.frozen
class FakeSecretStoreSettings:
    """What can be set on the fake secret store."""

    values: dict[str, str] = attrs.field(factory=dict, repr=False, hash=False)
    writable: bool = True
    names: dict[str, str] = attrs.field(factory=dict, hash=False)
    """Name of a secret to the environment variable that instances get."""


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
            return Secret(self._values[name])

    def write(self, name: str, value: str) -> None:
        """Keep *value*, unless the store is read-only."""
        if not self.settings.writable:
            raise ProviderError("fake", f"'{name}' cannot be written: the store is read-only")
        with self._lock:
            self._values[name] = value


def fake_secret_store_factory(
    kind: type[FakeSecretStore] = FakeSecretStore,
) -> SecretStoreFactory:
    """Return a factory of secret stores of *kind*."""

    def create(settings: FakeSecretStoreSettings, _context: ClientContext) -> SecretStore:
        return kind(settings)

    return SecretStoreFactory(
        FakeSecretStoreSettings,
        create,
        "secrets in memory, for tests",
        names=lambda settings: settings.names,
    )
