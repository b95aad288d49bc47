"""``ref.json`` and its neighbours: what a client keeps of a cluster that runs on YARN."""

import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

from cattrs.errors import BaseValidationError
from cattrs.preconf.json import make_converter

from tarn.domain import Epoch
from tarn.domain.master_files import API_TOKEN, SCRAPE_TOKEN, SPEC, TLS_CA
from tarn.interfaces import ClusterRef
from tarn.triton.folders import private_folder

__all__ = ["FETCHED", "forget", "keep", "read_ref"]

_converter = make_converter()
_converter.register_unstructure_hook(Epoch, str)
_converter.register_structure_hook(Epoch, lambda text, _type: Epoch.parse(text))

FETCHED = (API_TOKEN, SPEC, TLS_CA)
"""What another machine of the owner's fetches from HDFS. No other file of a master's lies there:
the rest travels in the credentials of the submission alone."""
_FILES = ("ref.json", *FETCHED)


def keep(directory: Path, ref: ClusterRef, files: Mapping[str, bytes]) -> None:
    """Write *files*, and last of all *ref*: who finds a reference finds the token next to it."""
    private_folder(directory)
    for name in set(files) & set(_FILES):
        _replace(directory / name, files[name])
    _replace(directory / "ref.json", json.dumps(_converter.unstructure(ref)).encode())


def read_ref(directory: Path) -> ClusterRef | None:
    """Return the kept reference; None where there is none, or none that can be read."""
    try:
        return _converter.structure(json.loads((directory / "ref.json").read_bytes()), ClusterRef)
    except (OSError, ValueError, RecursionError, BaseValidationError):
        return None


def forget(directory: Path, application_id: str) -> None:
    """Remove what is kept of this application; what is kept of a later one stays."""
    ref = read_ref(directory)
    if ref is None or ref.application_id != application_id:
        return
    for name in (*_FILES, SCRAPE_TOKEN):
        (directory / name).unlink(missing_ok=True)
    if not any(directory.iterdir()):
        directory.rmdir()


def _replace(path: Path, data: bytes) -> None:
    """Make *path* hold *data*, mode 0600: either the old or the new, whenever the power goes."""
    # two threads may write it at once: each has a file of its own, which mkstemp makes 0600
    descriptor, made = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".new", dir=path.parent)
    beside = Path(made)
    try:
        with open(descriptor, "wb") as file:  # noqa: PTH123 (a descriptor has no path)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
