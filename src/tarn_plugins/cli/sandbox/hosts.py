"""The sandbox's host names in ``/etc/hosts``."""

import os
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO

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
        with file.open("ab+") as out:  # appended, whatever was read before
            out.write(f"{_unended(out)}{lines}".encode())
    except OSError as error:
        raise _not_there(absent, file, error.strerror or "cannot be written") from error
    still = missing(absent, found)
    if still:
        raise _not_there(
            still, file, "an earlier line, or another source of names, takes precedence"
        )


def _unended(file: IO[bytes]) -> str:
    """Return what ends the last line of *file*: nothing, where it ends with a newline already."""
    if file.seek(0, os.SEEK_END) == 0:
        return ""
    file.seek(-1, os.SEEK_END)
    return "" if file.read(1) == b"\n" else "\n"


def _not_there(absent: Mapping[str, str], file: Path, why: str) -> ProviderError:
    lines = "\n".join(f"{address} {name}" for name, address in absent.items())
    return ProviderError(
        "sandbox",
        f"{len(absent)} host names of the sandbox do not have their addresses ({why})",
        code="TARN-3503",
        where=str(file),
        next_step=f"Add these lines to it:\n{lines}",
    )
