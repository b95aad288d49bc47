"""What a Triton of this machine is started with, besides its arguments. Pure."""

import hashlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from tarn.domain import Launch
from tarn.triton import binary
from tarn.triton.binary import TritonProgram
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
    program: TritonProgram,
    gpus: Sequence[str],
    inherited: Mapping[str, str],
) -> dict[str, str]:
    """Return Triton's whole environment: *inherited*, ours, ``triton.env``, and secrets."""
    environ = binary.environment(program, inherited)
    environ["CUDA_VISIBLE_DEVICES"] = ",".join(gpus)
    environ.pop(MASTER_VARIABLE, None)
    environ.update(launch.triton.env)
    environ.update({name: secret.reveal() for name, secret in launch.secrets.items()})
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
