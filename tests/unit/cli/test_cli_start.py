import os
import subprocess
import sys

import pytest

HEAVY = ("httpx", "starlette", "uvicorn", "asyncio", "pluggy", "tritonclient")


def modules(*arguments: str) -> set[str]:
    """Return what a fresh interpreter imports for *arguments*."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", *arguments],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return {line.rpartition("|")[2].strip().partition(".")[0] for line in done.stderr.splitlines()}


def test_importing_tarn_loads_nothing_heavy():
    """Names are imported when they are used."""
    loaded = modules("-c", "import tarn")
    assert not loaded & {*HEAVY, "click", "attr", "yaml"}


def test_help_loads_nothing_heavy():
    """The table of verbs is enough for help."""
    loaded = modules("-m", "tarn", "--help")
    assert "click" in loaded
    assert not loaded & {*HEAVY, "yaml"}


def test_a_fork_after_the_import_works():
    """Nothing that a fork breaks is alive after ``import tarn``."""
    import tarn  # noqa: F401, PLC0415

    child = os.fork()
    if child == 0:
        os._exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["help"]])
def test_runs_as_a_module(arguments):
    """``python -m tarn`` is ``tarn``."""
    done = subprocess.run(
        [sys.executable, "-m", "tarn", *arguments],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout.startswith(("Usage: tarn", "tarn, version"))
