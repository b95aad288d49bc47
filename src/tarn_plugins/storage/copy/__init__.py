"""The storage `copy`: any URI that fsspec knows, copied once by content."""

import importlib
from collections.abc import Mapping

from tarn.hookspecs import StorageFactory, hookimpl
from tarn.interfaces import Storage

__all__ = ["tarn_storages"]


def _create() -> Storage:
    """Import fsspec only when a copy is really made."""
    storage: Storage = importlib.import_module("tarn_plugins.storage.copy.store").CopyStorage()
    return storage


@hookimpl
def tarn_storages() -> Mapping[str, StorageFactory]:
    """Claim every scheme that nobody else claims."""
    summary = "any URI that fsspec knows: copied once by content, verified, renamed into place"
    factory = StorageFactory(
        frozenset({"*"}), _create, summary, requires=("fsspec",), extra="local"
    )
    return {"copy": factory}
