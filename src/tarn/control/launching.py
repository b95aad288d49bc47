"""What a master launches its instances with, from the files that it was brought."""

import json
from collections.abc import Mapping
from pathlib import Path

from tarn import config
from tarn.domain import ClusterSpec, Launch, Secret
from tarn.domain.brought import SECRETS, STAGED

__all__ = ["launch_in"]


def launch_in(directory: Path, spec: ClusterSpec) -> Launch:
    """Return what instances of *spec* run, whose master has its files in *directory*.

    Raises:
        OSError: A file is missing, or cannot be read.
        ValueError: One does not hold what a client writes.
    """
    staged = json.loads((directory / STAGED).read_bytes())
    return Launch(
        spec.models,
        spec.triton,
        spec.instance,
        staged["location"],
        config.spec_hash(spec),
        _secrets(directory / SECRETS),
    )


def _secrets(path: Path) -> Mapping[str, Secret]:
    """Return what instances get beside the spec, by variable."""
    values = json.loads(path.read_bytes()) if path.exists() else {}
    return {variable: Secret(value) for variable, value in values.items()}
