"""Example 03: the notebook, executed as its README tells, and what a reader of it sees."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "03_notebook"
NOTEBOOK = EXAMPLE / "fleet.ipynb"
LIMIT_S = 60.0

EXECUTE = """
import sys
import nbformat
from nbclient import NotebookClient

source, folder, target = sys.argv[1:]
notebook = nbformat.read(source, as_version=4)
NotebookClient(notebook, timeout=120, resources={"metadata": {"path": folder}}).execute()
nbformat.write(notebook, target)
"""

pytestmark = pytest.mark.triton


@pytest.fixture
def environ(tmp_path: Path) -> Iterator[dict[str, str]]:
    """An environment whose home is empty; the fleet in it ends with the test."""
    kept = {
        "TARN_HOME": str(tmp_path / "home"),
        "IPYTHONDIR": str(tmp_path / "ipython"),
        "JUPYTER_RUNTIME_DIR": str(tmp_path / "runtime"),
    }
    environ = {**os.environ, **kept}  # noqa: TID251 (a test is an entry point)
    yield environ
    down = [sys.executable, "-m", "tarn", "down", "-c", "shout", "--timeout", "60s"]
    done = subprocess.run(down, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def _cells() -> list[dict[str, Any]]:
    return [cell for cell in json.loads(NOTEBOOK.read_text())["cells"] if "outputs" in cell]


def test_the_notebook_lies_there_without_outputs() -> None:
    """What a run wrote belongs to that run."""
    assert [(cell["outputs"], cell["execution_count"]) for cell in _cells()] == [
        ([], None) for _ in _cells()
    ]


def test_the_notebook_starts_scales_shows_and_ends_a_fleet(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    """Real Tritons, in under a minute; no output holds the api token."""
    pytest.importorskip("nbclient", reason="needs pip install nbclient ipykernel")
    target = tmp_path / "done.ipynb"
    begun_s = time.monotonic()
    command = [sys.executable, "-c", EXECUTE, str(NOTEBOOK), str(EXAMPLE), str(target)]
    done = subprocess.run(
        command, env=environ, capture_output=True, text=True, timeout=180, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert time.monotonic() - begun_s < LIMIT_S
    start, ask, watch, why, verify, events, usage, down = (
        _data(cell) for cell in json.loads(target.read_text())["cells"] if "outputs" in cell
    )
    assert "1 of 1 ready" in start["text/html"]
    assert start["text/plain"].startswith("shout is ready")
    assert ask["text/plain"] == "['HELLO', 'FLEET']"
    assert "2 of 2 ready" in watch["text/html"]
    assert "the size was set by hand to 2" in why["text/plain"]
    assert ", 60 answered, 0 lost" in verify["text/html"]
    assert "instance ready" in events["text/html"]
    assert "shout-0002" in usage["text/html"]
    assert down["text/plain"] == "\"cluster 'shout' ended\""
    assert not (tmp_path / "home" / "clusters" / "shout" / "ref.json").exists()


def _data(cell: dict[str, Any]) -> dict[str, str]:
    """Return the one output of *cell*, each form as one text."""
    (output,) = cell["outputs"]
    return {kind: "".join(lines) for kind, lines in output["data"].items()}
