"""Make an archive, step by step."""

import json
import os
import shutil
import subprocess
import tarfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import attrs

from tarn.errors import ConfigError, ProviderError, TarnError
from tarn.release import version
from tarn_plugins.cli.pack import fitness, java, tree
from tarn_plugins.cli.pack.options import ABOUT, PackOptions, name
from tarn_plugins.cli.pack.uv import Uv, requirement

__all__ = ["make"]

_STARTS_S = 60.0
_MOST_SHOWN = 8
_ALWAYS = ("tarn.master", "tarn.triton.start", "tarn.http.app")
# Extra -> modules that it must bring.
_OF_EXTRAS: Mapping[str, tuple[str, ...]] = {
    "yarn": ("jpype", "tarn_plugins.runtime.yarn.master.application"),
    "zookeeper": ("kazoo.client",),
    "haproxy": ("haproxyadmin",),
    "schedule": ("cronsim", "zoneinfo"),
    "local": ("numpy",),
}
_PROBE = """\
import importlib, json, ssl, sys
for module in json.loads(sys.argv[1]):
    importlib.import_module(module)
print(json.dumps([sys.prefix, sys.version.split()[0]]))
"""


@attrs.frozen
class PackResult:
    """An archive, and its description."""

    path: Path
    name: str
    """The name that it shall get."""
    about: Mapping[str, object] = attrs.field(hash=False)
    written: tree.PackedArchive
    packages: Mapping[str, str] = attrs.field(hash=False)
    foreign: tuple[str, ...]
    """Libraries that the nodes must have beyond those of every Linux."""

    @property
    def bytes(self) -> int:
        """Size of the archive."""
        return self.path.stat().st_size


def make(order: PackOptions, uv: Uv, work: Path, say: Callable[[str], None]) -> PackResult:
    """Make the archive in the empty directory *work*, and check that it starts.

    Raises:
        TarnError: A step failed.
        OSError: The disk is full.
    """
    root = work / "tree"
    home = uv.interpreter(order.version) if order.version else _given(order.python)
    say("copying what nodes need of the interpreter")
    python = tree.interpreter(home, root)
    wheels = work / "wheels"
    wanted = [requirement(order, lambda path: uv.wheel(path, wheels)), *order.requirements]
    chosen = uv.resolve(order, python, wanted, work)
    uv.install(order, root / "bin" / "python3", chosen, tree.site_packages(root, python))
    packages = tree.packages(root, python)
    if order.java:
        say("making a Java")
        java.bring(Path(order.java), root / "jre")
    say("checking what every program and library needs")
    needs = fitness.binaries(root)
    if late := fitness.too_new(needs, order.glibc):
        raise _too_new(late, order, root, python)
    about = _about(order, root, packages, needs)
    say("compressing")
    made = work / "made.tar.gz"
    content = json.dumps(about, indent=1, sort_keys=True).encode() + b"\n"
    written = tree.write(root, (ABOUT, content), made)
    say("starting it from another directory")
    shutil.rmtree(root)
    started(made, work / "elsewhere", order.extras)
    called = name(about, written.digest)
    return PackResult(made, called, about, written, packages, fitness.foreign(needs))


def _given(directory: str) -> Path:
    home = Path(directory).expanduser().resolve()
    # The user may have named the interpreter itself.
    home = home.parent.parent if home.is_file() else home
    try:
        tree.version_in(home)
    except FileNotFoundError as error:
        raise ConfigError(
            str(error),
            where=f"--python {directory}",
            right="Expected the directory of an interpreter that runs from anywhere, or a version "
            "that uv brings, such as 3.11",
        ) from error
    return home


def _about(
    order: PackOptions,
    root: Path,
    packages: Mapping[str, str],
    needs: Iterable[fitness.BinaryNeeds],
) -> dict[str, object]:
    # Neither time nor place: the same content must give the same archive.
    told = _python(root / "bin" / "python3", "import sys; print(sys.version.split()[0])")
    needed = fitness.newest(needs)
    return {
        "tarn": version(),
        "python": told.strip(),
        "glibc": ".".join(map(str, order.glibc)),
        "glibc_needed": ".".join(map(str, needed)),
        "machine": order.machine,
        "extras": list(order.extras),
        "java": java.version(Path(order.java)) if order.java else None,
        "packages": dict(packages),
    }


def started(made: Path, elsewhere: Path, extras: Iterable[str]) -> None:
    """Unpack the archive into *elsewhere*, as a node does, and import what a node imports.

    Raises:
        ProviderError: It does not start, or lacks a module (TARN-3199).
    """
    elsewhere.mkdir()
    with tarfile.open(made) as packed:
        packed.extractall(elsewhere, filter="tar")
    modules = [*_ALWAYS, *(module for one in extras for module in _OF_EXTRAS.get(one, ()))]
    prefix, _ = json.loads(_python(elsewhere / "bin" / "python3", _PROBE, json.dumps(modules)))
    if Path(prefix) != elsewhere.resolve():
        raise _unfit(f"it takes its modules from {prefix}, not from where it was unpacked")


def _python(interpreter: Path, program: str, *arguments: str) -> str:
    """Run a program in an empty environment and return what it prints."""
    try:
        done = subprocess.run(
            [str(interpreter), "-I", "-B", "-c", program, *arguments],
            env={},
            cwd=os.sep,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_STARTS_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _unfit(str(error)) from error
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        raise _unfit(said[-1] if said else f"it ended with status {done.returncode}")
    return done.stdout.decode()


def _unfit(found: str) -> ProviderError:
    return ProviderError(
        "pack",
        f"the packed environment does not start: {found}",
        code="TARN-3199",
        next_step="An interpreter given as a directory must also run from any other directory.",
    )


def _too_new(
    late: tuple[fitness.BinaryNeeds, ...], order: PackOptions, root: Path, python: str
) -> TarnError:
    limit = ".".join(map(str, order.glibc))
    owners = tree.owners(root, python)
    lines = [
        f"{owners.get(need.path) or other}: {need.path} needs glibc "
        f"{'.'.join(map(str, need.binary.glibc))}"
        for need in late[:_MOST_SHOWN]
        for other in ["the Java" if need.path.startswith("jre/") else "the interpreter"]
    ]
    more = len(late) - len(lines)
    lines += [f"and {more} more"] if more else []
    highest = ".".join(map(str, late[0].binary.glibc))
    return ProviderError(
        "pack",
        f"these need a newer glibc than {limit}, the nodes':\n  " + "\n  ".join(lines),
        code="TARN-3195",
        next_step=f"Use other versions of them, or pack for newer nodes: --glibc {highest}.",
    )
