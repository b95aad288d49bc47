"""What a transaction is made of, and what a node is found to be."""

import attrs

__all__ = ["CheckVersion", "Create", "Delete", "Operation", "SetData", "ZNode", "size"]

_FRAME = 96
"""Bytes of one operation besides path and data: headers, lengths, flags and a short ACL."""


@attrs.frozen
class ZNode:
    """One node as it was read."""

    data: bytes
    version: int
    owner: int
    """The session that an ephemeral node ends with; 0 for a persistent one."""


@attrs.frozen
class Create:
    """Make a node; fails where there is one."""

    path: str
    data: bytes = b""
    ephemeral: bool = False


@attrs.frozen
class Delete:
    """Remove a node; fails where there is none."""

    path: str
    data: bytes = b""
    """Nothing; every operation has it."""


@attrs.frozen
class SetData:
    """Write a node; fails where its version is another (-1: any)."""

    path: str
    data: bytes = b""
    version: int = -1


@attrs.frozen
class CheckVersion:
    """Fail where the version of a node is another."""

    path: str
    version: int
    data: bytes = b""
    """Nothing; every operation has it."""


Operation = Create | Delete | SetData | CheckVersion


def size(operation: Operation) -> int:
    """Return about how many bytes an operation takes on its way (never fewer, with a short ACL)."""
    return _FRAME + len(operation.path.encode()) + len(operation.data)
