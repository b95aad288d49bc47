"""TLS contexts of masters and clients, and what certificates and addresses say.

Only the standard library is needed: a client also checks a master's certificate with it before
anything starts. A certificate is the mapping that ``ssl.SSLSocket.getpeercert()`` returns.
"""

import ipaddress
import logging
import ssl
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import attrs

from tarn.domain.spec import ApiSpec, TrustedProxy
from tarn.errors import ConfigError, LaunchError
from tarn.plain.master_files import CLIENT_CA, TLS, TLS_CA

__all__ = [
    "LOOPBACK",
    "MasterTls",
    "Network",
    "Trust",
    "common_name",
    "connects",
    "covers",
    "hosts",
    "is_in",
    "known_as",
    "network",
    "of_master",
    "seen_by",
    "server_context",
    "shake",
]

log = logging.getLogger(__name__)

Certificate = Mapping[str, Any]
_HOSTS = ("DNS", "IP Address")


def hosts(certificate: Certificate) -> tuple[str, ...]:
    """Return the hosts of a certificate, with wildcards; without any, no client accepts it."""
    return tuple(name for kind, name in certificate.get("subjectAltName", ()) if kind in _HOSTS)


def common_name(certificate: Certificate | None) -> str:
    """Return the common name of a certificate; empty unless it has exactly one."""
    # Of several names, two programs could take different ones.
    parts = [part for relative in (certificate or {}).get("subject", ()) for part in relative]
    found = [str(value) for kind, value in parts if kind == "commonName"]
    return found[0] if len(found) == 1 and found[0].isprintable() else ""


LOOPBACK = ("127.0.0.1", "localhost")
# ``X509_V_FLAG_NO_CHECK_TIME`` of OpenSSL, for which the standard library has no name.
_NO_CHECK_TIME = 0x200000
# More than the flights of any handshake.
_ROUNDS = 10


Network = ipaddress.IPv4Network | ipaddress.IPv6Network
# ``::ffff:0:0/96`` holds IPv4 addresses in its last 32 bits.
MAPPED = 96


def network(text: str) -> Network:
    """Return the network of an address, with or without a prefix.

    Raises:
        ValueError: It is not an address, or has bits beyond its prefix (``10.0.0.5/24``).
    """
    one = ipaddress.ip_network(text)
    if isinstance(one, ipaddress.IPv6Network) and one.prefixlen >= MAPPED:
        mapped = one.network_address.ipv4_mapped
        if mapped is not None:
            return ipaddress.ip_network(f"{mapped}/{one.prefixlen - MAPPED}")
    return one


def connects(proxies: Iterable[TrustedProxy]) -> Callable[[str], bool]:
    """Return a function that tells whether a numeric address is one of the trusted *proxies*."""
    networks = [network(one.address) for one in proxies]
    return lambda peer: any(is_in(peer, one) for one in networks)


def is_in(peer: str, place: Network) -> bool:
    """Return whether the numeric address *peer* is in *place*; False for other text."""
    try:
        address = ipaddress.ip_address(peer)
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address) in place


@attrs.frozen(eq=False)
class MasterTls:
    """The TLS contexts that a master listens with."""

    # Only trusted proxies with mTLS are asked for a certificate: a browser would ask its user, and
    # YARN's proxy may show a certificate that it signed itself, and would be refused for it.

    plain: ssl.SSLContext
    asking: ssl.SSLContext | None = None
    """Asks for a client certificate, which may be missing, but not wrong."""
    asks: Callable[[str], bool] = lambda _peer: False
    """Returns whether clients from a numeric address are asked for a certificate."""

    def of(self, peer: str) -> ssl.SSLContext:
        """Return the context for a connection from the numeric address *peer*."""
        return self.plain if self.asking is None or not self.asks(peer) else self.asking


def of_master(api: ApiSpec, directory: Path) -> MasterTls | None:
    """Return the contexts of the master in *directory*; None if *api* has no TLS.

    Raises:
        LaunchError: A certificate cannot be used; the master must not start without TLS then.
    """
    if api.tls is None:
        return None
    proxies = [one for one in api.trusted_proxies if one.authenticated_by == "mtls"]
    try:
        plain = server_context(directory / TLS)
        if not proxies:
            return MasterTls(plain)
        return MasterTls(
            plain, server_context(directory / TLS, directory / CLIENT_CA), connects(proxies)
        )
    except OSError as error:
        found = f"its certificate cannot be used on this machine ({error.strerror or error})"
        raise LaunchError("http", found, code="TARN-3720", where="api.tls") from error


def server_context(proof: Path, client_ca: Path | None = None) -> ssl.SSLContext:
    """Return a context for a master: TLS 1.2 or newer.

    Args:
        proof: PEM file with the private key, its certificate and the chain.
        client_ca: PEM file with the authorities of client certificates. A client may come without a
            certificate, but not with an invalid one. None: clients are not asked for one.

    Raises:
        OSError: A file cannot be read or used (``ssl.SSLError`` is an ``OSError``).
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.load_cert_chain(proof, password=lambda: "")  # never ask a terminal
    if client_ca is not None:
        context.verify_mode = ssl.CERT_OPTIONAL
        context.load_verify_locations(client_ca)
        # Each certificate in the file is trusted, also one that is not a root.
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        # The certificate of a resumed session would not be verified again.
        context.num_tickets = 0
        context.options |= ssl.OP_NO_TICKET
    return context


@attrs.frozen
class Trust:
    """The authorities that a client trusts, and its own certificate."""

    ca: Path | None = None
    """PEM file with the authorities or certificates to trust; None: those of the system."""
    cert: Path | None = None
    """PEM file with the client's own certificate; None if it has none."""
    key: Path | None = None
    """PEM file with its private key, unencrypted; None if it is in *cert*."""

    def context(self) -> ssl.SSLContext:
        """Return a client's context: TLS 1.2 or newer, with the host checked.

        Raises:
            ConfigError: A file cannot be read or used (TARN-3720).
        """
        try:
            context = ssl.create_default_context(cafile=None if self.ca is None else str(self.ca))
        except OSError as error:
            raise _useless(self.ca, "no certificates in PEM", error) from error
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        if self.ca is not None:
            # Each certificate in it is trusted, even one that is not a root, or of an old format.
            context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
            context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        if self.cert is not None:
            try:
                context.load_cert_chain(self.cert, self.key, password=lambda: "")
            except OSError as error:
                found = "no PEM certificate with its unencrypted private key"
                raise _useless(self.cert, found, error) from error
        return context


def _useless(path: Path | None, wanted: str, error: OSError) -> ConfigError:
    of_ssl = isinstance(error, ssl.SSLError)
    found = f"holds {wanted}" if of_ssl else f"cannot be read ({error.strerror})"
    return ConfigError(
        found,
        code="TARN-3720",
        where=str(path or "the system's certificates"),
        next_step="Name a file in PEM that you may read.",
    )


def seen_by(ca: str, *, dated: bool = False) -> ssl.SSLContext:
    """Return a client's context that trusts *ca* (PEM), without checking the host.

    Only with *dated* it checks the dates of certificates.

    Raises:
        ssl.SSLError: *ca* has no certificates.
    """
    context = ssl.create_default_context(cadata=ca)
    context.check_hostname = False
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if not dated:
        context.verify_flags = ssl.VerifyFlags(context.verify_flags | _NO_CHECK_TIME)
    return context


def shake(
    server: ssl.SSLContext, client: ssl.SSLContext, host: str | None = None
) -> Mapping[str, Any]:
    """Do a handshake in memory; return the server's certificate as the client sees it.

    Raises:
        ssl.SSLCertVerificationError: The client does not trust the certificate.
        ssl.SSLError: The handshake failed for another reason.
    """
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    asking = client.wrap_bio(back, there, server_hostname=host)
    sides = (asking, server.wrap_bio(there, back, server_side=True))
    for _ in range(_ROUNDS):
        if all([_went_on(side) for side in sides]):  # noqa: C419 (each of them, every time)
            return asking.getpeercert() or {}
    raise ssl.SSLError("the handshake did not finish in time")


def _went_on(side: ssl.SSLObject) -> bool:
    try:
        side.do_handshake()
    except ssl.SSLWantReadError:
        return False
    return True


def covers(server: ssl.SSLContext, ca: str, host: str) -> bool:
    """Return whether clients accept the certificate of *server* for *host*.

    Args:
        server: See `server_context`.
        ca: The authorities that clients trust, in PEM.
        host: A name or a numeric address.
    """
    # By a handshake, which matches names exactly as clients do.
    client = seen_by(ca)
    client.check_hostname = True
    try:
        shake(server, client, host)
    except ssl.SSLCertVerificationError:
        return False
    return True


def known_as(server: MasterTls | None, directory: Path, host: str) -> str:
    """Return the name for a master at *host* that its certificate covers.

    This is *host*, or another loopback name. If the certificate covers none, a warning is logged.
    """
    if server is None:
        return host
    ca = (directory / TLS_CA).read_text("ascii")
    candidates: tuple[str, ...] = (host, *LOOPBACK) if host in LOOPBACK else (host,)
    for name in candidates:
        if covers(server.plain, ca, name):
            return name
    log.warning("no client will trust this master: its certificate does not name '%s'", host)
    return host
