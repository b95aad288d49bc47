"""A request: what it claims about its sender, read strictly; nothing of it is trusted here."""

import base64
import binascii
import ipaddress
import re
from collections.abc import Iterable, Mapping
from typing import Self
from urllib.parse import parse_qsl, unquote_to_bytes

import attrs
from starlette.requests import Request
from starlette.types import Scope

from tarn.domain import ANONYMOUS, Principal, ProxyRule, Requester
from tarn.http.issued_tokens import BrowserSession, csrf_of
from tarn.log import request_id
from tarn.plain.credentials import SCHEME

__all__ = [
    "IDENTITY",
    "LONGEST_NAME",
    "REQUEST",
    "Claims",
    "Hosts",
    "Identity",
    "RequestInfo",
    "claims",
    "cookie_user",
    "cross_site_reason",
    "csrf_through_proxy",
    "identity_of",
    "is_name",
    "is_through_proxy",
    "principal_of",
    "request_info",
    "requester_of",
    "ticket",
]

# Key in the scope of a request: its `RequestInfo`.
REQUEST = "tarn.request"
# Key in the scope of a request that was let in: its `Identity`.
IDENTITY = "tarn.identity"


@attrs.frozen
class RequestInfo:
    """The parts of a request; nothing in it is a proof by itself."""

    path: str
    query: bytes
    headers: tuple[tuple[bytes, bytes], ...]
    """In their order, names in lower case."""
    peer: str = ""
    """Numeric address of the peer."""
    certificate: str = ""
    """Common name in the verified certificate of the peer; empty without one."""
    method: str = "GET"
    target: str = ""
    """Path and query as they stood in the request line."""
    local: tuple[str, int] = ("", 0)
    """Address and port at which the connection arrived."""
    tls: bool = False

    def values(self, name: bytes) -> tuple[bytes, ...]:
        """Return the values of every header *name*, in order."""
        return tuple(value for header, value in self.headers if header == name)

    def text(self, name: bytes) -> str:
        """Return the values of every header *name* in one text, as HTTP joins them."""
        return b",".join(self.values(name)).decode("latin-1")

    def offers(self, scheme: bytes) -> bool:
        """Return whether ``Authorization`` has a proof of this *scheme*, valid or not."""
        brought = self.values(b"authorization")
        return any(one[: len(scheme)].lower() == scheme.lower() for one in brought)


@attrs.frozen
class Identity:
    """The proven sender of a request, or why it is refused."""

    principal: Principal | None
    """None if the request is refused with *status*."""
    status: int = 401
    found: str = ""
    """Why it is refused; without secrets, and without names that were only claimed."""
    headers: Mapping[str, str] = attrs.field(factory=dict, hash=False)
    """For the answer: a challenge, or the proof of this master."""
    session: BrowserSession | None = None
    """The session that proved the principal; None if something else did."""
    named: str = ""
    """The user that a trusted proxy named; empty if no proxy is in between."""
    digest: str | None = None
    """SHA-256 of the signed body; None if no body was signed."""
    ambient: bool = False
    """Whether a browser may have added all proofs for a page that knows no secret: no proof, or a
    cookie. A ticket is more: it holds the name of its host."""

    def refused(self, status: int, found: str) -> Self:
        """Return the refusal of a proven sender; its answer still proves the master."""
        return attrs.evolve(self, principal=None, status=status, found=found)


_NOBODY = Identity(ANONYMOUS)


def request_info(scope: Scope) -> RequestInfo:
    """Return the request in an ASGI *scope*, which also caches it."""
    made = scope.get(REQUEST)
    if isinstance(made, RequestInfo):
        return made
    tls = scope.get("extensions", {}).get("tls") or {}
    query = scope["query_string"]
    target = (scope.get("raw_path") or scope["path"].encode()) + (b"?" + query if query else b"")
    host, port = scope.get("server") or ("", None)
    made = scope[REQUEST] = RequestInfo(
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
    return made


def identity_of(scope: Scope) -> Identity:
    """Return the identity of a request; anonymous if the route needs none."""
    found = scope.get(IDENTITY)
    return found if isinstance(found, Identity) else _NOBODY


def principal_of(request: Request) -> Principal:
    """Return the principal of a request."""
    return identity_of(request.scope).principal or ANONYMOUS


def requester_of(request: Request) -> Requester:
    """Return the principal, id and address of a request, for events."""
    who = principal_of(request)
    return Requester(request_id(), who.user, who.via, request_info(request.scope).peer)


LONGEST_NAME = 128
LONGEST_COOKIE = 256
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._@$+=-]{0,127}")
# User names have no blanks, control characters, or separators of cookies.
_IN_COOKIE = re.compile(r"[^\s\x00-\x1f\x7f;,\"]+")
_ONCE = {
    b"x-tarn-user": "X-TARN-User",
    b"x-tarn-token": "X-TARN-Token",
    b"x-tarn-session": "X-TARN-Session",
    b"authorization": "Authorization",
}


@attrs.frozen
class Claims:
    """The claims of a request, each at most once."""

    token: bytes | None = attrs.field(default=None, repr=False)
    ticket: bytes | None = attrs.field(default=None, repr=False)
    """As it follows ``Negotiate``."""
    user: bytes | None = None
    """From ``X-TARN-User``."""
    session: bytes | None = attrs.field(default=None, repr=False)
    """From ``X-TARN-Session``; never from a query, which proxies log."""
    signed: bytes | None = attrs.field(default=None, repr=False)
    """What follows ``TARN``: a `RequestProof`, or nothing to ask for a nonce."""


def claims(asked: RequestInfo) -> Claims:
    """Return what *asked* claims about its sender.

    The token is that of ``X-TARN-Token``, else of ``Authorization: Bearer``, else, on ``/metrics``
    only, of ``?token=``, for scrapers that cannot send a header.

    Raises:
        ValueError: A header is there twice. The text repeats nothing of what was sent.
    """
    for name, title in _ONCE.items():
        if len(asked.values(name)) > 1:
            raise ValueError(f"The header {title} is there twice: send it once")
    own = _only(asked, b"x-tarn-token")
    scheme, _, rest = (_only(asked, b"authorization") or b"").partition(b" ")
    kind, said = scheme.lower(), rest.strip()
    bearer = said if kind == b"bearer" else None
    token = bearer if own is None else own
    negotiated = said if kind == b"negotiate" else None
    signed = said if kind == SCHEME.lower().encode() else None
    if token is None and negotiated is None and signed is None and asked.path == "/metrics":
        token = _from_query(asked.query)
    user, session = _only(asked, b"x-tarn-user"), _only(asked, b"x-tarn-session")
    return Claims(token, negotiated, user, session, signed)


def is_name(text: str) -> bool:
    """Return whether *text* is a valid user name, as from a proxy or a ticket."""
    return _NAME.fullmatch(text) is not None


def ticket(encoded: bytes) -> bytes | None:
    """Return the token after ``Negotiate``; None if it is empty or not base64."""
    try:  # strictly: otherwise any nonsense would become an empty token
        return base64.b64decode(encoded, validate=True) or None
    except binascii.Error:
        return None


def cookie_user(asked: RequestInfo, wanted: bytes) -> str | None:
    """Return the user that the cookie *wanted* names; None if it is not one valid name."""
    values = [
        value.strip()
        for line in asked.values(b"cookie")
        for name, equals, value in (pair.partition(b"=") for pair in line.split(b";"))
        if equals and name.strip() == wanted
    ]
    # The proxy sets it once. Of several, one comes from the client, so none counts.
    if len(values) != 1 or len(values[0]) > LONGEST_COOKIE:
        return None
    try:
        user = unquote_to_bytes(values[0].replace(b"+", b" ")).decode()
    except UnicodeDecodeError:
        return None
    return user if _IN_COOKIE.fullmatch(user) else None


def _only(asked: RequestInfo, name: bytes) -> bytes | None:
    return next(iter(asked.values(name)), None)


def _from_query(query: bytes) -> bytes | None:
    try:
        pairs = parse_qsl(query.decode("latin-1"), encoding="latin-1", max_num_fields=100)
    except ValueError:
        return None
    return next((value.encode("latin-1") for name, value in pairs if name == "token"), None)


# They stop DNS rebinding: an attacker's name server leads the name of a page first to the attacker,
# then to this master. To the browser both are one site, but the name is not one of the master's.
@attrs.frozen
class Hosts:
    """The names of one master, in lower case; its numeric address is that of the connection."""

    names: frozenset[str] = frozenset()
    """Without a port."""
    configured: frozenset[str] = frozenset()
    """From ``api.hosts``: names, with or without a port, at which proxies show this master."""

    @classmethod
    def of(cls, names: Iterable[str], configured: Iterable[str] = ()) -> Self:
        """Return the hosts of a master with these *names* and their short forms."""
        # A name of one part is safe: resolvers complete it with the site's own domain.
        every = {name.lower() for name in names if name}
        short = {name.partition(".")[0] for name in every if not _numeric(name)}
        return cls(frozenset(every | short), frozenset(one.lower() for one in configured))

    def known(self, host: str, local: tuple[str, int]) -> bool:
        """Return whether a ``Host`` header names this master.

        Args:
            host: The header; empty if there was none.
            local: Address and port at which the connection arrived.
        """
        if not host:  # not a browser: they always send it
            return True
        name, _ = _parts(host)
        return name in self.configured or host.lower() in self.configured or name in self._of(local)

    def reached(self, host: str, local: tuple[str, int], *, tls: bool = False) -> bool:
        """Return whether a client that sent ``Host`` connected to this master directly.

        The port must be the master's, unless `configured` has another one.
        """
        name, port = _parts(host)
        own = local[1] == (port if port is not None else 443 if tls else 80)
        if host.lower() in self.configured or (own and name in self.configured):
            return True
        return own and name in self._of(local)

    def shown(self, local: tuple[str, int]) -> tuple[str, ...]:
        """Return all known names, for error texts."""
        return tuple(sorted(self._of(local) | self.configured))

    def _of(self, local: tuple[str, int]) -> frozenset[str]:
        """Return the names for a connection that arrived at *local*."""
        address = local[0]
        if not _numeric(address):
            return self.names
        own = {address.lower(), *(["localhost"] if _loopback(address) else ())}
        return self.names | own


def _parts(host: str) -> tuple[str, int | None]:
    """Return name and port of a ``Host`` header; the name is empty if it is not valid."""
    text = host.strip().lower()
    name, colon, port = text.rpartition(":")
    if text.endswith("]") or not colon:
        name, port = text, ""
    elif not (port.isascii() and port.isdecimal() and len(port) <= 5):  # noqa: PLR2004 (65535)
        return "", None
    return name.removeprefix("[").removesuffix("]"), int(port) if port else None


def _numeric(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


_OWN_SITES = (b"same-origin", b"none")


# A browser adds the proofs of its user (a cookie, a ticket) to every request, whichever page made
# it. It also names that page in headers that no page can change. Programs send no such headers.
def cross_site_reason(asked: RequestInfo) -> str:
    """Return why *asked* comes from a foreign page; empty if it does not.

    The master's own page is foreign too if a proxy shows it; see `csrf_through_proxy`.
    """
    sites = asked.values(b"sec-fetch-site")
    if any(site.strip().lower() not in _OWN_SITES for site in sites):
        return "a page of another site sent it"
    origins, hosts = asked.values(b"origin"), asked.values(b"host")
    if not origins:
        return ""
    own = hosts[0].strip().lower() if len(origins) == len(hosts) == 1 else b""
    if own and origins[0].strip().lower() in (b"http://" + own, b"https://" + own):
        return ""
    return "its Origin is not this master"


def is_through_proxy(asked: RequestInfo, rule: ProxyRule | None) -> bool:
    """Return whether *asked* came through the runtime's proxy, which adds a cookie."""
    if rule is None or not _may_be_proxys(asked, rule):
        return False
    pairs = (pair for line in asked.values(b"cookie") for pair in line.split(b";"))
    return any(pair.partition(b"=")[0].strip() == rule.cookie.encode() for pair in pairs)


def csrf_through_proxy(asked: RequestInfo, rule: ProxyRule | None) -> str:
    """Return ``?csrf=`` of a request through the runtime's proxy; empty for other requests."""
    # Only behind the proxy a page of the master has another Origin.
    return "" if rule is None or not _may_be_proxys(asked, rule) else csrf_of(asked.query)


def _may_be_proxys(asked: RequestInfo, rule: ProxyRule) -> bool:
    """Return whether *asked* may have come through the proxy; this proves nothing."""
    if asked.values(b"sec-fetch-site"):  # the proxy does not pass it on
        return False
    # A machine may connect to itself from any of its loopback addresses.
    near = _loopback(asked.peer) and any(map(_loopback, rule.addresses))
    return near or asked.peer in rule.addresses


def _loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False
