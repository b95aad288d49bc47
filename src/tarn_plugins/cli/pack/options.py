"""What is to be packed, and what the archive is called. Pure."""

import re
from collections.abc import Mapping

import attrs

from tarn.errors import ConfigError

__all__ = [
    "ABOUT",
    "DEFAULT_GLIBC",
    "DEFAULT_PYTHON",
    "Glibc",
    "PackOptions",
    "glibc",
    "name",
    "platform",
]

ABOUT = "tarn-environment.json"
"""The archive's first member: what it is. The runtime that unpacks it reads this name, too."""
DEFAULT_PYTHON = "3.11"
DEFAULT_GLIBC = "2.28"
"""Of RHEL 8 and Debian 10."""
Glibc = tuple[int, int]
_PLATFORMS = (17, 28, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40)
"""Minor versions for which uv knows a platform ``manylinux_2_<n>``."""
_VERSION = re.compile(r"(\d{1,3})\.(\d{1,3})")
_PYTHON = re.compile(r"3\.(\d{1,3})(?:\.\d{1,3})?")
_OLDEST_PYTHON, _NEWEST_PYTHON = 11, 13
_MACHINES = ("x86_64", "aarch64")


@attrs.frozen
class PackOptions:
    """What an archive is to hold."""

    python: str = DEFAULT_PYTHON
    """A version that uv brings, or the directory of an interpreter that runs from anywhere."""
    glibc: Glibc = (2, 28)
    """The oldest C library among the nodes."""
    extras: tuple[str, ...] = ("yarn",)
    """Extras of tarn, sorted."""
    requirements: tuple[str, ...] = ()
    """Further packages, as pip writes them."""
    java: str = ""
    """Directory of a JDK or JRE of which a Java goes into the archive; empty: none."""
    machine: str = attrs.field(default="x86_64")

    @machine.validator
    def _known(self, _attribute: object, value: str) -> None:
        if value not in _MACHINES:
            raise ConfigError(
                f"archives can be made on {' and '.join(_MACHINES)}, and this machine is {value}",
                next_step="Pack on a machine like the nodes.",
            )

    @property
    def version(self) -> str:
        """The version of Python that is asked for; empty where a directory is named."""
        return self.python if _PYTHON.fullmatch(self.python) else ""


def glibc(text: str) -> Glibc:
    """Read a version such as ``2.28``.

    Raises:
        ConfigError: It is none, or older than any platform that wheels are made for.
    """
    found = _VERSION.fullmatch(text)
    if found is None or (int(found[1]), int(found[2])) < (2, _PLATFORMS[0]):
        raise ConfigError(
            f"'{text}' is not a version of glibc that wheels are made for",
            where="--glibc",
            right=f"2.{_PLATFORMS[0]} or newer, such as {DEFAULT_GLIBC}",
            next_step="`ldd --version` on a node shows it.",
        )
    return int(found[1]), int(found[2])


def python(text: str) -> str:
    """Check a version such as ``3.11`` or ``3.11.9``; anything with a slash is a directory.

    Raises:
        ConfigError: It is neither, or a Python that tarn does not run on.
    """
    found = _PYTHON.fullmatch(text)
    if "/" in text or (found and _OLDEST_PYTHON <= int(found[1]) <= _NEWEST_PYTHON):
        return text
    raise ConfigError(
        f"'{text}' is not a Python that tarn runs on",
        where="--python",
        right=f"3.{_OLDEST_PYTHON} to 3.{_NEWEST_PYTHON}, or a directory such as /opt/python3.11",
    )


def platform(order: PackOptions) -> str:
    """Return the platform of the newest wheels that *order*'s nodes can load."""
    major, minor = order.glibc
    known = [n for n in _PLATFORMS if n <= minor] if major == 2 else _PLATFORMS  # noqa: PLR2004
    return f"{order.machine}-manylinux_2_{known[-1]}"


def name(about: Mapping[str, object], digest: str) -> str:
    """Return what the archive is called: *digest* is its content's, so no two differ in it only."""
    python = ".".join(str(about["python"]).split(".")[:2])
    return f"tarn-{about['tarn']}-py{python}-glibc{about['glibc']}-{digest[:12]}.tar.gz"
