"""What a Kerberos keytab holds: whose keys, never the keys themselves. Pure.

The format is that of MIT's ``krb5_kt`` files, versions 1 and 2 (MIT Kerberos, "Keytab file
format"): a magic of two bytes, then entries, each behind its length; a negative length is a hole
that a removed entry left.
"""

import struct
from collections.abc import Iterator

import attrs

__all__ = ["KeytabKey", "keytab_keys", "only"]

_MAGICS = (b"\x05\x01", b"\x05\x02")
_NATIVE_1 = "<"
"""Version 1 is in the order of the machine that wrote it; nobody writes it but on such ones."""


@attrs.frozen
class KeytabKey:
    """One key, as far as it may be told."""

    principal: str
    """With its realm, such as ``HTTP/node1.example.com@EXAMPLE.COM``."""
    kvno: int
    """Which key of the principal's it is: the KDC counts them."""
    enctype: int
    """Number of the encryption type (18: aes256-cts-hmac-sha1-96)."""


def keytab_keys(data: bytes) -> tuple[KeytabKey, ...]:
    """Return whose keys the content *data* of a keytab holds, in its order.

    Raises:
        ValueError: It is not a keytab, or it is cut off.
    """
    order, version = _order(data), data[1:2]
    return tuple(_key(_KeytabReader(entry, order), version[0]) for entry in _entries(data))


def only(data: bytes, principal: str) -> bytes:
    """Return a keytab with those entries of *data* that are of *principal*, as they are there.

    Raises:
        ValueError: As `keytab_keys`.
    """
    order = _order(data)
    mine = (
        struct.pack(f"{order}i", len(entry)) + entry
        for entry, key in zip(_entries(data), keytab_keys(data), strict=True)
        if key.principal == principal
    )
    return data[:2] + b"".join(mine)


def _order(data: bytes) -> str:
    if data[:2] not in _MAGICS:
        raise ValueError("it does not begin as a keytab does")
    return _NATIVE_1 if data[:2] == _MAGICS[0] else ">"


def _entries(data: bytes) -> Iterator[bytes]:
    order, at = _order(data), 2
    while at + 4 <= len(data):
        (size,) = struct.unpack_from(f"{order}i", data, at)
        at += 4
        if size == 0:
            return
        if at + abs(size) > len(data):
            raise ValueError("it is cut off")
        if size > 0:
            yield data[at : at + size]
        at += abs(size)


@attrs.define
class _KeytabReader:
    """Reads one entry from its beginning to its end."""

    data: bytes
    order: str
    at: int = 0

    @property
    def left(self) -> int:
        return len(self.data) - self.at

    def number(self, kind: str) -> int:
        """Return the next number; *kind*: of `struct`."""
        try:
            (value,) = struct.unpack_from(self.order + kind, self.data, self.at)
        except struct.error as error:
            raise ValueError("an entry is cut off") from error
        self.at += struct.calcsize(self.order + kind)
        return int(value)

    def text(self) -> str:
        """Return the next counted string."""
        return self.skip(self.number("H")).decode(errors="replace")

    def skip(self, size: int) -> bytes:
        """Return the next *size* bytes."""
        if size > self.left:
            raise ValueError("an entry is cut off")
        self.at += size
        return self.data[self.at - size : self.at]


def _key(entry: _KeytabReader, version: int) -> KeytabKey:
    components = entry.number("H") - (1 if version == 1 else 0)  # version 1 counts the realm
    realm = entry.text()
    name = "/".join(entry.text() for _ in range(components))
    if version > 1:
        entry.number("I")  # the type of the name
    entry.number("I")  # when it was written
    kvno = entry.number("B")
    enctype = entry.number("H")
    entry.skip(entry.number("H"))  # the key
    if entry.left >= 4:  # noqa: PLR2004 (a number that does not fit into eight bits comes last)
        kvno = entry.number("I") or kvno
    return KeytabKey(f"{name}@{realm}", kvno, enctype)
