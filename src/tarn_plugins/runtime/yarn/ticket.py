"""The user's Kerberos ticket, as far as it must be told why Hadoop does not take it. Pure.

Java reads ticket caches that are files, and only tells whether it found a valid ticket. The format
is MIT's ("Credential cache file format"), versions 3 and 4; every number is big-endian.
"""

import datetime as dt
import struct
from collections.abc import Iterator, Mapping

import attrs

__all__ = ["Ticket", "cache_file", "read", "why_none"]

_MAGICS = {b"\x05\x03": 3, b"\x05\x04": 4}
_TGT = "krbtgt/"


@attrs.frozen
class Ticket:
    """A ticket that gets other tickets."""

    principal: str
    ends_at: float
    """Unix seconds."""


def cache_file(environ: Mapping[str, str], uid: int) -> str | None:
    """Return the path of the cache that Java reads; None: the named one is not a file."""
    name = environ.get("KRB5CCNAME", "") or f"/tmp/krb5cc_{uid}"  # noqa: S108 (Kerberos's own)
    kind, colon, rest = name.partition(":")
    if not colon or "/" in kind:
        return name
    return rest if kind == "FILE" else None


def why_none(environ: Mapping[str, str], path: str | None, ticket: Ticket | None, at: float) -> str:
    """Return why there is no valid ticket at *at*, in words.

    Args:
        environ: Of the client.
        path: What `cache_file` returned.
        ticket: What lies there; None: nothing that can be read.
        at: Unix seconds.
    """
    if path is None:
        return (
            f"KRB5CCNAME is {environ['KRB5CCNAME']}, but Java reads tickets from files only: "
            "set KRB5CCNAME to FILE:<path> before `kinit`"
        )
    if ticket is None:
        return f"{path} holds none"
    if ticket.ends_at <= at:
        ended = dt.datetime.fromtimestamp(ticket.ends_at, dt.UTC)
        return f"the one of {ticket.principal} ended at {ended:%Y-%m-%d %H:%M} UTC"
    return f"the one of {ticket.principal} in {path} was not accepted"


def read(data: bytes) -> Ticket | None:
    """Return the ticket-granting ticket in a cache that lasts longest; None: there is none."""
    version = _MAGICS.get(data[:2])
    if version is None:
        return None
    reader = _TicketReader(data, 2)
    try:
        if version > 3:  # noqa: PLR2004 (what version 4 has besides)
            reader.skip(reader.number("H"))
        reader.principal()  # whose cache it is
        return max(reader.tickets(version), key=lambda ticket: ticket.ends_at, default=None)
    except (struct.error, ValueError):
        return None


@attrs.define
class _TicketReader:
    data: bytes
    at: int

    def number(self, kind: str) -> int:
        (value,) = struct.unpack_from(f">{kind}", self.data, self.at)
        self.at += struct.calcsize(f">{kind}")
        return int(value)

    def skip(self, size: int) -> bytes:
        if size > len(self.data) - self.at:
            raise ValueError("cut off")
        self.at += size
        return self.data[self.at - size : self.at]

    def principal(self) -> str:
        self.number("I")  # the type of the name
        count = self.number("I")
        realm = self.skip(self.number("I")).decode(errors="replace")
        parts = [self.skip(self.number("I")).decode(errors="replace") for _ in range(count)]
        return f"{'/'.join(parts)}@{realm}"

    def tickets(self, version: int) -> Iterator[Ticket]:
        while self.at < len(self.data):
            client, server = self.principal(), self.principal()
            self.skip(2 if version > 3 else 4)  # noqa: PLR2004 (version 3 writes the type twice)
            self.skip(self.number("I"))  # the session's key
            _auth, _start, ends_at, _renew = (self.number("I") for _ in range(4))
            self.skip(5)  # flags
            for _ in range(2):  # addresses, and what else was authorized
                for _ in range(self.number("I")):
                    self.number("H")
                    self.skip(self.number("I"))
            for _ in range(2):  # the ticket, and a second one
                self.skip(self.number("I"))
            if server.startswith(_TGT):
                yield Ticket(client, float(ends_at))
