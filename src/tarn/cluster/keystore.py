"""A keystore of Java's as PEM: the one private key in it, its certificate, and the chain.

JKS is read here; the format is that of OpenJDK's ``sun.security.provider.JavaKeyStore``, its keys
are guarded as in ``KeyProtector``. PKCS12, which keytool has made by default since Java 9 under
either name, is read by the module cryptography.
"""

import base64
import hashlib
import hmac
import ssl
from collections.abc import Iterator

import attrs

from tarn.errors import ProviderMissingError

__all__ = ["JKS", "KeystoreError", "opened"]

JKS = b"\xfe\xed\xfe\xed"
_JCEKS = b"\xce\xce\xce\xce"
_SEQUENCE = b"\x30"
_KEY, _CERTIFICATE = 1, 2
_TYPED = 2
"""From this version on each certificate has its type before it."""
_PKCS12_KEYS = tuple(bytes.fromhex(f"060b2a864886f70d010c0a01{kind}") for kind in ("01", "02"))
"""``keyBag`` and ``pkcs8ShroudedKeyBag``: which of two keys is meant, the module does not ask."""
_DIGEST = 20
_SALT = b"Mighty Aphrodite"


class KeystoreError(ValueError):
    """A keystore cannot be used; the message says why, and holds no secret."""

    def __init__(self, found: str, *, password: bool = False) -> None:
        super().__init__(found)
        self.password = password
        """Whether another password would be the remedy."""


@attrs.frozen
class _Entry:
    """One private key, still guarded, and its chain in DER."""

    alias: str
    guarded: bytes = attrs.field(repr=False)
    chain: tuple[bytes, ...]


def opened(data: bytes, password: str) -> bytes:
    """Return the private key of *data* in PEM, then its certificate and the chain.

    Raises:
        KeystoreError: It is not a keystore, has no private key or several, or the password is
            wrong.
    """
    if data.startswith(JKS):
        return _jks(data, password)
    if data.startswith(_JCEKS):
        raise KeystoreError("is a JCEKS keystore, which cannot hold a TLS certificate")
    if data.startswith(_SEQUENCE):
        return _pkcs12(data, password)
    raise KeystoreError("is neither a JKS nor a PKCS12 keystore")


def _jks(data: bytes, password: str) -> bytes:
    body, seal = data[:-_DIGEST], data[-_DIGEST:]
    wide = password.encode("utf-16-be")
    if not hmac.compare_digest(hashlib.sha1(wide + _SALT + body).digest(), seal):  # noqa: S324 (its format)
        raise KeystoreError("does not open with this password, or is damaged", password=True)
    try:
        entries = tuple(_entries(_KeystoreReader(body)))
    except (IndexError, ValueError) as error:
        raise KeystoreError("is damaged") from error
    entry = _only(entries)
    key = _pem("PRIVATE KEY", _unguarded(entry.guarded, wide))
    return key + b"".join(ssl.DER_cert_to_PEM_cert(one).encode() for one in entry.chain)


def _only(entries: tuple[_Entry, ...]) -> _Entry:
    if len(entries) == 1:
        return entries[0]
    if not entries:
        raise KeystoreError("holds no private key")
    aliases = ", ".join(sorted(entry.alias for entry in entries))
    raise KeystoreError(f"holds {len(entries)} private keys ({aliases})")


class _KeystoreReader:
    """Takes a keystore apart, from its beginning."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def take(self, size: int) -> bytes:
        """Return the next bytes; ``ValueError``: there are not so many."""
        part = self._data[self._at : self._at + size]
        if len(part) != size:
            raise ValueError("it ends too early")
        self._at += size
        return part

    def number(self, size: int = 4) -> int:
        """Return the next *size* bytes as a number."""
        return int.from_bytes(self.take(size), "big")

    def text(self) -> str:
        """Return the next text."""
        return self.take(self.number(2)).decode("utf-8", "replace")


def _entries(reader: _KeystoreReader) -> Iterator[_Entry]:
    """Yield the private keys; trusted certificates are passed over."""
    reader.take(len(JKS))
    version, count = reader.number(), reader.number()
    for _ in range(count):
        kind, alias = reader.number(), reader.text()
        reader.take(8)  # when it was made
        if kind == _KEY:
            guarded = reader.take(reader.number())
            chain = tuple(_certificate(reader, version) for _ in range(reader.number()))
            yield _Entry(alias, guarded, chain)
        elif kind == _CERTIFICATE:
            _certificate(reader, version)
        else:
            raise ValueError("an entry of an unknown kind")


def _certificate(reader: _KeystoreReader, version: int) -> bytes:
    if version >= _TYPED:
        reader.text()
    return reader.take(reader.number())


def _unguarded(guarded: bytes, password: bytes) -> bytes:
    """Return a private key (PKCS #8) from what ``KeyProtector`` made of it."""
    try:
        _, sequence = _element(guarded)
        _, rest = _skipped(sequence)  # which algorithm; there is one
        _, sealed = _element(rest)
    except (IndexError, ValueError) as error:
        raise KeystoreError("is damaged") from error
    salt, hidden, seal = sealed[:_DIGEST], sealed[_DIGEST:-_DIGEST], sealed[-_DIGEST:]
    stream, block = b"", salt
    while len(stream) < len(hidden):
        block = hashlib.sha1(password + block).digest()  # noqa: S324 (its format)
        stream += block
    plain = bytes(a ^ b for a, b in zip(hidden, stream, strict=False))
    if not hmac.compare_digest(hashlib.sha1(password + plain).digest(), seal):  # noqa: S324
        raise KeystoreError(
            "opens with this password, but the private key in it has another password",
            password=True,
        )
    return plain


def _element(der: bytes) -> tuple[int, bytes]:
    """Return tag and content of the element that *der* begins with."""
    header, size = 2, der[1]
    if size & 0x80:
        count = size & 0x7F
        header, size = 2 + count, int.from_bytes(der[2 : 2 + count], "big")
    content = der[header : header + size]
    if len(content) != size:
        raise ValueError("it ends too early")
    return der[0], content


def _skipped(der: bytes) -> tuple[bytes, bytes]:
    """Return the first element's content, and what follows it."""
    _, content = _element(der)
    long = der[1] & 0x80
    header = 2 + (der[1] & 0x7F if long else 0)
    return content, der[header + len(content) :]


def _pem(kind: str, der: bytes) -> bytes:
    text = base64.encodebytes(der).replace(b"\n", b"")
    lines = b"\n".join(text[at : at + 64] for at in range(0, len(text), 64))
    return b"-----BEGIN %b-----\n%b\n-----END %b-----\n" % (kind.encode(), lines, kind.encode())


def _pkcs12(data: bytes, password: str) -> bytes:
    try:
        from tarn.cluster.pkcs12 import pem  # noqa: PLC0415 (needs an extra)
    except ImportError as error:
        raise KeystoreError(
            f"is a PKCS12 keystore, and {ProviderMissingError.reason('cryptography', error)}: "
            "pip install 'tarn-orchestrator[keystore]'; or write it as PEM: openssl pkcs12 -in "
            "FILE -noenc -out cert.pem"
        ) from error

    keys = sum(data.count(kind) for kind in _PKCS12_KEYS)
    if keys > 1:
        raise KeystoreError(f"holds {keys} private keys")
    try:
        made = pem(data, password)
    except ValueError as error:
        found = "does not open with this password, or is not a PKCS12 keystore"
        raise KeystoreError(found, password=True) from error
    if made is None:
        raise KeystoreError("holds no private key")
    return made
