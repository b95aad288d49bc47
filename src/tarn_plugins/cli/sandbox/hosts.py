"""The sandbox's host names in ``/etc/hosts``."""

import socket
from collections.abc import Callable, Mapping
from pathlib import Path

from tarn.errors import ProviderError

__all__ = ["HOSTS", "ensure", "missing", "resolve"]

HOSTS = Path("/etc/hosts")
_MARK = "# tarn sandbox"


def resolve(name: str) -> str | None:
    """Return the IPv4 address of *name*; None: it has none."""
    try:
        return socket.gethostbyname(name)
    except OSError:
        return None


def missing(wanted: Mapping[str, str], found: Callable[[str], str | None]) -> dict[str, str]:
    """Return those of *wanted* (name -> address) that are not found as they should be. Pure."""
    return {name: address for name, address in wanted.items() if found(name) != address}


def ensure(
    wanted: Mapping[str, str],
    file: Path = HOSTS,
    found: Callable[[str], str | None] = resolve,
) -> None:
    """See to it that every name has its address; lines that lack are added to *file*.

    Raises:
        ProviderError: They lack, and this user may not add them; the message holds them.
    """
    absent = missing(wanted, found)
    if not absent:
        return
    lines = "".join(f"{address} {name} {_MARK}\n" for name, address in absent.items())
    try:
        with file.open("a", encoding="utf-8") as out:
            out.write(lines)
    except OSError as error:
        raise _not_there(absent, file, error.strerror or "cannot be written") from error
    still = missing(absent, found)
    if still:
        raise _not_there(still, file, "an earlier line, or another source of names, wins")


def _not_there(absent: Mapping[str, str], file: Path, why: str) -> ProviderError:
    lines = "\n".join(f"{address} {name}" for name, address in absent.items())
    return ProviderError(
        "sandbox",
        f"{len(absent)} host names of the sandbox have not their addresses ({why})",
        code="TARN-3503",
        where=str(file),
        next_step=f"Have these lines in it:\n{lines}",
    )
