"""What to pack, and the name of the archive. Pure."""

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

# The archive's first member, which describes it. The runtime that unpacks it reads this file.
ABOUT = "tarn-environment.json"
DEFAULT_PYTHON = "3.11"
# That of RHEL 8 and Debian 10.
DEFAULT_GLIBC = "2.28"
Glibc = tuple[int, int]
# Minor versions for which uv knows a platform ``manylinux_2_<n>``.
_PLATFORMS = (17, 28, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40)
_VERSION = re.compile(r"(\d{1,3})\.(\d{1,3})")
_PYTHON = re.compile(r"3\.(\d{1,3})(?:\.\d{1,3})?")
_OLDEST_PYTHON, _NEWEST_PYTHON = 11, 13
_MACHINES = ("x86_64", "aarch64")


@attrs.frozen
class PackOptions:
    """What an archive shall contain."""

    python: str = DEFAULT_PYTHON
    """A version for uv to download, or the directory of a relocatable interpreter."""
    glibc: Glibc = (2, 28)
    """The oldest C library among the nodes."""
    extras: tuple[str, ...] = ("yarn",)
    """Extras of tarn, sorted."""
    requirements: tuple[str, ...] = ()
    """Further packages, as pip writes them."""
    java: str = ""
    """Directory of the JDK or JRE to pack; empty: none."""
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
        """The requested version of Python; empty if a directory is named."""
        return self.python if _PYTHON.fullmatch(self.python) else ""


def glibc(text: str) -> Glibc:
    """Read a version such as ``2.28``.

    Raises:
        ConfigError: It is not a version, or is older than every platform of wheels.
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
        ConfigError: It is neither, or tarn does not run on this Python.
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
    """Return the newest platform whose wheels the nodes of *order* can load."""
    major, minor = order.glibc
    known = [n for n in _PLATFORMS if n <= minor] if major == 2 else _PLATFORMS  # noqa: PLR2004
    return f"{order.machine}-manylinux_2_{known[-1]}"


def name(about: Mapping[str, object], digest: str) -> str:
    """Return the archive's name, which contains the *digest* of its content."""
    python = ".".join(str(about["python"]).split(".")[:2])
    return f"tarn-{about['tarn']}-py{python}-glibc{about['glibc']}-{digest[:12]}.tar.gz"
