"""SPNEGO: Kerberos tickets in requests. The only use of ``gssapi`` in the master."""

from pathlib import Path

import gssapi
from gssapi.raw.misc import GSSError

from tarn.errors import LaunchError, NotAuthorizedError
from tarn.http.authenticator import AcceptedTicket

__all__ = ["KeytabTickets"]

# The service for which browsers and other clients get tickets. A keytab may also hold keys of
# services that are not web services.
SERVICE = "HTTP/"
# Principals that anybody gets without a proof.
ANONYMOUS = "WELLKNOWN/"


class KeytabTickets:
    """Accepts tickets for the keys ``HTTP/...`` of one keytab. Thread-safe; `accept` may block.

    A token is valid once, by the replay cache of the library.

    Args:
        keytab: The file; it is read at each ticket, so that it can be replaced.

    Raises:
        LaunchError: The keytab cannot be used.
    """

    def __init__(self, keytab: Path) -> None:
        try:
            self._credentials = gssapi.Credentials(
                usage="accept", store={"keytab": f"FILE:{keytab}"}
            )
        except GSSError as error:
            raise LaunchError(
                "http",
                f"Kerberos does not accept tickets with the keytab of api.spnego: {_words(error)}",
                code="TARN-3700",
                where=str(keytab),
                next_step="Check it with `klist -kt`, and krb5.conf of the master's machine",
            ) from error

    def accept(self, token: bytes) -> AcceptedTicket:
        """Return the ticket in *token*.

        Raises:
            NotAuthorizedError: It is not valid, was used before, or is for another service.
        """
        try:
            context = gssapi.SecurityContext(creds=self._credentials, usage="accept")
            answer = context.step(token)
            # gssapi raises some errors of `step` only when the context is read.
            complete = context.complete
            principal = str(context.initiator_name) if complete else ""
            service = str(context.target_name) if complete else ""
        except GSSError as error:
            raise _refused(_words(error)) from error
        if not complete:
            raise _refused(
                "it is the first part of a longer exchange, which one request cannot carry"
            )
        if not service.startswith(SERVICE):
            raise _refused(f"it is for {service}, which is not a web service")
        if principal.startswith(ANONYMOUS):
            raise _refused("it is anonymous")
        return AcceptedTicket(principal, answer or b"")


def _refused(why: str) -> NotAuthorizedError:
    return NotAuthorizedError("anonymous", "authenticate", next_step=f"The ticket: {why}")


def _words(error: Exception) -> str:
    # The library's text names services and files, and never keys.
    return " ".join(str(error).rpartition("): ")[2].split())[:300]
