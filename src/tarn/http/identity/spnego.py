"""SPNEGO: tickets of Kerberos that come with a request. The master's only ``gssapi``."""

from pathlib import Path

import gssapi
from gssapi.raw.misc import GSSError

from tarn.errors import LaunchError, NotAuthorizedError
from tarn.http.identity.proofs import AcceptedTicket

__all__ = ["KeytabTickets"]

SERVICE = "HTTP/"
"""For whom browsers and other clients take tickets; others in a keytab are not web services."""
ANONYMOUS = "WELLKNOWN/"
"""Principals that anybody gets without proving who they are."""


class KeytabTickets:
    """Accepts tickets for the keys ``HTTP/...`` of one keytab. Thread-safe; `accept` may block.

    The library keeps what it has seen (its replay cache), so a token proves somebody once.

    Args:
        keytab: The file; read at each ticket, so that a new one is taken up.

    Raises:
        LaunchError: Nothing can be accepted with this keytab.
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
        """Return who sent *token*.

        Raises:
            NotAuthorizedError: It proves nobody: a replay, another service's, or no token at all.
        """
        try:
            context = gssapi.SecurityContext(creds=self._credentials, usage="accept")
            answer = context.step(token)
            # The library keeps an error of `step` back until the context is asked for something.
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
    """Return the library's own reason; it names services and files, and no keys."""
    return " ".join(str(error).rpartition("): ")[2].split())[:300]
