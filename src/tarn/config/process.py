"""What the process was started with. The one place that reads the environment."""

import os
from collections.abc import Mapping
from pathlib import Path

from tarn.interfaces import Paths

__all__ = ["environ", "paths"]


def environ() -> Mapping[str, str]:
    """Return a copy of the environment; entry points read it once and pass it on."""
    return dict(os.environ)


def paths(environ: Mapping[str, str]) -> Paths:
    """Return where TARN keeps its files: ``TARN_HOME`` and ``XDG_CACHE_HOME`` move them.

    Nothing is created. Without a home directory the current one stands in.
    """
    user = Path(environ.get("HOME") or ".").absolute()
    home = environ.get("TARN_HOME") or user / ".tarn"
    cache = environ.get("XDG_CACHE_HOME") or user / ".cache"
    return Paths(home=Path(home).absolute(), cache=Path(cache).absolute() / "tarn")
