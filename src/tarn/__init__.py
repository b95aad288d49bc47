"""Fleets of NVIDIA Triton Inference Server on Hadoop YARN, and on one machine."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tarn import client
    from tarn.cluster import Cluster, connect
    from tarn.domain.spec import ClusterSpec
    from tarn.errors import TarnError
    from tarn.hookspecs import hookimpl

    __version__: str

__all__ = ["Cluster", "ClusterSpec", "TarnError", "__version__", "client", "connect", "hookimpl"]

_HOMES = {
    "Cluster": "tarn.cluster",
    "ClusterSpec": "tarn.domain.spec",
    "TarnError": "tarn.errors",
    "connect": "tarn.cluster",
    "hookimpl": "tarn.hookspecs",
}


def __getattr__(name: str) -> Any:
    """Import on first use (PEP 562), so that ``import tarn`` costs next to nothing."""
    if name == "client":
        return importlib.import_module("tarn.client")
    if name == "__version__":
        return importlib.import_module("tarn.release").version()
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'tarn' has no attribute '{name}'")


def __dir__() -> list[str]:
    """List the public names."""
    return __all__
