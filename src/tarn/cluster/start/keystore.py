"""Read the private key and the certificates of a Java keystore, as PEM.

This module reads JKS itself: the format is that of OpenJDK's
``sun.security.provider.JavaKeyStore``, whose ``KeyProtector`` encrypts the keys. PKCS12, which
keytool writes by default since Java 9, is read by the package cryptography.
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
# From this version of the format on, each certificate is preceded by its type.
_TYPED = 2
# The object ids of ``keyBag`` and ``pkcs8ShroudedKeyBag``. cryptography takes any of several keys
# without an error, so they are counted here.
_PKCS12_KEYS = tuple(bytes.fromhex(f"060b2a864886f70d010c0a01{kind}") for kind in ("01", "02"))
# Bytes of a SHA-1.
_DIGEST = 20
# OpenJDK puts these words into the checksum of every JKS.
_SALT = b"Mighty Aphrodite"


class KeystoreError(ValueError):
    """The keystore cannot be used; the message says why, without a secret."""

    def __init__(self, found: str, *, password: bool = False) -> None:
        super().__init__(found)
        self.password = password
        """Whether another password might help."""


@attrs.frozen
class _Entry:
    """One private key, still encrypted, and its chain in DER."""

    alias: str
    encrypted: bytes = attrs.field(repr=False)
    chain: tuple[bytes, ...]


def opened(data: bytes, password: str) -> bytes:
    """Return the private key in *data*, its certificate and the chain, in PEM.

    Raises:
        KeystoreError: *data* is not a keystore, does not have exactly one private key, or has
            another password.
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
    if len(entries) != 1:
        aliases = ", ".join(sorted(entry.alias for entry in entries))
        raise KeystoreError(
            f"holds {len(entries)} private keys ({aliases})" if entries else "holds no private key"
        )
    key = base64.b64encode(_decrypted(entries[0].encrypted, wide))
    lines = b"\n".join(key[at : at + 64] for at in range(0, len(key), 64))
    pem = b"-----BEGIN PRIVATE KEY-----\n%b\n-----END PRIVATE KEY-----\n" % lines
    return pem + b"".join(ssl.DER_cert_to_PEM_cert(one).encode() for one in entries[0].chain)


class _KeystoreReader:
    """Reads the fields of a keystore one after the other."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def take(self, size: int) -> bytes:
        """Return the next *size* bytes; raises ``ValueError`` at the end."""
        part = self._data[self._at : self._at + size]
        if len(part) != size:
            raise ValueError("it ends too early")
        self._at += size
        return part

    def number(self, size: int = 4) -> int:
        """Return the next *size* bytes as a number."""
        return int.from_bytes(self.take(size), "big")

    def text(self) -> str:
        """Return the next string, which its length precedes."""
        return self.take(self.number(2)).decode("utf-8", "replace")


def _entries(reader: _KeystoreReader) -> Iterator[_Entry]:
    """Yield the private keys; skip trusted certificates."""
    reader.take(len(JKS))
    version, count = reader.number(), reader.number()
    for _ in range(count):
        kind, alias = reader.number(), reader.text()
        reader.take(8)  # when it was made
        if kind == _KEY:
            encrypted = reader.take(reader.number())
            chain = tuple(_certificate(reader, version) for _ in range(reader.number()))
            yield _Entry(alias, encrypted, chain)
        elif kind == _CERTIFICATE:
            _certificate(reader, version)
        else:
            raise ValueError("an entry of an unknown kind")


def _certificate(reader: _KeystoreReader, version: int) -> bytes:
    if version >= _TYPED:
        reader.text()
    return reader.take(reader.number())


def _decrypted(encrypted: bytes, password: bytes) -> bytes:
    """Return a private key (PKCS #8) that ``KeyProtector`` encrypted."""
    try:
        sequence, _ = _element(encrypted)
        _, rest = _element(sequence)  # the algorithm, of which Java has only one
        sealed, _ = _element(rest)
    except (IndexError, ValueError) as error:
        raise KeystoreError("is damaged") from error
    # The key is XORed with a chain of SHA-1s that begins with the salt; a SHA-1 of it follows.
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


def _element(der: bytes) -> tuple[bytes, bytes]:
    """Return the content of the first element of *der*, and the bytes after the element."""
    header, size = 2, der[1]
    if size & 0x80:  # the long form: the low bits say how many bytes hold the length
        count = size & 0x7F
        header, size = 2 + count, int.from_bytes(der[2 : 2 + count], "big")
    content = der[header : header + size]
    if len(content) != size:
        raise ValueError("it ends too early")
    return content, der[header + size :]


def _pkcs12(data: bytes, password: str) -> bytes:
    keys = sum(data.count(kind) for kind in _PKCS12_KEYS)
    try:
        made = None if keys > 1 else _pkcs12_pem(data, password)
    except ImportError as error:
        raise KeystoreError(
            f"is a PKCS12 keystore, and {ProviderMissingError.reason('cryptography', error)}: "
            "pip install 'tarn-orchestrator[keystore]'; or write it as PEM: openssl pkcs12 -in "
            "FILE -noenc -out cert.pem"
        ) from error
    except ValueError as error:
        found = "does not open with this password, or is not a PKCS12 keystore"
        raise KeystoreError(found, password=True) from error
    if made is None:
        raise KeystoreError(f"holds {keys} private keys" if keys > 1 else "holds no private key")
    return made


def _pkcs12_pem(data: bytes, password: str) -> bytes | None:
    """Return private key, certificate and chain in PEM; None without a private key."""
    from cryptography.hazmat.primitives.serialization import (  # noqa: PLC0415 (needs an extra)
        Encoding,
        NoEncryption,
        PrivateFormat,
        pkcs12,
    )

    loaded = pkcs12.load_pkcs12(data, password.encode())
    if loaded.key is None or loaded.cert is None:
        return None
    key = loaded.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    chain = [loaded.cert.certificate]
    others = [one.certificate for one in loaded.additional_certs]
    # PKCS12 keeps certificates in no order, and TLS sends each one's issuer after it.
    while (last := chain[-1]).issuer != last.subject:
        above = [one for one in others if one.subject == last.issuer and one not in chain]
        if not above:
            break
        chain.append(above[0])
    return key + b"".join(one.public_bytes(Encoding.PEM) for one in chain)
