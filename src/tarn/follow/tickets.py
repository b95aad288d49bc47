"""Kerberos tickets for who asks a master. The clients' only ``gssapi``, loaded when needed."""

import os
import shlex
from pathlib import Path
from types import ModuleType
from typing import Any

import attrs

from tarn.errors import ConfigError, TarnError

__all__ = ["KerberosTickets", "NoTicket", "Proof"]

_SPNEGO = "1.3.6.1.5.5.2"
NOT_INSTALLED = (
    "the module gssapi, which finds tickets, is not installed: "
    "pip install 'tarn-orchestrator[kerberos]'"
)


class NoTicket(TarnError):  # noqa: N818 (a state of affairs)
    """Nothing can be proven here, and why."""


@attrs.define
class Proof:
    """One half of a proof, for one request: a server takes it once."""

    token: bytes = attrs.field(repr=False)
    _context: Any = attrs.field(repr=False)

    def confirmed(self, answer: bytes) -> bool:
        """Say whether *answer*, the other half, comes from who holds the server's key."""
        gssapi = _gssapi()
        try:
            self._context.step(answer)
            return bool(self._context.complete)
        except gssapi.exceptions.GSSError:
            return False


@attrs.frozen
class KerberosTickets:
    """Whose tickets: the user's own; with a keytab those of its principal. Any thread.

    What a keytab brings lies in the memory of this process and nowhere else, and is renewed by
    Kerberos itself: nobody runs `kinit`.
    """

    keytab: Path | None = None
    principal: str = ""
    """Whose key of the keytab; empty: the first one."""
    _cache: str = attrs.field(init=False, repr=False, eq=False)

    @_cache.default
    def _own_cache(self) -> str:
        return f"MEMORY:tarn-{os.getpid()}-{id(self)}"

    @property
    def step(self) -> str:
        """What a person can do where there is no ticket."""
        if self.keytab is None:
            return "run `kinit`"
        return f"check it with `{shlex.join(['klist', '-kt', str(self.keytab)])}` and `kinit -kt`"

    def check(self) -> None:
        """Make sure that the keytab can be used, where there is one; asks the KDC.

        Raises:
            ConfigError: It cannot be read, has no such key, or the KDC takes it no more.
        """
        if self.keytab is None:
            return
        where = f"--keytab {self.keytab}"
        try:
            with self.keytab.open("rb"):
                pass
        except OSError as error:
            raise ConfigError(
                f"the keytab cannot be read ({error.strerror})",
                code="TARN-3761",
                where=where,
                right="It must be readable by this user and nobody else, mode 0600.",
            ) from error
        try:
            self._credentials(_gssapi())
        except NoTicket as error:
            raise ConfigError(
                f"Kerberos gives no ticket for it: {error.found}",
                code="TARN-3765",
                where=where,
                next_step=f"{self.step[0].upper()}{self.step[1:]}.",
            ) from error

    def prove(self, host: str) -> Proof:
        """Return the first half of a proof for the web server on *host*; may ask the KDC.

        Raises:
            NoTicket: There is none.
        """
        gssapi = _gssapi()
        try:
            context = gssapi.SecurityContext(
                name=gssapi.Name(f"HTTP@{host}", gssapi.NameType.hostbased_service),
                creds=self._credentials(gssapi),
                mech=gssapi.OID.from_int_seq(_SPNEGO),
                flags=[gssapi.RequirementFlag.mutual_authentication],
                usage="initiate",
            )
            token = context.step()
        except gssapi.exceptions.GSSError as error:
            raise NoTicket(_words(error)) from error
        if not token:
            raise NoTicket("Kerberos gave nothing to send")
        return Proof(token, context)

    def _credentials(self, gssapi: ModuleType) -> Any:
        """Return what proofs are made of; None: whatever the user's cache holds then."""
        if self.keytab is None:
            return None
        kinds = gssapi.NameType
        name = gssapi.Name(self.principal, kinds.kerberos_principal) if self.principal else None
        try:
            return gssapi.Credentials(
                name=name,
                usage="initiate",
                store={"client_keytab": f"FILE:{self.keytab}", "ccache": self._cache},
            )
        except gssapi.exceptions.GSSError as error:
            raise NoTicket(_words(error)) from error


def _gssapi() -> ModuleType:
    """Import gssapi.

    Raises:
        NoTicket: It is not installed, or Kerberos's own library is not.
    """
    try:
        import gssapi  # noqa: PLC0415 (an extra; 40 ms that only who is asked for a ticket pays)
        import gssapi.exceptions  # noqa: PLC0415
    except (ImportError, OSError) as error:
        raise NoTicket(f"{NOT_INSTALLED} ({error})") from error
    module: ModuleType = gssapi
    return module


def _words(error: Exception) -> str:
    """Return the library's own reason; it names services and files, and no keys."""
    said = " ".join(str(error).split())
    minor = said.rpartition("Minor code")[2]
    return (minor.partition(":")[2].strip() if minor and minor != said else said)[:300]
