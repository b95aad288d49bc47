"""Bring the interpreter, the packages, and the installed tarn itself, by means of uv.

The program uv comes with the extra ``pack``. It reads its own environment variables
(``UV_DEFAULT_INDEX``, ``UV_PYTHON_INSTALL_MIRROR`` and so on) here, too.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.metadata import Distribution, distribution, distributions
from pathlib import Path
from urllib.parse import unquote, urlsplit

import attrs

from tarn.errors import ConfigError, ProviderError, ProviderMissingError
from tarn.java import mask
from tarn.release import DISTRIBUTION
from tarn_plugins.cli.pack.options import PackOptions, platform

__all__ = ["Uv", "found", "origin", "requirement"]

# For one call; enough to download Triton's wheel of 300 MB over a slow line.
_ENOUGH_S = 1800.0
_KEPT_LINES = 12
_NO_NETWORK = ("dns error", "error sending request", "client error (Connect)", "timed out")
_UNKNOWN = ("No download found", "No interpreter found", "Invalid version request")
_DISK_FULL = "No space left on device"


def found(environ: Mapping[str, str]) -> str:
    """Return the path of uv: next to this Python, or on ``PATH``.

    Raises:
        ProviderMissingError: uv is not installed (TARN-3196).
    """
    near = Path(sys.executable).with_name("uv")
    program = str(near) if near.is_file() else shutil.which("uv", path=environ.get("PATH"))
    if program is None:
        error = ProviderMissingError(
            "pack", "uv is not installed; it downloads the interpreter and the packages",
            next_step="pip install 'tarn-orchestrator[pack]'",
        )  # fmt: skip
        error.code = "TARN-3196"
        raise error
    return program


def here() -> dict[str, str]:
    """Return the packages of this environment, name -> version."""
    return {one.name: one.version for one in distributions() if one.name}


@attrs.frozen
class Uv:
    """The program uv.

    Args:
        program: Its path.
        environ: Its environment.
        pythons: Directory of the interpreters that it downloads.
        say: Reports progress to the user.
    """

    program: str
    environ: Mapping[str, str] = attrs.field(repr=False)
    pythons: Path
    say: Callable[[str], None]

    def interpreter(self, version: str) -> Path:
        """Return the directory of an interpreter of *version*; download it if needed.

        Raises:
            ConfigError: There is no such Python.
            ProviderError: It could not be downloaded (TARN-3196).
        """
        self.say(f"looking for Python {version}")
        where = ("--install-dir", str(self.pythons), "--no-bin", "--managed-python")
        self._run("the interpreter", "python", "install", version, *where)
        options = ("--managed-python", "--no-project", "--no-config")
        told = self._run("the interpreter", "python", "find", *options, version)
        # <home>/bin/python3.N; the home may be a link without the patch version in its name.
        return Path(told.strip()).parent.parent.resolve()

    def wheel(self, source: Path, into: Path) -> Path:
        """Build a wheel of the project in *source* and return it.

        Raises:
            ProviderError: It could not be built.
        """
        self.say(f"building a wheel of {source}")
        self._run("tarn itself", "build", "--wheel", "--out-dir", str(into), str(source))
        (wheel,) = into.glob("*.whl")
        return wheel

    def resolve(self, order: PackOptions, version: str, wanted: Sequence[str], work: Path) -> Path:
        """Return a file with the packages that *wanted* needs, each with its version.

        Raises:
            ProviderError: A package has no wheel for the nodes, or some exclude one another.
        """
        self.say(f"choosing packages for glibc {order.glibc[0]}.{order.glibc[1]}")
        asked, chosen = work / "wanted.in", work / "chosen.txt"
        asked.write_text("".join(f"{one}\n" for one in wanted), "utf-8")
        # uv prefers versions that the output file already has: nodes then run the packages that are
        # installed here, where these have wheels for them.
        others = sorted(one for one in here().items() if one[0] != DISTRIBUTION)
        pins = (f"{name}=={number}\n" for name, number in others)
        chosen.write_text("".join(pins), "utf-8")
        self._run(
            "the packages",
            *("pip", "compile", "--quiet", "--no-header", "--no-annotate", "--no-config"),
            *("--python-version", version, "--output-file", str(chosen)),
            *_wheels_for(order),
            str(asked),
        )
        return chosen

    def install(self, order: PackOptions, python: Path, chosen: Path, into: Path) -> None:
        """Install the packages of the file *chosen*, and nothing else, into a directory.

        Raises:
            ProviderError: A package could not be downloaded.
        """
        self.say("downloading the packages")
        self._run(
            "the packages",
            *("pip", "install", "--quiet", "--no-deps", "--no-config", "--link-mode", "copy"),
            *("--python", str(python), "--target", str(into), "--requirement", str(chosen)),
            *_wheels_for(order),
        )

    def _run(self, what: str, *arguments: str) -> str:
        # The caller's virtual environment is not the target, and errors must not be coloured.
        own = {key: value for key, value in self.environ.items() if key != "VIRTUAL_ENV"}
        own |= {"UV_PYTHON_INSTALL_DIR": str(self.pythons), "NO_COLOR": "1"}
        try:
            done = subprocess.run(
                [self.program, *arguments, "--no-progress"],
                env=own,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_ENOUGH_S,
                check=False,
                cwd=os.sep,  # so that uv reads no project's settings
            )
        except subprocess.TimeoutExpired:
            found = f"uv took more than {_ENOUGH_S / 60:g} minutes"
            raise ProviderError("pack", found, code="TARN-3196", where=what) from None
        except OSError as error:
            found = f"uv could not be started: {error.strerror}"
            raise ProviderError("pack", found, code="TARN-3196", where=what) from error
        if done.returncode:
            raise failure(what, done.stderr.decode(errors="replace"))
        return done.stdout.decode(errors="replace")


def failure(what: str, said: str) -> ConfigError | ProviderError:
    """Return the error for *what* from the text that uv printed. Pure."""
    lines = [mask(line.strip()) for line in said.splitlines() if line.strip()]
    words = "\n  ".join(lines[-_KEPT_LINES:]) or "it printed nothing"
    if _DISK_FULL in said:
        step = "Free some space, or name another place with XDG_CACHE_HOME and UV_CACHE_DIR."
        return ProviderError(
            "pack", f"the disk is full:\n  {words}", code="TARN-3198", next_step=step
        )
    if any(mark in said for mark in _NO_NETWORK):
        return ProviderError(
            "pack",
            f"{what} could not be downloaded:\n  {words}",
            code="TARN-3196",
            next_step="With a mirror set UV_PYTHON_INSTALL_MIRROR (interpreters) or "
            "UV_DEFAULT_INDEX (packages); or name an interpreter that is here: --python DIRECTORY.",
        )
    if any(mark in said for mark in _UNKNOWN):
        return ConfigError(
            f"uv does not have that Python:\n  {words}",
            where="--python",
            next_step="`uv python list --only-downloads` shows what there is.",
        )
    step = "Another --glibc or --python may have wheels; --with 'NAME<VERSION' takes an older one."
    return ProviderError(
        "pack", f"{what} do not fit together:\n  {words}", code="TARN-3197", next_step=step
    )


def _wheels_for(order: PackOptions) -> Iterable[str]:
    return ("--python-platform", platform(order), "--only-binary", ":all:")


def requirement(order: PackOptions, build: Callable[[Path], Path]) -> str:
    """Return tarn with the extras of *order*, as pip writes it.

    Args:
        order: What is to be packed.
        build: Makes a wheel from a project's directory.

    Raises:
        ProviderError: The source of the installation is gone (TARN-3196), or cannot be built.
    """
    return written(order.extras, *origin(distribution(DISTRIBUTION)), build)


def origin(installed: Distribution) -> tuple[str, str]:
    """Return version and source URL (PEP 610) of a distribution; '' for an index."""
    told = installed.read_text("direct_url.json")
    return installed.version, "" if told is None else str(json.loads(told)["url"])


def written(extras: tuple[str, ...], version: str, url: str, build: Callable[[Path], Path]) -> str:
    """Return the requirement of tarn *version* with *extras*, which came from *url*."""
    tarn = f"{DISTRIBUTION}[{','.join(extras)}]"
    if not url:
        return f"{tarn}=={version}"
    parts = urlsplit(url)
    if parts.scheme != "file":
        return f"{tarn} @ {url}"
    path = Path(unquote(parts.path))
    if not path.exists():
        raise ProviderError(
            "pack",
            f"tarn was installed from {path}, which no longer exists",
            code="TARN-3196",
            next_step="Install tarn from an index, or from where its source is now.",
        )
    return f"{tarn} @ {(build(path) if path.is_dir() else path).as_uri()}"
