"""What a Triton of this machine is started with, besides its arguments. Pure."""

import hashlib
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from tarn.domain import Launch
from tarn_plugins.runtime.local.binary import Program
from tarn_plugins.runtime.local.procfs import (
    DIRECTORY_VARIABLE,
    INSTANCE_VARIABLE,
    MASTER_VARIABLE,
)

__all__ = ["LOOPBACK", "environment", "masters_own", "shm_prefix"]

LOOPBACK = "127.0.0.1"


def environment(  # noqa: PLR0913 (what differs between two instances, all by keyword)
    launch: Launch,
    *,
    instance_id: str,
    directory: Path,
    program: Program,
    gpus: Sequence[str],
    inherited: Mapping[str, str],
) -> dict[str, str]:
    """Return Triton's whole environment: *inherited*, ours, and ``triton.env``, which wins."""
    environ = dict(inherited)
    if program.library_path:
        before = environ.get("LD_LIBRARY_PATH", "")
        environ["LD_LIBRARY_PATH"] = _joined([*program.library_path, before])
        # The stub's interpreter imports model.py first of all; it takes its packages from where
        # `python3` is on PATH.
        folders = [str(Path(sys.executable).parent), environ.get("PATH", "")]
        environ["PATH"] = _joined(folders)
    environ["CUDA_VISIBLE_DEVICES"] = ",".join(gpus)
    environ.pop(MASTER_VARIABLE, None)
    environ.update(launch.triton.env)
    environ[INSTANCE_VARIABLE] = instance_id
    environ[DIRECTORY_VARIABLE] = str(directory)
    return environ


def masters_own(environ: Mapping[str, str], api_token: str) -> dict[str, str]:
    """Return what of a master's *environ* an instance may inherit: not the token it names."""
    kind, _, name = api_token.partition(":")
    secret = name if kind == "env" else None
    return {key: value for key, value in environ.items() if key != secret}


def shm_prefix(directory: Path, instance_id: str) -> str:
    """Return how the names of an instance's shared memory begin: unique on this machine."""
    of = hashlib.sha256(os.fsencode(directory)).hexdigest()[:8]
    return f"tarn_{of}_{instance_id}_"


def _joined(folders: Iterable[str]) -> str:
    return ":".join(filter(None, folders))
