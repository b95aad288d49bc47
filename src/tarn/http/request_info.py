"""One request, as far as it can tell who asks."""

from collections.abc import Mapping

import attrs
from starlette.types import Scope

from tarn.domain import Principal
from tarn.http.sessions import BrowserSession

__all__ = ["DIGEST", "SESSION", "Identity", "RequestInfo", "request_info"]

SESSION = "tarn.session"
"""Key in the scope of a request that was let in by its session."""
DIGEST = "tarn.digest"
"""Key in the scope of a signed request: the SHA-256 that its body must have."""


@attrs.frozen
class RequestInfo:
    """What came with a request; nothing in it is proof by itself."""

    path: str
    query: bytes
    headers: tuple[tuple[bytes, bytes], ...]
    """In the order in which they came, names in lower case."""
    peer: str = ""
    """Numeric address of who connected."""
    certificate: str = ""
    """Common name in the certificate that the peer has proven; empty: it brought none."""
    method: str = "GET"
    target: str = ""
    """Path and query as they stood in the request line."""
    local: tuple[str, int] = ("", 0)
    """Address and port at which the connection arrived."""
    tls: bool = False

    def values(self, name: bytes) -> tuple[bytes, ...]:
        """Return the values of every header *name*, in order."""
        return tuple(value for header, value in self.headers if header == name)


@attrs.frozen
class Identity:
    """Who asks, or why nobody is believed."""

    principal: Principal | None
    """None: the request is refused, with *status*."""
    status: int = 401
    found: str = ""
    """Why, in words; no secret, and no name that was only claimed."""
    headers: Mapping[str, str] = attrs.field(factory=dict, hash=False)
    """For the answer: a challenge, or the other half of a proof."""
    session: BrowserSession | None = None
    """By which the principal was proven; None: by something else."""
    named: str = ""
    """The user whom a proxy named, that proved that it may; empty: they came themselves."""
    digest: str | None = None
    """SHA-256 of the body that was signed with the request; None: no body was signed."""
    ambient: bool = False
    """All that came a browser may send for a page that knows no secret: nothing, or a cookie."""


def request_info(scope: Scope) -> RequestInfo:
    """Return the request of an ASGI *scope*."""
    tls = scope.get("extensions", {}).get("tls") or {}
    query = scope["query_string"]
    target = (scope.get("raw_path") or scope["path"].encode()) + (b"?" + query if query else b"")
    host, port = scope.get("server") or ("", None)
    return RequestInfo(
        scope["path"],
        query,
        tuple(scope["headers"]),
        (scope.get("client") or ("",))[0],
        tls.get("client_cert_name") or "",
        scope["method"],
        target.decode("latin-1"),
        (host, port or 0),
        scope.get("scheme") == "https",
    )
