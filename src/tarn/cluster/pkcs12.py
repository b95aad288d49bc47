"""PKCS12 by the module cryptography: the one place that imports it."""

from cryptography import x509
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    pkcs12,
)

__all__ = ["pem"]


def pem(data: bytes, password: str) -> bytes | None:
    """Return private key, certificate and chain of a keystore in PEM; None: it has no such key.

    Raises:
        ValueError: The password is wrong, or it is not a keystore.
    """
    loaded = pkcs12.load_pkcs12(data, password.encode())
    if loaded.key is None or loaded.cert is None:
        return None
    key = loaded.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    others = [one.certificate for one in loaded.additional_certs]
    chain = _chain(loaded.cert.certificate, others)
    return key + b"".join(one.public_bytes(Encoding.PEM) for one in chain)


def _chain(leaf: x509.Certificate, others: list[x509.Certificate]) -> list[x509.Certificate]:
    """Return *leaf*, then each one's issuer as far as it is there: a keystore has no order."""
    chain = [leaf]
    while (last := chain[-1]).issuer != last.subject:
        above = [one for one in others if one.subject == last.issuer and one not in chain]
        if not above:
            break
        chain.append(above[0])
    return chain
