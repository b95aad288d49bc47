"""Signed requests and Kerberos keytabs. Pure.

A signed request proves that its sender has the api token, without sending it. Over plain HTTP a
client cannot know which program listens at an address: after a master has died, another user's may.
So client and master sign with a key that is derived from the token:

1. The client says ``Authorization: TARN``; the master answers 401 with
   ``WWW-Authenticate: TARN nonce="..."``.
2. Each request carries ``Authorization: TARN p1.NONCE.COUNT.DIGEST.SIGNATURE``. The signature
   covers the method, the host and port as the client reached them, the path with its query, the
   header ``If-Match`` and the digest of the body.
3. The answer carries ``X-TARN-Proof``, made from that signature with the same key, which proves
   that its sender has the token, too.

A signature reveals nothing about the token (which must not be guessable). It is valid once, for one
master, and only at the master's own address, so it cannot be relayed.
"""

import hashlib
import hmac
import re
import struct
from collections.abc import Iterator
from typing import Self

import attrs

__all__ = [
    "ANSWER_HEADER",
    "SCHEME",
    "KeytabKey",
    "RequestProof",
    "SignedParts",
    "answer_proof",
    "keytab_keys",
    "load_balancer_token",
    "only",
    "proof_key",
    "scrape_token",
]

SCHEME = "TARN"
ANSWER_HEADER = "X-TARN-Proof"

_FORM = re.compile(r"p1\.([A-Za-z0-9_-]{1,128})\.([0-9]{1,15})\.([0-9a-f]{64})\.([0-9a-f]{64})")


def proof_key(token: bytes) -> bytes:
    """Return the key, derived from *token*, that signs requests."""
    return hmac.digest(token, b"tarn request proof 1", "sha256")


@attrs.frozen
class SignedParts:
    """The signed parts of a request, besides nonce, count and body."""

    method: str
    host: str
    """The header ``Host`` as it was sent."""
    target: str
    """Path and query as in the request line."""
    if_match: str = ""


@attrs.frozen
class RequestProof:
    """The credentials of one request."""

    nonce: str
    """The nonce that the master gave to this client."""
    count: int
    """The number of the client's request with this nonce, from 1."""
    digest: str
    """SHA-256 of the body in hexadecimal; compared once the body was read."""
    signature: str = attrs.field(default="", repr=False)

    @classmethod
    def of(cls, key: bytes, nonce: str, count: int, body: bytes, parts: SignedParts) -> Self:
        """Return the credentials of a request, signed with *key*."""
        unsigned = cls(nonce, count, hashlib.sha256(body).hexdigest())
        return attrs.evolve(unsigned, signature=unsigned._sign(key, parts))

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Return the proof that *text*, which follows the scheme, contains, or None."""
        found = _FORM.fullmatch(text)
        return None if found is None else cls(found[1], int(found[2]), found[3], found[4])

    def __str__(self) -> str:
        """Return the text that follows the scheme."""
        return f"p1.{self.nonce}.{self.count}.{self.digest}.{self.signature}"

    def made_with(self, key: bytes, parts: SignedParts) -> bool:
        """Tell whether *parts* were signed with *key*."""
        return hmac.compare_digest(self._sign(key, parts), self.signature)

    def _sign(self, key: bytes, parts: SignedParts) -> str:
        said = (
            "request",
            self.nonce,
            str(self.count),
            self.digest,
            parts.method,
            parts.host.lower(),
            parts.target,
            parts.if_match,
        )
        # With a line break in a part, two requests could have the same signature.
        if any("\n" in part for part in said):
            return ""
        return hmac.digest(key, "\n".join(said).encode("utf-8", "surrogatepass"), "sha256").hex()


def load_balancer_token(token: bytes | None) -> bytes:
    """Return the token, derived from the api *token*, of clients of a load balancer.

    Without an api token nothing is secret, and the token only says where a request came from.
    """
    # Derived, so that a load balancer keeps it while one master follows another.
    return hmac.new(token or b"none", b"tarn load balancer 1", "sha256").hexdigest().encode()


def scrape_token(api_token: bytes) -> bytes:
    """Return the token of a scraper, which cannot sign; it gives access to the metrics only."""
    return hmac.digest(api_token, b"tarn scrape token 1", "sha256").hex().encode()


def answer_proof(key: bytes, signature: str) -> str:
    """Return the proof, made with *key*, in the answer to the request with *signature*."""
    return hmac.digest(key, f"answer\n{signature}".encode(), "sha256").hex()


# The format is that of MIT's ``krb5_kt`` files, versions 1 and 2 (MIT Kerberos, "Keytab file
# format"): a magic of two bytes, then entries, each behind its length; a negative length is a hole
# that a removed entry left.
_MAGICS = (b"\x05\x01", b"\x05\x02")
# Version 1 has the byte order of the machine that wrote it; only little-endian ones are read.
_NATIVE_1 = "<"


@attrs.frozen
class KeytabKey:
    """The description of one key, without the key."""

    principal: str
    """With its realm, such as ``HTTP/node1.example.com@EXAMPLE.COM``."""
    kvno: int
    """The number of the principal's key, which the KDC counts."""
    enctype: int
    """Number of the encryption type (18: aes256-cts-hmac-sha1-96)."""


def keytab_keys(data: bytes) -> tuple[KeytabKey, ...]:
    """Return the keys in the content *data* of a keytab, in its order.

    Raises:
        ValueError: *data* is not a keytab, or is truncated.
    """
    order, version = _order(data), data[1:2]
    return tuple(_key(_KeytabReader(entry, order), version[0]) for entry in _entries(data))


def only(data: bytes, principal: str) -> bytes:
    """Return a keytab with only the entries of *principal* in *data*.

    Raises:
        ValueError: As `keytab_keys` does.
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
