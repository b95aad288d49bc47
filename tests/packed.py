"""Environments that `tarn pack` made for tests: of an interpreter that stands in for uv's own.

The interpreters that uv downloads run from any directory; this one is made from the interpreter of
the tests, and uv brings it by its own means, from a list of downloads that names it alone.
"""

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

from tarn import config

PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
GLIBC = ".".join(os.confstr("CS_GNU_LIBC_VERSION").split()[1].split(".")[:2])
"""This machine's: what is compiled here may need it."""
_SOURCE = Path(__file__).parents[1]


def movable(root: Path) -> Path:
    """Make an interpreter in *root* that runs from any directory; return its home."""
    base, home = Path(sys.base_prefix), root / "python"
    library = home / "lib" / f"python{PYTHON}"
    (home / "bin").mkdir(parents=True)
    (home / "lib").mkdir()
    shutil.copy2(base / "bin" / f"python{PYTHON}", home / "bin" / f"python{PYTHON}")
    for name in ("python3", "python"):
        (home / "bin" / name).symlink_to(f"python{PYTHON}")
    for path in (*(base / "lib").glob("libpython3*.so*"), *_shared_library()):
        shutil.copy2(path, home / "lib" / path.name, follow_symlinks=False)
    useless = shutil.ignore_patterns("test", "__pycache__", "site-packages", "dist-packages")
    shutil.copytree(
        base / "lib" / f"python{PYTHON}", library, ignore=useless, ignore_dangling_symlinks=True
    )
    (library / "site-packages").mkdir()
    _loosen(home, f"{base}/lib".encode())
    return home


def downloads(root: Path) -> Path:
    """Make a list of downloads for uv that has that interpreter only; return its path."""
    home = movable(root)
    archive = root / "python.tar.gz"
    with tarfile.open(archive, "w:gz", compresslevel=1) as tar:
        tar.add(home, "python")
    shutil.rmtree(home)
    major, minor, patch = sys.version_info[:3]
    one = {
        "name": "cpython",
        "arch": {"family": os.uname().machine, "variant": None},
        "os": "linux",
        "libc": "gnu",
        "major": major,
        "minor": minor,
        "patch": patch,
        "prerelease": "",
        "url": archive.as_uri(),
        "sha256": hashlib.sha256(archive.read_bytes()).hexdigest(),
        "variant": None,
        "build": "20260101",
    }
    listed = root / "downloads.json"
    listed.write_text(json.dumps({f"cpython-{major}.{minor}.{patch}-linux": one}))
    return listed


def environ(root: Path) -> dict[str, str]:
    """Return one in which `tarn pack` gets that interpreter; only uv's cache is the user's own."""
    given = config.environ()
    return {
        **given,
        "UV_PYTHON_DOWNLOADS_JSON_URL": str(downloads(root)),
        "TARN_HOME": str(root / "home"),
        "UV_CACHE_DIR": given.get("UV_CACHE_DIR") or str(config.paths(given).cache.parent / "uv"),
        "XDG_CACHE_HOME": str(root / "cache"),
    }


def packed(*options: str) -> Path:
    """Return an archive made with these options; it is kept until the sources change."""
    cache = config.paths(config.environ()).cache / "packed-for-tests"
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        target = cache / f"{_key(options)}.tar.gz"
        if not target.exists():
            for old in cache.glob("*.tar.gz"):
                old.unlink()
            work = cache / "work"
            shutil.rmtree(work, ignore_errors=True)
            work.mkdir()
            try:
                _pack(work, target, options)
            finally:
                shutil.rmtree(work)
        return target


def _pack(work: Path, target: Path, options: tuple[str, ...]) -> None:
    own = ("--python", PYTHON, "--glibc", GLIBC)
    done = subprocess.run(
        [sys.executable, "-m", "tarn", "pack", str(target), *own, *options],
        env=environ(work),
        cwd=work,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def _key(options: tuple[str, ...]) -> str:
    """Return a name for all that goes into an archive."""
    digest = hashlib.sha256(repr((options, sys.version, version("uv"))).encode())
    for path in sorted(_files()):
        digest.update(str(path).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def _files() -> Iterator[Path]:
    yield _SOURCE / "pyproject.toml"
    yield Path(__file__)
    for path in (_SOURCE / "src").rglob("*"):
        if path.is_file() and "__pycache__" not in path.parts:
            yield path


def _shared_library() -> Iterator[Path]:
    """Yield Debian's libpython, which has a directory for each kind of machine."""
    yield from Path(sys.base_prefix, "lib").glob(f"*-linux-gnu/libpython{PYTHON}.so.1.0")


def _loosen(home: Path, where: bytes) -> None:
    """Let programs look for Python's library next to themselves, not where it was built."""
    before, after = where + b"\0", b"$ORIGIN/../lib\0"
    if len(after) > len(before):  # a prefix as short as /usr: the linker needs no path for it
        return
    for path in (*(home / "bin").iterdir(), *home.rglob("*.so*")):
        if path.is_symlink():
            continue
        content = path.read_bytes()
        if before in content:
            path.write_bytes(content.replace(before, after.ljust(len(before), b"\0")))
