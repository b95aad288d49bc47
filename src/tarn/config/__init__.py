"""Turn file, environment and arguments into one `ClusterSpec`, and back into plain data.

Only `environ` reads the environment: the entry points of processes call it and pass the result on.
"""

import os
from collections.abc import Mapping
from pathlib import Path

from tarn.config.aliases import ALIASES, Alias
from tarn.config.loading import LoadedSpec, dump, explain, load, schema, spec_hash
from tarn.interfaces import Paths
from tarn.plain import redact

__all__ = [
    "ALIASES",
    "Alias",
    "LoadedSpec",
    "dump",
    "environ",
    "explain",
    "load",
    "paths",
    "redact",
    "schema",
    "spec_hash",
]


def environ() -> Mapping[str, str]:
    """Return a copy of the environment; entry points read it once and pass it on."""
    return dict(os.environ)


def paths(environ: Mapping[str, str]) -> Paths:
    """Return where TARN keeps its files, as ``TARN_HOME`` and ``XDG_CACHE_HOME`` say.

    Creates nothing. Without ``HOME`` the current directory is used.
    """
    user = Path(environ.get("HOME") or ".").absolute()
    home = environ.get("TARN_HOME") or user / ".tarn"
    cache = environ.get("XDG_CACHE_HOME") or user / ".cache"
    return Paths(home=Path(home).absolute(), cache=Path(cache).absolute() / "tarn")
