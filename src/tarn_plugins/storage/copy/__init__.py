"""The storage `copy`: a URI that fsspec knows, copied once by content."""

import importlib
from collections.abc import Mapping

from tarn.hookspecs import StorageFactory, hookimpl
from tarn.interfaces import Storage

__all__ = ["tarn_storages"]


def _create() -> Storage:
    # imports fsspec, which only a copy needs
    storage: Storage = importlib.import_module("tarn_plugins.storage.copy.store").CopyStorage()
    return storage


@hookimpl
def tarn_storages() -> Mapping[str, StorageFactory]:
    """Offer ``copy`` for every scheme that no other storage claims."""
    summary = "any URI that fsspec knows: copied once by content, verified, renamed into place"
    factory = StorageFactory(
        frozenset({"*"}), _create, summary, requires=("fsspec",), extra="local"
    )
    return {"copy": factory}
