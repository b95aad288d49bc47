"""What a master makes of where the last one of its directory listened."""

import contextlib
import logging
import pwd
from collections.abc import Iterator
from pathlib import Path

from tarn.domain.master_files import LAST_PORT
from tarn.http.identity.prepared import brought_token, renewed_token

__all__ = ["CODE", "holders", "keep_port", "last_port", "token_after"]

log = logging.getLogger(__name__)

CODE = "TARN-3773"
NET = Path("/proc/net")
_ADDRESS, _USER, _INODE = 1, 7, 9
"""Columns of ``/proc/net/tcp``."""
_NO_SOCKET = "0"
"""The inode of a connection that nobody holds any more, and that the kernel ends."""


def last_port(directory: Path) -> int | None:
    """Return the port of the last master here: whoever knew its address finds the next one."""
    try:
        port = int((directory / LAST_PORT).read_text("ascii"))
    except (OSError, ValueError):
        return None
    return port if 0 < port < 2**16 else None


def keep_port(directory: Path, port: int) -> None:
    """Note where this master listens."""
    with contextlib.suppress(OSError):  # a full disk: the next master may have another address
        (directory / LAST_PORT).write_text(str(port), "ascii")


def token_after(
    directory: Path, source: str, port: int | None, user: int
) -> tuple[bytes | None, str]:
    """Return the api token, and what is to be told; a new one where a stranger is at *port*.

    What sends a token as it is (a Prometheus, curl) may have sent it there. A new one at every
    takeover would shut out all who hold a copy, and guard against nothing: TARN's own clients send
    it to nobody who has not proven to hold it.

    Args:
        directory: The cluster's.
        source: ``api.token``; only a generated token is changed.
        port: The last master's, which is taken; None: it is not.
        user: Who runs this master; a port that this user's own programs hold says nothing.

    Raises:
        LaunchError: A new token cannot be written.
    """
    token = brought_token(directory)
    users = frozenset[int]() if port is None else holders(port)
    if token is None or port is None or users == {user}:
        return token, ""
    who = ", ".join(f"user {_name(one)}" for one in sorted(users)) or "somebody"
    found = f"{who} holds port {port}, where the last master listened"
    if source == "auto":
        token = renewed_token(directory)
        found += (
            ": the cluster has a new api token, in the file of the old one. Give it to "
            "everybody who has a copy of the old one"
        )
    else:
        found += (
            ": a program that sent the api token there in clear has disclosed it. Change the "
            f"token (api.token = {source}), then run `tarn down` and `tarn up`"
        )
    log.warning("%s", found)
    return token, found


def holders(port: int, net: Path = NET) -> frozenset[int]:
    """Return the user ids of whose sockets are at *port*, which the kernel tells everybody.

    A connection counts, too, as it keeps the port from others: one to somewhere else that got this
    number by chance, or one that a listener took before it ended. Empty: there is none, or it
    cannot be read.
    """
    return frozenset(user for table in ("tcp", "tcp6") for user in _users(net / table, port))


def _users(table: Path, port: int) -> Iterator[int]:
    try:
        rows = table.read_text("ascii").splitlines()[1:]
    except OSError:
        return
    for row in rows:
        columns = row.split()
        here = int(columns[_ADDRESS].rpartition(":")[2], 16) == port
        if here and columns[_INODE] != _NO_SOCKET:
            yield int(columns[_USER])


def _name(user: int) -> str:
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return str(user)
