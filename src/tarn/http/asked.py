"""One request, as far as it can tell who asks."""

from collections.abc import Mapping

import attrs
from starlette.types import Scope

from tarn.domain import Principal
from tarn.http.sessions import Session

__all__ = ["SESSION", "Asked", "Identified", "asked"]

SESSION = "tarn.session"
"""Key in the scope of a request that was let in by its session."""


@attrs.frozen
class Asked:
    """What came with a request; nothing in it is proof by itself."""

    path: str
    query: bytes
    headers: tuple[tuple[bytes, bytes], ...]
    """In the order in which they came, names in lower case."""
    peer: str = ""
    """Numeric address of who connected."""
    certificate: str = ""
    """Common name in the certificate that the peer has proven; empty: it brought none."""

    def values(self, name: bytes) -> tuple[bytes, ...]:
        """Return the values of every header *name*, in order."""
        return tuple(value for header, value in self.headers if header == name)


@attrs.frozen
class Identified:
    """Who asks, or why nobody is believed."""

    principal: Principal | None
    """None: the request is refused, with *status*."""
    status: int = 401
    found: str = ""
    """Why, in words; no secret, and no name that was only claimed."""
    headers: Mapping[str, str] = attrs.field(factory=dict, hash=False)
    """For the answer: a challenge, or the other half of a proof."""
    session: Session | None = None
    """By which the principal was proven; None: by something else."""
    named: str = ""
    """The user whom a proxy named, that proved that it may; empty: they came themselves."""


def asked(scope: Scope) -> Asked:
    """Return the request of an ASGI *scope*."""
    tls = scope.get("extensions", {}).get("tls") or {}
    return Asked(
        scope["path"],
        scope["query_string"],
        tuple(scope["headers"]),
        (scope.get("client") or ("",))[0],
        tls.get("client_cert_name") or "",
    )
