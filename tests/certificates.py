"""Certificates for tests: an authority of one's own, and what it signs."""

import ipaddress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import attrs
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

HOSTS = ("localhost", "127.0.0.1")
PLAIN = serialization.NoEncryption()


@attrs.frozen
class Issued:
    """A private key and its certificate, each in a file of its own."""

    cert: Path
    key: Path
    certificate: x509.Certificate
    private: ec.EllipticCurvePrivateKey


class Authority:
    """Signs certificates, and keeps them in one directory."""

    def __init__(self, directory: Path, name: str = "authority") -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _named(name)
        builder = _builder(self._name, self._name, self._key, (-1, 30))
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), True)
        usage = x509.KeyUsage(False, False, False, False, False, True, True, False, False)
        builder = builder.add_extension(usage, True)
        own = x509.SubjectKeyIdentifier.from_public_key(self._key.public_key())
        builder = builder.add_extension(own, False)
        self.certificate = builder.sign(self._key, hashes.SHA256())
        self.ca = directory / f"{name}.pem"
        self.ca.write_bytes(self.certificate.public_bytes(serialization.Encoding.PEM))

    def issue(
        self,
        name: str,
        hosts: tuple[str, ...] = HOSTS,
        *,
        days: tuple[float, float] = (-1, 30),
        client: bool = False,
        file: str = "",
    ) -> Issued:
        """Sign a certificate for *name*, valid from and to these days from now."""
        key = ec.generate_private_key(ec.SECP256R1())
        use = ExtendedKeyUsageOID.CLIENT_AUTH if client else ExtendedKeyUsageOID.SERVER_AUTH
        builder = _builder(_named(name), self._name, key, days)
        builder = builder.add_extension(x509.ExtendedKeyUsage([use]), False)
        # Clients from Python 3.13 on insist on it.
        above = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        builder = builder.add_extension(above, False)
        if hosts:
            names = x509.SubjectAlternativeName([_host(host) for host in hosts])
            builder = builder.add_extension(names, False)
        certificate = builder.sign(self._key, hashes.SHA256())
        paths = [self.directory / f"{file or name}.{end}" for end in ("crt", "key")]
        paths[0].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        paths[1].write_bytes(private_pem(key))
        return Issued(*paths, certificate, key)


def private_pem(
    key: ec.EllipticCurvePrivateKey,
    encryption: serialization.KeySerializationEncryption = PLAIN,
) -> bytes:
    """Return a private key as a PEM file."""
    kinds = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    return key.private_bytes(*kinds, encryption)


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    days: tuple[float, float],
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now + timedelta(days=days[0]))
        .not_valid_after(now + timedelta(days=days[1]))
    )


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
