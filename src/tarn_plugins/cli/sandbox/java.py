"""Find Java."""

import re
import shutil
from collections.abc import Mapping
from pathlib import Path

from tarn.errors import ProviderError

__all__ = ["find"]

_OLDEST = 11
_VERSION = re.compile(r'^JAVA_VERSION="(?:1\.)?(?P<major>\d+)', re.MULTILINE)
_INSTALL = "Install Java 11 or newer (Debian: apt install default-jre-headless), or set JAVA_HOME."


def find(environ: Mapping[str, str]) -> Path:
    """Return the home of the Java in ``JAVA_HOME``, or of `java` on ``PATH``.

    Raises:
        ProviderError: There is none, or it is too old.
    """
    home = environ.get("JAVA_HOME", "")
    found = f"{home}/bin/java" if home else shutil.which("java", path=environ.get("PATH"))
    if not found or not Path(found).is_file():
        where = f"JAVA_HOME = '{home}' holds no bin/java" if home else "no java on PATH"
        raise ProviderError("sandbox", where, code="TARN-3501", next_step=_INSTALL)
    java = Path(found).resolve().parents[1]
    major = _major(java)
    if major is not None and major < _OLDEST:
        raise ProviderError(
            "sandbox", f"{java} is Java {major}", code="TARN-3501", next_step=_INSTALL
        )
    return java


def _major(home: Path) -> int | None:
    """Return the major version that the installation writes down; None: it does not."""
    try:
        found = _VERSION.search((home / "release").read_text(errors="replace"))
    except OSError:
        return None
    return int(found["major"]) if found else None
