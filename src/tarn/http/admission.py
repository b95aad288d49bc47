"""Admission: decides about every request before a route sees it."""

import math
from collections import OrderedDict
from collections.abc import Callable, Mapping

import attrs
from starlette.responses import Response
from starlette.types import Scope

from tarn.domain import ANONYMOUS, Principal
from tarn.domain.access import ADMIN, FOLLOW, VIEW
from tarn.errors import ConfigError, NotAuthorizedError, NotFoundError, TarnError
from tarn.http.answers import error_answer
from tarn.http.authenticator import Authenticator
from tarn.http.authorize import question
from tarn.http.commands import VERBS
from tarn.http.issued_tokens import Csrf
from tarn.http.one_triton import PREFIX, ROUTE, asked_of_fleet
from tarn.http.request import (
    IDENTITY,
    Identity,
    RequestInfo,
    cross_site_reason,
    csrf_through_proxy,
    is_through_proxy,
    request_info,
)
from tarn.http.rights import Rights, Sources
from tarn.plain.credentials import SCHEME
from tarn.tls.acceptor import PLACE

__all__ = [
    "ACTIONS",
    "NOWHERE",
    "OPEN",
    "READ",
    "SELF",
    "WRITE",
    "Admission",
    "Rates",
    "RoutePermission",
    "asking",
]

# Needs no identity, so its answer must not depend on one.
OPEN = "open"
# Needs an identity and no right: the route itself decides what to answer.
SELF = "ask"

READ = ("GET", "HEAD")
# The proxy of YARN's ResourceManager passes GET and PUT only, so every write is a PUT.
WRITE = ("PUT",)
# Triton's own methods; they come through load balancers only.
OF_TRITON = ("GET", "HEAD", "POST")


@attrs.frozen
class RoutePermission:
    """What a request to a path needs."""

    action: str
    """An action of `tarn.domain.access`, ``OPEN`` or ``SELF``; empty if there is no such route."""
    methods: tuple[str, ...] = READ


NOWHERE = RoutePermission("", ())

# What each route needs, by its path; ``{name}`` stands for one part of a path. The application
# serves exactly these routes: one that is missing here is closed.
ACTIONS = {
    "/health": RoutePermission(OPEN),
    "/livez": RoutePermission(OPEN),
    "/readyz": RoutePermission(OPEN),
    "/dashboard": RoutePermission(OPEN),
    "/authorize": RoutePermission(SELF),
    "/": RoutePermission(VIEW),
    "/instances": RoutePermission(VIEW),
    "/affinity": RoutePermission(VIEW),
    "/config": RoutePermission(VIEW),
    "/metrics": RoutePermission(VIEW),
    "/alerts": RoutePermission(VIEW),
    "/api/v1/status": RoutePermission(VIEW),
    "/api/v1/instances": RoutePermission(VIEW),
    "/api/v1/events": RoutePermission(VIEW),
    "/api/v1/decisions": RoutePermission(VIEW),
    "/api/v1/scaling": RoutePermission(VIEW),
    "/api/v1/history": RoutePermission(VIEW),
    "/api/v1/alerts": RoutePermission(VIEW),
    "/api/v1/usage": RoutePermission(VIEW),
    "/api/v1/control": RoutePermission(VIEW),
    "/api/v1/stream": RoutePermission(VIEW),
    "/api/v1/me": RoutePermission(SELF),
    "/api/v1/session": RoutePermission(OPEN, WRITE),
    "/api/v1/session/end": RoutePermission(SELF, WRITE),
    "/api/v1/session/link": RoutePermission(SELF, WRITE),
    "/api/v1/logs": RoutePermission(ADMIN),
    "/api/v1/models": RoutePermission(VIEW),
    "/api/v1/sd": RoutePermission(VIEW),
    "/api/v1/followers/{name}": RoutePermission(FOLLOW, WRITE),
    "/api/v1/demand": RoutePermission(FOLLOW, WRITE),
    "/api/v1/load-balancer": RoutePermission(FOLLOW),
    ROUTE: RoutePermission(SELF, OF_TRITON),
    "/api/v1/spec": RoutePermission(ADMIN),
    "/api/v1/update": RoutePermission(ADMIN, WRITE),
    **{f"/api/v1/{verb}": RoutePermission(ADMIN, WRITE) for verb in VERBS},
}

_EXACT = {path: need for path, need in ACTIONS.items() if "{" not in path}
_UNDER = {path.partition("{")[0]: need for path, need in ACTIONS.items() if "{" in path}


def asking(path: str) -> RoutePermission:
    """Return what a request to the decoded *path* needs, or ``NOWHERE``."""
    # Nothing is normalized: a path with a dot, a doubled slash or a final slash is another path.
    need = _EXACT.get(path)
    if need is not None:
        return need
    if path.startswith(f"{PREFIX}/"):
        return NOWHERE if asked_of_fleet(path) is None else ACTIONS[ROUTE]
    head, slash, last = path.rpartition("/")
    return _UNDER.get(head + slash, NOWHERE) if last else NOWHERE


# Bounds the memory that addresses can take; some 200 bytes each.
MOST_ADDRESSES = 4096


@attrs.define
class _Bucket:
    left: float
    at_s: float


class Rates:
    """Limits the requests of each address by a token bucket. Lives on one event loop.

    Args:
        per_s: Requests a second, as a mean.
        most: How many addresses are remembered.
        burst: Requests that a full bucket holds, at least 1; by default those of one second.
    """

    def __init__(
        self, per_s: float, most: int = MOST_ADDRESSES, *, burst: float | None = None
    ) -> None:
        self._per_s = per_s
        self._burst = per_s if burst is None else burst
        self._most = most
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()

    def __len__(self) -> int:
        return len(self._buckets)

    def wait_s(self, address: str, now_s: float) -> float:
        """Count a request; return 0 to let it in, else the seconds by which it is too early."""
        left = self.left(address, now_s)
        # A refused request takes nothing from the bucket: a client that keeps asking is let in as
        # often as one that waits.
        self._buckets[address] = _Bucket(left - 1.0 if left >= 1.0 else left, now_s)
        self._buckets.move_to_end(address)
        if len(self._buckets) > self._most:
            # The address that was silent the longest starts again with a full bucket: memory is
            # bounded, and no address is refused for what others do.
            self._buckets.popitem(last=False)
        return 0.0 if left >= 1.0 else (1.0 - left) / self._per_s

    def left(self, address: str, now_s: float) -> float:
        """Return how many requests *address* has left, without counting one."""
        bucket = self._buckets.get(address)
        if bucket is None:
            return self._burst
        return min(self._burst, bucket.left + max(0.0, now_s - bucket.at_s) * self._per_s)


LARGEST_TARGET = 8 * 1024
# A Kerberos ticket may fill most of it. uvicorn's own bound is checked later, and is not exact.
LARGEST_HEADERS = 64 * 1024
ME = "/api/v1/me"
AUTHORIZE = "/authorize"
MISDIRECTED = 421

Add = Callable[[Mapping[str, str]], None]


class Admission:
    """Lets a request in, or answers it. Lives on one event loop.

    It checks, in this order: the rate limit, the size of the head, the identity, the ``Host``
    header, the route and its method, the origin of the page that sent it, and the right.
    """

    def __init__(
        self, sources: Sources, rights: Rights, identity: Authenticator, csrf: Csrf
    ) -> None:
        self._clock = sources.clock
        self._rates = Rates(sources.rate_limit)
        self._rights = rights
        self._identity = identity
        self._proxy = sources.proxy
        self._dashboard = sources.dashboard
        self._csrf = csrf
        self._hosts = sources.hosts

    async def refusal(self, scope: Scope, add: Add) -> Response | None:
        """Return the answer to a request that is refused; None lets it in.

        The identity is left in *scope*. *add* gets the headers that prove this master to a client
        that proved itself.
        """
        what = request_info(scope)
        need, who = asking(what.path), None
        if need.action != OPEN and self._may_speak_for_others(what):
            who = await self._identity.identify(what)
        # A request counts by its address. What a trusted proxy sends counts by the user whom it is
        # about: one user must not use up the requests of the others.
        counted = what.peer if who is None else self._counted(what, who)
        wait_s = self._rates.wait_s(counted, self._clock.now_s())
        if wait_s > 0:
            source = "about this user" if counted != what.peer else "from this address"
            error = TarnError(
                f"too many requests came {source}",
                code="TARN-3710",
                next_step="Ask less often, or have api.rate_limit raised",
            )
            return error_answer(error, 429, {"Retry-After": str(math.ceil(wait_s))})
        odd = _malformed(what)
        # A client that signs a request to an open route wants a proof in the answer.
        if odd is not None or (need.action == OPEN and not what.offers(SCHEME.encode())):
            return odd or _astray(what, need) or _abroad(what)
        if who is None:
            who = await self._identity.identify(what)
        if who.principal is None:
            return self._unidentified(what, need.action, who)
        add(who.headers)
        scope[IDENTITY] = who
        if need.action == OPEN:
            return _astray(what, need) or _abroad(what)
        refusal = await self._forbidden(what, need, who, who.principal)
        proven = who.principal.via != ANONYMOUS.via
        if refusal is None and proven and (place := scope.get(PLACE)) is not None:
            place.keep()  # from now on no unproven client can take the slot of this connection
        return refusal

    def _may_speak_for_others(self, what: RequestInfo) -> bool:
        """Return whether to identify the sender before the request is counted."""
        if not self._identity.hears_of_others(what.peer):
            return False
        # Comparing a token or a certificate costs nothing. Checking a Kerberos ticket does, so it
        # is not checked once the address has used up its own requests.
        return (
            not what.offers(b"negotiate") or self._rates.left(what.peer, self._clock.now_s()) >= 1.0
        )

    def _counted(self, what: RequestInfo, who: Identity) -> str:
        """Return the key by which a request counts: its address, or a user at it."""
        if who.named:
            return f"{what.peer} for {who.named}"
        if who.principal is None or who.principal.via != "trusted-proxy" or what.path != AUTHORIZE:
            return what.peer
        try:
            found = question(what.query)
        except ConfigError:
            return what.peer
        if found is None or found.user is None:
            return what.peer
        # Questions about unknown models have a bucket of their own: somebody who invents names must
        # not use up the requests of the same user about models that exist.
        invented = "" if self._rights.knows(found.model) else " and unknown models"
        return f"{what.peer} about {found.user}{invented}"

    async def _forbidden(
        self, what: RequestInfo, need: RoutePermission, who: Identity, principal: Principal
    ) -> Response | None:
        """Return the answer to *principal*, proven as *who*, if refused; None if allowed."""
        misdirected = self._misdirected(what) if who.ambient else None
        if (astray := misdirected or _astray(what, need)) is not None:
            return astray
        proof = csrf_through_proxy(what, self._proxy) if need.action != SELF else ""
        if not (proof and self._csrf.good(proof, principal)):
            abroad = _abroad(what, over=bool(proof))
            if abroad is not None:
                return abroad
        if need.action == SELF:
            return None
        verdict = await self._rights.on_fleet(principal, need.action)
        if verdict.allowed:
            return None
        return error_answer(NotAuthorizedError(principal.user, need.action), reason=verdict.reason)

    def _misdirected(self, what: RequestInfo) -> Response | None:
        """Return the answer to a request whose ``Host`` does not name this master."""
        host = what.text(b"host")  # set by the browser: a page cannot choose it
        if self._hosts.known(host, what.local):
            return None
        error = TarnError(
            f"the header Host names '{host[:255]}', which is not an address of this master: "
            "a page of another site may have sent the request",
            code="TARN-3713",
            where=what.path,
            right=f"Expected {', '.join(self._hosts.shown(what.local))}.",
            next_step="If the master should be reachable by that name, add it to api.hosts",
        )
        return error_answer(error, MISDIRECTED)

    def _unidentified(self, what: RequestInfo, action: str, who: Identity) -> Response:
        """Return the refusal; a page behind the runtime's proxy learns where it can sign in."""
        if who.status == MISDIRECTED:
            relayed = TarnError(who.found, code="TARN-3713", where=what.path)
            return error_answer(relayed, MISDIRECTED)
        error = NotAuthorizedError("anonymous", action or VIEW, next_step=who.found)
        asks = what.path == ME and is_through_proxy(what, self._proxy)
        more = {"direct": self._dashboard} if asks else {}
        return error_answer(error, who.status, who.headers, **more)


def _abroad(what: RequestInfo, *, over: bool = False) -> Response | None:
    """Return the answer to a write that a foreign page sent.

    With *over*, it may be a page of ours whose CSRF value is no longer valid.
    """
    found = "" if what.method in READ else cross_site_reason(what)
    if not found:
        return None
    code = "TARN-3802" if over else "TARN-3711"
    return error_answer(TarnError(found, code=code, where=what.path), 403)


def _astray(what: RequestInfo, need: RoutePermission) -> Response | None:
    """Return the answer to a request for an unknown route or with a wrong method."""
    if need is NOWHERE:
        return error_answer(NotFoundError("there is no such page", where=what.path))
    if what.method in need.methods:
        return None
    error = TarnError(f"{what.method}: Method Not Allowed", where=what.path)
    return error_answer(error, 405, {"Allow": ", ".join(need.methods)})


def _malformed(what: RequestInfo) -> Response | None:
    """Return the answer to a head that is too large or ambiguous."""
    found = ""
    status = 400
    if len(what.target) > LARGEST_TARGET + bool(what.query):  # the question mark counts for nothing
        status, found = 414, f"a path and query of more than {LARGEST_TARGET // 1024} KiB"
    elif sum(len(name) + len(value) for name, value in what.headers) > LARGEST_HEADERS:
        status, found = 431, f"headers of more than {LARGEST_HEADERS // 1024} KiB"
    elif what.values(b"transfer-encoding") and what.values(b"content-length"):
        # Request smuggling: a proxy in front may use the other length, and would then take what
        # follows for a different request than we do.
        found = "both Content-Length and Transfer-Encoding"
    if not found:
        return None
    error = ConfigError(found, code="TARN-2002", where="the head of the request")
    return error_answer(error, status, {"Connection": "close"})
