"""What a client sends who has a ticket."""

import base64
from pathlib import Path

import gssapi

SPNEGO = gssapi.OID.from_int_seq("1.3.6.1.5.5.2")
HTTP = "HTTP@localhost"


class Caller:
    """One principal's tickets, in a cache of theirs."""

    def __init__(self, cache: Path, service: str = HTTP) -> None:
        self._credentials = gssapi.Credentials(usage="initiate", store={"ccache": f"FILE:{cache}"})
        self._service = gssapi.Name(service, gssapi.NameType.hostbased_service)
        self._context: gssapi.SecurityContext | None = None

    def token(self) -> bytes:
        """Return a fresh token for the service."""
        self._context = gssapi.SecurityContext(
            name=self._service,
            creds=self._credentials,
            mech=SPNEGO,
            usage="initiate",
            flags=[gssapi.RequirementFlag.mutual_authentication],
        )
        made = self._context.step()
        assert made
        return made

    def header(self) -> dict[str, str]:
        """Return it as a header."""
        return {"Authorization": f"Negotiate {base64.b64encode(self.token()).decode()}"}

    def believes(self, answer: str) -> bool:
        """Say whether the master's half of the last proof is right."""
        kind, _, said = answer.partition(" ")
        assert self._context is not None
        self._context.step(base64.b64decode(said, validate=True))
        return kind == "Negotiate" and self._context.complete
