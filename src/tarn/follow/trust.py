"""By what a client knows a master over HTTPS, and what is said when it does not."""

import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import attrs

from tarn.domain.certificate import hosts
from tarn.errors import ConfigError, UnreachableError

__all__ = ["DISTRUST", "Trust", "distrusted", "dropped"]

DISTRUST = frozenset({"TARN-3703", "TARN-3723", "TARN-3727", "TARN-3728", "TARN-3729"})
"""Codes of what was heard at an address where somebody listens, and is not believed."""
_LOOK_WITHIN_S = 2.0
_OTHER_HOST = frozenset({62, 63, 64})
"""``X509_V_ERR_HOSTNAME_MISMATCH``, ``_EMAIL_``, ``_IP_ADDRESS_``."""
_OUT_OF_TIME = frozenset({9, 10})
"""``X509_V_ERR_CERT_NOT_YET_VALID``, ``X509_V_ERR_CERT_HAS_EXPIRED``."""


@attrs.frozen
class Trust:
    """Whom a client believes, and what it proves itself with."""

    ca: Path | None = None
    """PEM file that names whom to believe: an authority, or a certificate itself. None: the
    authorities of the system."""
    cert: Path | None = None
    """PEM file with the client's own certificate; None: it brings none."""
    key: Path | None = None
    """PEM file with its private key, unencrypted; None: it stands in *cert*."""

    def context(self) -> ssl.SSLContext:
        """Return a context for one client: TLS 1.2 or newer, the host checked.

        Raises:
            ConfigError: A file cannot be read or used (TARN-3720).
        """
        try:
            context = ssl.create_default_context(cafile=None if self.ca is None else str(self.ca))
        except OSError as error:
            raise _useless(self.ca, "no certificates in PEM", error) from error
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        if self.ca is not None:
            # Each authority in it is trusted, even one that is not a root, or of an older kind.
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


def distrusted(error: BaseException, url: str, trust: Trust) -> UnreachableError | None:
    """Return what to say of *error*, with which no connection came about; None: it is not TLS's."""
    cause = next(_of_tls(error), None)
    if cause is None:
        return None
    if isinstance(cause, ssl.SSLCertVerificationError):
        return _not_believed(cause, url, trust)
    reason = str(cause.reason or "")
    if reason in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG"):
        return _said("speaks no TLS", url, "Ask it by http://, or start it with api.tls")
    if "ALERT" in reason and ("CERTIFICATE" in reason or "UNKNOWN_CA" in reason):
        return _refused(f"the master refuses the client's certificate ({_words(reason)})", url)
    return _said(
        f"the TLS handshake failed: {_words(reason) or cause}",
        url,
        "The log of the master says why",
    )


def dropped(url: str) -> UnreachableError:
    """Return what to say of a master that hung up on a client with a certificate of its own.

    One that does not believe it does so without a message that always arrives.
    """
    return _refused(
        "it closed the connection without an answer; perhaps it refuses the client's certificate",
        url,
    )


def _refused(found: str, url: str) -> UnreachableError:
    return UnreachableError(
        found,
        code="TARN-3729",
        where=url,
        right="api.tls.client_ca of the cluster must list the authority that signed it, for "
        "client use.",
        next_step="Give the right certificate, or none; the log of the master says why.",
    )


def _not_believed(error: ssl.SSLCertVerificationError, url: str, trust: Trust) -> UnreachableError:
    if error.verify_code in _OTHER_HOST:
        return _other_host(url, trust)
    if error.verify_code in _OUT_OF_TIME:
        return _said(
            f"its certificate has expired or is not valid yet ({error.verify_message})",
            url,
            "Check the clocks; if they are right, start the cluster again with a new certificate",
            "TARN-3723",
        )
    by = f"the file {trust.ca}" if trust.ca else "the authorities of this system"
    return _said(
        f"its certificate is not trusted by {by} ({error.verify_message})",
        url,
        "Name the file with its authority, with --ca where the command has it; `tarn up` keeps "
        "one as tls_ca.pem in the cluster's directory",
    )


def _other_host(url: str, trust: Trust) -> UnreachableError:
    host = urlsplit(url).hostname or ""
    named = _named(url, trust)
    return UnreachableError(
        f"its certificate is not for '{host}'; it names {', '.join(named) or 'no host at all'}",
        code="TARN-3727",
        where=url,
        right="It must name every host where a master may run: each by a subject alternative "
        "name, or all by a wildcard.",
        next_step="Get such a certificate, and start the cluster again with it.",
    )


def _named(url: str, trust: Trust) -> tuple[str, ...]:
    """Look once more, at the names; none where nothing can be seen."""
    place = urlsplit(url)
    try:
        context = trust.context()
        context.check_hostname = False
        at = (place.hostname or "", place.port or 443)
        with (
            socket.create_connection(at, _LOOK_WITHIN_S) as line,
            context.wrap_socket(line, server_hostname=place.hostname) as secured,
        ):
            return hosts(secured.getpeercert() or {})
    except OSError:
        return ()


def _of_tls(error: BaseException | None) -> Iterator[ssl.SSLError]:
    """Yield the errors of TLS that led to *error*, the nearest first."""
    while error is not None:
        if isinstance(error, ssl.SSLError):
            yield error
        error = error.__cause__ or error.__context__


def _said(found: str, url: str, step: str, code: str = "TARN-3728") -> UnreachableError:
    return UnreachableError(found, code=code, where=url, next_step=step)


def _words(reason: str) -> str:
    return reason.replace("_", " ").lower()
