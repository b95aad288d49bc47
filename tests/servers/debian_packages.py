"""Packages of another Debian release, unpacked into a folder: nothing is installed.

A program that needs a newer C library than this machine's runs with the one unpacked next to it.
"""

import contextlib
import fcntl
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import attrs

from tarn import config

__all__ = ["PackagesMissingError", "UnpackedPackages", "mirror", "suite", "unpacked"]


class PackagesMissingError(Exception):
    """The packages are not there and cannot be fetched; its text says why."""


@attrs.frozen
class UnpackedPackages:
    """Where packages were unpacked."""

    root: Path

    def command(self, program: Path | str, *arguments: str) -> list[str]:
        """Return the command line of *program* under the C library in this folder.

        Args:
            program: A path; one without a leading slash lies in this folder.
            arguments: Its own.
        """
        folder = self.root / "usr" / "lib" / f"{platform.machine()}-linux-gnu"
        (loader,) = folder.glob("ld-linux*.so.?")
        path = self.root / program  # an absolute path stays as it is
        return [str(loader), "--library-path", str(folder), str(path), *arguments]


def suite() -> str:
    """Return the codename of this machine's release; empty without one."""
    return str(platform.freedesktop_os_release().get("VERSION_CODENAME", ""))


def mirror() -> str:
    """Return the mirror that apt uses for this release's main packages; empty without one.

    apt itself is asked: its sources have two syntaxes and many files.
    """
    if shutil.which("apt-get") is None:
        return ""
    said = subprocess.run(
        ["apt-get", "indextargets", "--format", "$(CREATED_BY) $(RELEASE) $(COMPONENT) $(SITE)"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    wanted = ["Packages", suite(), "main"]
    for line in said.splitlines():
        *of, site = line.split()
        if of == wanted:
            return site
    return ""


def unpacked(release: str, *names: str) -> UnpackedPackages:
    """Return packages of a Debian *release*; they are fetched once, into the user's cache.

    Raises:
        PackagesMissingError: This machine's apt does not bring them.
    """
    cache = config.paths(config.environ()).cache
    target = cache / "debian" / "-".join((release, *sorted(names)))
    with _alone(cache):
        if not target.is_dir():
            _fetch(release, names, target)
    return UnpackedPackages(target)


@contextlib.contextmanager
def _alone(cache: Path) -> Iterator[None]:
    """Wait until no other worker or session of tests fetches."""
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "debian.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _fetch(release: str, names: Sequence[str], target: Path) -> None:
    site = mirror()
    if not site:
        raise PackagesMissingError("apt knows no mirror of Debian's packages")
    target.parent.mkdir(parents=True, exist_ok=True)
    # Next to the target, so that it arrives by a rename: whole, or not at all.
    with tempfile.TemporaryDirectory(prefix="fetch-", dir=target.parent) as folder:
        work = Path(folder)
        options = _own_apt(work, f"deb {site} {release} main\n")
        (work / "deb").mkdir()
        _run(["apt-get", *options, "update"], work)
        _run(["apt-get", *options, "download", *names], work / "deb")
        for package in (work / "deb").iterdir():
            _run(["dpkg", "--extract", str(package), str(work / "root")], work)
        (work / "root").rename(target)


def _own_apt(work: Path, sources: str) -> list[str]:
    """Return options by which apt reads *sources* only, and leaves this machine's lists alone."""
    for name in ("state/lists/partial", "cache/archives/partial"):
        (work / name).mkdir(parents=True)
    (work / "sources.list").write_text(sources)
    settings = {
        "Dir::State": work / "state",
        "Dir::State::status": "/dev/null",
        "Dir::Cache": work / "cache",
        "Dir::Etc::sourcelist": work / "sources.list",
        "Dir::Etc::sourceparts": "-",
        "Acquire::Languages": "none",
        "APT::Sandbox::User": "root",  # the account _apt may not enter a user's cache
    }
    return [word for name, value in settings.items() for word in ("-o", f"{name}={value}")]


def _run(argv: list[str], folder: Path) -> None:
    done = subprocess.run(
        argv, check=False, capture_output=True, text=True, cwd=folder, timeout=300
    )
    if done.returncode != 0:
        text = (done.stderr or done.stdout).strip()[-500:]
        raise PackagesMissingError(f"{argv[0]} failed: {text}")
