"""The image of the Docker tests: Debian's smallest system, Python, and Triton from its wheel.

It is made once, without a registry: from the packages of the mirror that apt uses here, and from
the wheel that the extra ``local`` installed. Of its accounts there is root only, so whoever else
runs in it has a uid without a name.
"""

import contextlib
import fcntl
import functools
import hashlib
import importlib.metadata
import inspect
import platform
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path

from servers.debian_packages import mirror as _mirror
from servers.debian_packages import suite as _suite
from servers.docker_daemon import Dockerd
from tarn import config

NAME = "tarn/triton:1"
WHEELS = ("nvidia-pytriton", "numpy")
OURS = f"{sys.version_info.major}.{sys.version_info.minor}"
NEEDED = ("debootstrap", "zstd", "tar", "apt-get")
TRITONSERVER = """\
#!/bin/sh
export LD_LIBRARY_PATH=/opt/triton/libs PYTHONDONTWRITEBYTECODE=1
exec /opt/triton/bin/tritonserver --backend-directory=/opt/triton/backends "$@"
"""
NEEDLESS = ("usr/share/doc", "usr/share/locale", "usr/share/man", "var/cache/apt", "var/lib/apt")
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def lacking() -> str:
    """Return why the image is neither there nor can be made; empty otherwise."""
    for wheel in WHEELS:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            importlib.metadata.version(wheel)
            continue
        return f"there is no {wheel} here: pip install 'tarn-orchestrator[local]'"
    if shutil.which("zstd") is None:
        return "there is no zstd on PATH: apt-get install zstd"
    if _archive().is_file():
        return ""
    for name in NEEDED:
        if shutil.which(name) is None:
            return f"there is no {name} on PATH: the image cannot be made"
    known = subprocess.run(
        ["apt-cache", "show", f"libpython{OURS}"], check=False, capture_output=True
    )
    if known.returncode:
        return f"this system's packages have no Python {OURS}, which Triton's wheel is here for"
    return ""


def load(dockerd: Dockerd) -> None:
    """Give *dockerd* the image; the first time it is made, which takes a minute or two."""
    archive = _archive()
    with one_maker():
        if not archive.is_file():
            _make(archive)
    # Not in /: a Python inside another program looks for its library from where it stands, finds
    # /lib, which is a link, and takes / for the prefix of everything.
    changes = ("--change=WORKDIR /tmp", f"--change=ENV PATH={PATH}", '--change=CMD ["/bin/bash"]')
    with subprocess.Popen(["zstd", "-dc", str(archive)], stdout=subprocess.PIPE) as unpacked:
        dockerd.docker("import", *changes, "-", NAME, stdin=unpacked.stdout)
    assert unpacked.returncode == 0, f"{archive} is not a whole image; remove it"


@contextlib.contextmanager
def one_maker() -> Iterator[None]:
    """Wait until no other worker or session of tests makes an image; look for it inside."""
    folder = _cache()
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _cache() -> Path:
    return config.paths(config.environ()).cache / "docker"


@functools.cache
def _archive() -> Path:
    """Return where the image lies: another recipe, another name."""
    versions = [f"{name}={importlib.metadata.version(name)}" for name in WHEELS]
    made_by = (_system, keep_root_only, _triton)
    steps = [*(inspect.getsource(step) for step in made_by), TRITONSERVER, *NEEDLESS]
    recipe = [*steps, *versions, _suite(), platform.machine(), OURS]
    of = hashlib.sha256("\n".join(recipe).encode()).hexdigest()[:16]
    return _cache() / f"triton-{of}.tar.zst"


def _make(archive: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="tarn-image-") as folder:
        root = Path(folder, "root")
        _system(root)
        _triton(root)
        draft = archive.with_suffix(".draft")
        packed = subprocess.Popen(
            ["tar", "-C", str(root), "--one-file-system", "--numeric-owner", "-c", "."],
            stdout=subprocess.PIPE,
        )
        with packed:
            subprocess.run(
                ["zstd", "-q", "-3", "-f", "-o", str(draft)], stdin=packed.stdout, check=True
            )
        assert packed.returncode == 0
        draft.replace(archive)
    for old in archive.parent.glob("triton-*.tar.zst"):
        if old != archive:
            old.unlink()


def _system(root: Path) -> None:
    """Put Debian into *root*; its log is shown where that fails."""
    packages = f"--include=python{OURS}-minimal,python{OURS},libpython{OURS}"
    done = subprocess.run(
        ["debootstrap", "--variant=minbase", packages, _suite(), str(root), _mirror()],
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    log = root / "debootstrap" / "debootstrap.log"
    tail = log.read_text(errors="replace")[-1500:] if log.is_file() else ""
    assert done.returncode == 0, f"debootstrap fails:\n{done.stdout[-1500:]}\n{tail}"
    for each in NEEDLESS:
        shutil.rmtree(root / each, ignore_errors=True)
    keep_root_only(root / "etc")


def keep_root_only(etc: Path) -> None:
    """Take every account but root's out of the files in *etc*."""
    for name in ("passwd", "shadow"):
        lines = (etc / name).read_text().splitlines(keepends=True)
        (etc / name).write_text("".join(line for line in lines if line.startswith("root:")))


def _triton(root: Path) -> None:
    """Put Triton and its Python backend there, as the image of NVIDIA has them: on PATH."""
    site = Path(sysconfig.get_path("platlib"))
    wheel, target = site / "pytriton" / "tritonserver", root / "opt" / "triton"
    shutil.copytree(wheel / "bin", target / "bin")
    shutil.copytree(site / "nvidia_pytriton.libs", target / "libs")
    shutil.copytree(wheel / "backends", target / "backends")
    stub = "triton_python_backend_stub"
    shutil.copy(wheel / "python_backend_stubs" / OURS / stub, target / "backends" / "python" / stub)
    # The stub ignores PYTHONPATH: what models import must lie where the image's Python looks.
    packages = root / "usr" / "local" / "lib" / f"python{OURS}" / "dist-packages"
    for name in ("numpy", "numpy.libs"):
        if (site / name).is_dir():
            shutil.copytree(site / name, packages / name)
    program = root / "usr" / "bin" / "tritonserver"
    program.write_text(TRITONSERVER)
    for each in (program, target / "bin" / "tritonserver", target / "backends" / "python" / stub):
        each.chmod(0o755)
