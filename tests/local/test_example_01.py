"""Example 01, as its README tells a user to run it."""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "01_local"
PICTURE = ["TARN serves Triton", "on 3 instances since 2026", "Invoice No. 4711: 1,299.50 EUR"]

pytestmark = [
    pytest.mark.triton,
    pytest.mark.skipif(
        importlib.util.find_spec("rapidocr_onnxruntime") is None,
        reason="needs pip install 'tarn-orchestrator[examples]' on Python 3.11 or 3.12",
    ),
]


def _run(environ: Mapping[str, str], *command: str) -> str:
    done = subprocess.run(
        command, env=environ, capture_output=True, text=True, timeout=180, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def tarn(tmp_path: Path) -> str:
    """The command of this very environment."""
    found = shutil.which("tarn", path=str(Path(sys.executable).parent))
    assert found is not None
    return found


@pytest.fixture
def environ(tmp_path: Path, tarn: str) -> Iterator[dict[str, str]]:
    """An environment whose home is empty; the fleet in it ends with the test."""
    kept = {"TARN_HOME": str(tmp_path / "home"), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    environ = {**os.environ, **kept}  # noqa: TID251 (a test is an entry point)
    yield environ
    _run(environ, tarn, "down", "-c", "ocr")


def test_the_text_in_the_picture_is_read(tarn: str, environ: dict[str, str]) -> None:
    """`tarn up`, then main.py: real input, a real model, the text as it stands in the picture."""
    _run(environ, tarn, "up", "-f", str(EXAMPLE / "tarn.yaml"))
    status = json.loads(_run(environ, tarn, "status", "-c", "ocr", "-o", "json"))
    assert [each["state"] for each in status["instances"]] == ["ready", "ready"]
    printed = _run(environ, sys.executable, str(EXAMPLE / "main.py"))
    assert printed.splitlines() == PICTURE
