"""``ref.json``: how a cluster's master is found again."""

import json
from pathlib import Path

from cattrs.errors import BaseValidationError
from cattrs.preconf.json import make_converter

from tarn.descriptors import shortage
from tarn.domain import Epoch
from tarn.interfaces import ClusterRef
from tarn_plugins.runtime.local.atomic import replace_file

__all__ = ["read_ref", "write_ref"]

_converter = make_converter()
_converter.register_unstructure_hook(Epoch, str)
_converter.register_structure_hook(Epoch, lambda text, _type: Epoch.parse(text))


def write_ref(directory: Path, ref: ClusterRef) -> None:
    """Keep *ref* in *directory*."""
    replace_file(directory / "ref.json", json.dumps(_converter.unstructure(ref)).encode())


def read_ref(directory: Path) -> ClusterRef | None:
    """Return the kept reference; None when there is none, or none that can be read."""
    try:
        return _converter.structure(json.loads((directory / "ref.json").read_bytes()), ClusterRef)
    except (OSError, ValueError, RecursionError, BaseValidationError) as error:
        if shortage(error):
            raise
        return None
