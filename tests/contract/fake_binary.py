"""The fake Triton as an executable, for runtimes that start real processes."""

import sys
from pathlib import Path

from tarn.domain.spec import ModelsSpec, TritonSpec
from tarn.testing.contracts.storage import REPOSITORY, write_files

__all__ = ["fake_models", "fake_triton"]


def fake_triton(tmp_path: Path, **environ: str) -> TritonSpec:
    """Return how the fake Triton is started; *environ* programs it."""
    program = tmp_path / "tritonserver"
    if not program.exists():
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m tarn.testing.fake_triton "$@"\n')
        program.chmod(0o700)
    return TritonSpec(binary=str(program), env=environ, exit_timeout_s=5.0)


def fake_models(tmp_path: Path) -> ModelsSpec:
    """Return a repository with two models."""
    repository = tmp_path / "models"
    if not repository.exists():
        write_files(repository, REPOSITORY)
    return ModelsSpec(str(repository))
