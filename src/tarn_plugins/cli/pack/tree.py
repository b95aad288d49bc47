"""What lies where in an environment, and what of it no node ever needs."""

import csv
import io
import os
import re
import shutil
from collections.abc import Collection
from pathlib import Path

__all__ = ["interpreter", "owners", "packages", "site_packages", "version_in"]

_NOT_OF_PYTHON = frozenset(
    {"test", "idlelib", "tkinter", "turtledemo", "turtle.py", "ensurepip", "lib2to3", "pydoc_data"}
    | {"site-packages", "__pycache__", "EXTERNALLY-MANAGED", "__phello__"}
)
"""In ``lib/python3.N``: tests, windows, and what installs packages."""
_NOT_OF_A_MODULE = re.compile(r"(_tkinter|_test\w*|_xxtestfuzz|_ctypes_test|xxlimited\w*)\..*\.so")
_LIBRARY = re.compile(r"libpython3.*\.so.*")
_OF_PACKAGES = re.compile(r".*\.(pyi|a|h|pyx|pxd)|direct_url\.json|uv_cache\.json|REQUESTED")
_DIRECTORIES = frozenset({"tests", "test", "__pycache__"})
_SYSCONFIG = "_sysconfigdata_*.py"
_HOME = re.compile(r"python3\.\d+")


def version_in(home: Path) -> str:
    """Return which Python is in *home*, such as ``3.11``: its standard library tells.

    Raises:
        FileNotFoundError: There is none, or it has no interpreter.
    """
    for path in sorted((home / "lib").glob("python3.*")):
        if _HOME.fullmatch(path.name) and (path / "os.py").is_file():
            version = path.name.removeprefix("python")
            if (home / "bin" / f"python{version}").is_file():
                return version
    raise FileNotFoundError(f"no bin/python3.N with lib/python3.N in {home}")


def site_packages(root: Path, version: str) -> Path:
    """Return where the packages of the environment *root* lie."""
    return root / "lib" / f"python{version}" / "site-packages"


def interpreter(home: Path, root: Path) -> str:
    """Copy what a node needs of the interpreter in *home* to *root*; return its version.

    Raises:
        OSError: It cannot be read, or the disk is full.
    """
    version = version_in(home)
    (root / "bin").mkdir(parents=True)
    (root / "lib").mkdir()
    shutil.copy2(home / "bin" / f"python{version}", root / "bin" / f"python{version}")
    for name in ("python3", "python"):
        (root / "bin" / name).symlink_to(f"python{version}")
    for path in (home / "lib").iterdir():
        if _LIBRARY.fullmatch(path.name):
            shutil.copy2(path, root / "lib" / path.name, follow_symlinks=False)
    standard = root / "lib" / f"python{version}"
    shutil.copytree(
        home / "lib" / f"python{version}", standard, symlinks=True, ignore=_useless_of_python
    )
    for path in standard.glob(_SYSCONFIG):
        # uv writes there where it put the interpreter: no node has that, and every cache another
        path.write_text(path.read_text("utf-8").replace(str(home), "/install"), "utf-8")
    return version


def packages(root: Path, version: str) -> dict[str, str]:
    """Remove what no node needs of the installed packages; return name to version.

    Raises:
        OSError: They cannot be read or removed.
    """
    site = site_packages(root, version)
    shutil.rmtree(site / "bin", ignore_errors=True)
    for folder, folders, files in os.walk(site):
        for name in [one for one in folders if one in _DIRECTORIES]:
            shutil.rmtree(Path(folder, name))
            folders.remove(name)
        for name in files:
            if _OF_PACKAGES.fullmatch(name):
                Path(folder, name).unlink()
    for lock in site.glob(".lock"):
        lock.unlink()
    found = {}
    for info in sorted(site.glob("*.dist-info")):
        _record(info)
        name, _, number = info.name.removesuffix(".dist-info").rpartition("-")
        found[name] = number
    return found


def _useless_of_python(_folder: str, names: Collection[str]) -> set[str]:
    return {
        name
        for name in names
        if name in _NOT_OF_PYTHON or name.startswith("config-") or _NOT_OF_A_MODULE.fullmatch(name)
    }


def _record(info: Path) -> None:
    """Keep what is still there, in order: the list of files named some that came from elsewhere."""
    record = info / "RECORD"
    if not record.is_file():
        return
    rows = csv.reader(io.StringIO(record.read_text("utf-8")))
    kept = sorted(row for row in rows if row and (info.parent / row[0]).exists())
    written = io.StringIO()
    csv.writer(written, lineterminator="\n").writerows(kept)
    record.write_text(written.getvalue(), "utf-8")


def owners(root: Path, version: str) -> dict[str, str]:
    """Return each installed file, relative to *root*, with the package that brought it."""
    site, found = site_packages(root, version), {}
    for record in site.glob("*.dist-info/RECORD"):
        name = record.parent.name.removesuffix(".dist-info").replace("-", " ")
        for row in csv.reader(io.StringIO(record.read_text("utf-8"))):
            found[str((site / row[0]).relative_to(root))] = name
    return found
