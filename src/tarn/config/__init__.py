"""File, environment and arguments to one `ClusterSpec`, and back to plain data.

The only reader of the environment: `environ` is called by the entry points of processes, and what
it returns is passed on.
"""

from tarn.config.aliases import ALIASES, Alias
from tarn.config.loading import LoadedSpec, load
from tarn.config.process import environ, paths
from tarn.config.showing import dump, explain, schema, spec_hash
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
