"""TLS of the master's API: what it shows to clients, and what it asks of theirs.

Nothing here needs more than the standard library: a client looks at a certificate with it, too,
before anything starts.
"""

import ipaddress
import logging
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs

from tarn.domain.master_files import CLIENT_CA, TLS, TLS_CA
from tarn.domain.spec import ApiSpec
from tarn.errors import LaunchError

__all__ = [
    "HSTS",
    "LOOPBACK",
    "MasterTls",
    "covers",
    "known_as",
    "of_master",
    "seen_by",
    "server_context",
    "shake",
]

log = logging.getLogger(__name__)

LOOPBACK = ("127.0.0.1", "localhost")
HSTS = (b"strict-transport-security", b"max-age=86400")
"""A day, and no other host: a browser applies it to every port of this one, where others listen."""
_NO_CHECK_TIME = 0x200000
"""``X509_V_FLAG_NO_CHECK_TIME`` of OpenSSL, for which the standard library has no name."""
_ROUNDS = 10
"""More flights than any handshake has."""


Network = ipaddress.IPv4Network | ipaddress.IPv6Network


@attrs.frozen(eq=False)
class MasterTls:
    """What a master listens with.

    Only who proves itself by a certificate is asked for one: a browser would bother its user, and
    the proxy of YARN, where it shows a certificate of its own making, would be refused for it.
    """

    plain: ssl.SSLContext
    asking: ssl.SSLContext | None = None
    """For those who are asked; they may come without one, and not with a wrong one."""
    asked: tuple[Network, ...] = ()

    def of(self, peer: str) -> ssl.SSLContext:
        """Return what is shown to a connection from *peer*, a numeric address."""
        if self.asking is None:
            return self.plain
        try:
            address = ipaddress.ip_address(peer)
        except ValueError:
            return self.plain
        return self.asking if any(address in network for network in self.asked) else self.plain


def of_master(api: ApiSpec, directory: Path) -> MasterTls | None:
    """Return what the master of *directory* listens with; None where *api* asks for no TLS.

    Raises:
        LaunchError: It asks for it, and what was brought cannot be used: there is no plain API
            then.
    """
    if api.tls is None:
        return None
    proxies = [one for one in api.trusted_proxies if one.authenticated_by == "mtls"]
    asked = tuple(ipaddress.ip_network(one.address) for one in proxies)
    try:
        plain = server_context(directory / TLS)
        if not asked:
            return MasterTls(plain)
        return MasterTls(plain, server_context(directory / TLS, directory / CLIENT_CA), asked)
    except OSError as error:
        found = f"its certificate cannot be used on this machine ({error.strerror or error})"
        raise LaunchError("http", found, code="TARN-3720", where="api.tls") from error


def server_context(proof: Path, client_ca: Path | None = None) -> ssl.SSLContext:
    """Return what a master listens with: TLS 1.2 or newer.

    Args:
        proof: PEM file with the private key, its certificate and the chain.
        client_ca: Who signs certificates of clients. A client may come without one; one whose
            certificate is not good is refused. None: clients are not asked.

    Raises:
        OSError: (``ssl.SSLError`` is one) A file cannot be read or used.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.load_cert_chain(proof, password=lambda: "")  # never ask a terminal
    if client_ca is not None:
        context.verify_mode = ssl.CERT_OPTIONAL
        context.load_verify_locations(client_ca)
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # whom it names is believed
        # A resumed session would bring a certificate that is not looked at again.
        context.num_tickets = 0
        context.options |= ssl.OP_NO_TICKET
    return context


def seen_by(ca: str, *, dated: bool = False) -> ssl.SSLContext:
    """Return a client's view that believes whom *ca* (PEM) names, whatever the host.

    With *dated* it looks at the dates, as every client does.

    Raises:
        ssl.SSLError: There are no certificates in it.
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
    """Shake hands in memory; return the server's certificate as the client sees it.

    Raises:
        ssl.SSLError: They do not come together; of a certificate that is not believed it is a
            ``ssl.SSLCertVerificationError``.
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
    """Say whether a client would take *host* for one that the certificate of *server* names.

    It is matched as every client matches it: by a handshake.

    Args:
        server: See `server_context`.
        ca: By what clients know it, in PEM.
        host: A name, or a numeric address.
    """
    client = seen_by(ca)
    client.check_hostname = True
    try:
        shake(server, client, host)
    except ssl.SSLCertVerificationError:
        return False
    return True


def known_as(server: MasterTls | None, directory: Path, host: str) -> str:
    """Return the name under which the certificate lets a master at *host* be found.

    That is *host*, but for a machine's own address: a certificate for ``localhost`` will do. Where
    it names neither, clients will not believe it, and the log says so.
    """
    if server is None:
        return host
    ca = (directory / TLS_CA).read_text("ascii")
    candidates: list[str] = [host, *(LOOPBACK if host in LOOPBACK else ())]
    for name in candidates:
        if covers(server.plain, ca, name):
            return name
    log.warning("no client will trust this master: its certificate does not name '%s'", host)
    return host
