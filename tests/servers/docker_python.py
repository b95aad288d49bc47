"""A Python with tarn that every user of the machine can run, as on nodes it must be.

The one that runs the tests may lie in somebody's home. Its files are linked, not copied, where the
file system allows it: Triton's wheel alone has 150 MB.
"""

import importlib.metadata
import os
import shutil
import subprocess
import sys
from pathlib import Path

from packaging.requirements import Requirement

import tarn
import tarn_plugins

EXTRAS = ("yarn", "local")
"""What a master needs, and a tritonserver without Docker."""
COMPILES = """
import contextlib, importlib, pkgutil, tarn, tarn_plugins
for package in (tarn, tarn_plugins):
    for found in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        if "__main__" not in found.name:
            with contextlib.suppress(ImportError):
                importlib.import_module(found.name)
"""
"""A master's user may not write here: without this each start would compile everything again."""
OURS = f"python{sys.version_info.major}.{sys.version_info.minor}"


def lacking(user: str) -> str:
    """Return why *user* cannot be given a Python; empty when it can."""
    if _found(user):
        return ""
    return f"user {user} can run no {OURS} with its standard library: apt-get install {OURS}"


def make(folder: Path, user: str) -> None:
    """Make an environment in *folder* with this tarn and what it needs."""
    python = _found(user)
    assert python is not None
    subprocess.run([python, "-m", "venv", "--without-pip", str(folder)], check=True, timeout=60)
    site = folder / "lib" / OURS / "site-packages"
    for distribution in _needed():
        for file in distribution.files or ():
            source = Path(str(distribution.locate_file(file)))
            parts = file.parts
            if ".." in parts or "__pycache__" in parts or file.suffix == ".pth":
                continue
            if source.is_file() and not (site / Path(*parts)).exists():
                linked(source, site / Path(*parts))
    renew(folder)


def renew(folder: Path) -> None:
    """Put this tarn there, as it is now."""
    for package in (tarn, tarn_plugins):
        source = Path(package.__path__[0])
        target = folder / "lib" / OURS / "site-packages" / source.name
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
    python = folder / "bin" / "python3"
    subprocess.run([python, "-I", "-W", "ignore", "-c", COMPILES], check=True, cwd="/")


def linked(source: Path, target: Path) -> None:
    """Put *source* at *target*, without a copy where that can be; everybody may read it."""
    target.parent.mkdir(parents=True, exist_ok=True)
    found = source.resolve()
    try:
        if not found.stat().st_mode & 0o004:
            raise PermissionError(found)
        os.link(found, target)
    except OSError:
        shutil.copy(found, target)
        target.chmod(target.stat().st_mode | 0o444)


def _found(user: str) -> str | None:
    """Return a Python of our version that *user* can run."""
    own = os.path.realpath(sys.executable)
    for python in (own, f"/usr/bin/{OURS}"):
        try:
            done = subprocess.run(
                [python, "-I", "-c", "import encodings, ssl, venv"],
                check=False,
                capture_output=True,
                user=user,
                env={},
                cwd="/",
            )
        except OSError:
            continue
        if done.returncode == 0:
            return python
    return None


def _needed() -> list[importlib.metadata.Distribution]:
    """Return tarn and what its extras need, as they are installed here."""
    found: dict[str, importlib.metadata.Distribution] = {}
    waiting = [Requirement(f"tarn-orchestrator[{','.join(EXTRAS)}]")]
    seen: set[str] = set()
    while waiting:
        wanted = waiting.pop()
        if str(wanted) in seen:
            continue
        seen.add(str(wanted))
        try:
            one = importlib.metadata.distribution(wanted.name)
        except importlib.metadata.PackageNotFoundError:  # what runs the tests runs without it
            continue
        found[one.name] = one
        for line in one.requires or ():
            child = Requirement(line)
            extras = wanted.extras or {""}
            if child.marker is None or any(child.marker.evaluate({"extra": e}) for e in extras):
                waiting.append(child)
    return list(found.values())
