"""``tarn.__version__`` is the version of the distribution, and costs an import nothing."""

import importlib.metadata
import subprocess
import sys

import tarn
from tarn.release import DISTRIBUTION

ASK = """
import sys
before = set(sys.modules)
import tarn
print(*sorted(set(sys.modules) - before))
print(tarn.__version__)
"""


def test_the_version_is_that_of_the_distribution() -> None:
    assert tarn.__version__ == importlib.metadata.version(DISTRIBUTION)
    assert "__version__" in dir(tarn)


def test_the_version_is_read_only_when_it_is_asked_for() -> None:
    """A new process, for this one has imported everything."""
    done = subprocess.run(
        [sys.executable, "-c", ASK], check=True, capture_output=True, text=True, timeout=60
    )
    imported, version = done.stdout.splitlines()
    assert {name for name in imported.split() if "metadata" in name or "tarn." in name} == set()
    assert version == tarn.__version__
