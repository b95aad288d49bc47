"""A fresh virtual environment with an example installed in it, and this very TARN. Offline."""

import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

__all__ = ["DISCOVERY_EXAMPLE", "EXAMPLE", "workshop"]

EXAMPLE = Path(__file__).parents[1] / "examples" / "02_custom_policy"
DISCOVERY_EXAMPLE = EXAMPLE.parent / "04_discovery"


def workshop(folder: Path, example: Path = EXAMPLE) -> str:
    """Return the Python of the new environment; building uses the hatchling of this one."""
    venv.create(folder, with_pip=True, symlinks=True)
    python = str(folder / "bin" / "python")
    paths = {"base": str(folder), "platbase": str(folder)}
    site = Path(sysconfig.get_path("purelib", scheme="venv", vars=paths))
    # A line that is executed: only `addsitedir` reads the .pth of an editable TARN in turn.
    mine = [sysconfig.get_path("purelib"), sysconfig.get_path("platlib")]
    lines = [f"import site; site.addsitedir({path!r})" for path in dict.fromkeys(mine)]
    (site / "beside.pth").write_text("\n".join(lines) + "\n")
    quiet = ["-q", "--disable-pip-version-check", "--no-deps", "--no-build-isolation"]
    installed = subprocess.run(
        [python, "-m", "pip", "install", *quiet, "--no-index", str(example)],
        check=False, capture_output=True, text=True, timeout=100,
    )  # fmt: skip
    assert installed.returncode == 0, installed.stderr
    assert sys.prefix != str(folder)
    return python
