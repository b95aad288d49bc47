"""Whose program listens at a port of this machine, as the kernel tells everybody."""

from collections.abc import Iterator
from pathlib import Path

__all__ = ["listeners"]

NET = Path("/proc/net")
_LISTEN = "0A"
_ADDRESS, _STATE, _USER = 1, 3, 7
"""Columns of ``/proc/net/tcp``."""


def listeners(port: int, net: Path = NET) -> frozenset[int]:
    """Return the user ids of who listens at *port*; empty: nobody does, or it cannot be read."""
    return frozenset(user for table in ("tcp", "tcp6") for user in _users(net / table, port))


def _users(table: Path, port: int) -> Iterator[int]:
    try:
        rows = table.read_text("ascii").splitlines()[1:]
    except OSError:
        return
    for row in rows:
        columns = row.split()
        if columns[_STATE] == _LISTEN and int(columns[_ADDRESS].rpartition(":")[2], 16) == port:
            yield int(columns[_USER])
