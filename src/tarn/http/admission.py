"""Who is let in: every request passes here, before any route sees it."""

import math
from collections.abc import Callable, Mapping

from starlette.responses import Response
from starlette.types import Scope

from tarn.domain import ANONYMOUS, Principal, Verdict
from tarn.domain.access import VIEW
from tarn.domain.request_proof import SCHEME
from tarn.errors import ConfigError, NotAuthorizedError, NotFoundError, TarnError
from tarn.http.answers import error_answer
from tarn.http.authorize import question
from tarn.http.connection_slots import PLACE
from tarn.http.csrf import Csrf
from tarn.http.identity import Authenticator
from tarn.http.identity.claims import has_ticket
from tarn.http.origin import cross_site_reason, csrf_through_proxy, is_through_proxy
from tarn.http.rate import Rates
from tarn.http.request_info import DIGEST, SESSION, Identity, RequestInfo, request_info
from tarn.http.rights import PRINCIPAL, Rights
from tarn.http.route_permissions import NOWHERE, OPEN, SELF, WRITE, RoutePermission, asking
from tarn.http.sources import Sources

__all__ = ["Admission"]

LARGEST_TARGET = 8 * 1024
LARGEST_HEADERS = 64 * 1024
"""A ticket of Kerberos may fill most of it. What reads the head stops later, and not exactly."""
ME = "/api/v1/me"
AUTHORIZE = "/authorize"
MISDIRECTED = 421

Add = Callable[[Mapping[str, str]], None]


class Admission:
    """Lets a request in, or answers it. Lives on one event loop.

    In order: how often they asked, whether the head keeps its bounds, who asks, whether the host
    is meant that they reached, whether there is such a route, whether a page of somebody else
    sent it, and whether they may.

    Requests count by the address they come from, before anybody is identified. What a trusted
    proxy sends counts by the user whom it is about: one user must not use up the others' requests.
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
        """Return the answer for who may not; None lets the request in, its principal in *scope*.

        What the answer must carry besides (the other half of a proof) goes to *add*.
        """
        what = request_info(scope)
        need, who = asking(what.path), None
        if need.action != OPEN and self._may_speak_for_others(what):
            who = await self._identity.identify(what)
        counted = what.peer if who is None else self._counted(what, who)
        wait_s = self._rates.wait_s(counted, self._clock.now_s())
        if wait_s > 0:
            return _too_many(wait_s, about_user=counted != what.peer)
        odd = _malformed(scope, what)
        if odd is not None or (need.action == OPEN and not _signed(what)):
            return odd or _astray(scope, need) or _abroad(what, need)
        if who is None:
            who = await self._identity.identify(what)
        if who.principal is None:
            return self._unidentified(what, need.action, who)
        add(who.headers)
        scope[PRINCIPAL], scope[SESSION] = who.principal, who.session
        scope[DIGEST] = who.digest
        if need.action == OPEN:
            return _astray(scope, need) or _abroad(what, need)
        misdirected = self._misdirected(what) if who.ambient else None
        if (astray := misdirected or _astray(scope, need)) is not None:
            return astray
        return await self._permission(scope, what, need, who.principal)

    async def _permission(
        self, scope: Scope, what: RequestInfo, need: RoutePermission, principal: Principal
    ) -> Response | None:
        """Answer what *principal* may not do; else the connection of one proven keeps its place."""
        refusal = await self._forbidden(what, need, principal)
        proven = principal.via != ANONYMOUS.via
        if refusal is None and proven and (place := scope.get(PLACE)) is not None:
            place.keep()
        return refusal

    def _may_speak_for_others(self, what: RequestInfo) -> bool:
        """Say whether to identify the sender before counting the request.

        A token or certificate is compared in no time. A ticket is work: once the address has used
        up its own requests, a wrong one is no longer looked at.
        """
        if not self._identity.hears_of_others(what.peer):
            return False
        return not has_ticket(what) or self._rates.left(what.peer, self._clock.now_s()) >= 1.0

    def _counted(self, what: RequestInfo, who: Identity) -> str:
        """Return what the request counts by: the address, or a user at it.

        Questions about models that nobody has heard of count apart: whoever invents them does not
        use up what the same user may ask about the models there are.
        """
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
        invented = "" if self._rights.knows(found.model) else " and unknown models"
        return f"{what.peer} about {found.user}{invented}"

    async def _forbidden(
        self, what: RequestInfo, need: RoutePermission, principal: Principal
    ) -> Response | None:
        proof = csrf_through_proxy(what, self._proxy) if need.action != SELF else ""
        if not (proof and self._csrf.good(proof, principal)):
            abroad = _abroad(what, need, over=bool(proof))
            if abroad is not None:
                return abroad
        if need.action == SELF:
            return None
        verdict = await self._rights.on_fleet(principal, need.action)
        return None if verdict.allowed else _no(principal, need.action, verdict)

    def _misdirected(self, what: RequestInfo) -> Response | None:
        """Return the answer to a request for a host that this master is not; no page can choose."""
        host = b",".join(what.values(b"host")).decode("latin-1")
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
        """Refuse somebody; a page that a proxy shows learns where it can sign in."""
        if who.status == MISDIRECTED:
            relayed = TarnError(who.found, code="TARN-3713", where=what.path)
            return error_answer(relayed, MISDIRECTED)
        error = NotAuthorizedError("anonymous", action or VIEW, next_step=who.found)
        asks = what.path == ME and is_through_proxy(what, self._proxy)
        more = {"direct": self._dashboard} if asks else {}
        return error_answer(error, who.status, who.headers, **more)


def _signed(what: RequestInfo) -> bool:
    """Say whether somebody wants the answer proven, too, that needs no proof itself."""
    scheme = SCHEME.lower().encode()
    return any(one[: len(scheme)].lower() == scheme for one in what.values(b"authorization"))


def _abroad(what: RequestInfo, need: RoutePermission, *, over: bool = False) -> Response | None:
    """Return the answer to a write that a page of somebody else sent; *over*: it may be our own."""
    found = cross_site_reason(what) if need.methods == WRITE else ""
    if not found:
        return None
    code = "TARN-3802" if over else "TARN-3711"
    return error_answer(TarnError(found, code=code, where=what.path), 403)


def _astray(scope: Scope, need: RoutePermission) -> Response | None:
    """Return the answer to a request for no route, or with a method that its route has not."""
    if need is NOWHERE:
        return error_answer(NotFoundError("there is no such page", where=scope["path"]))
    if scope["method"] in need.methods:
        return None
    error = TarnError(f"{scope['method']}: Method Not Allowed", where=scope["path"])
    return error_answer(error, 405, {"Allow": ", ".join(need.methods)})


def _malformed(scope: Scope, what: RequestInfo) -> Response | None:
    """Return the answer to a head that is too large, or says in two ways where its body ends.

    Of two lengths a proxy in front may have believed the other one: what follows would be
    another request to it than to us.
    """
    found = ""
    status = 400
    if len(scope.get("raw_path") or b"") + len(what.query) > LARGEST_TARGET:
        status, found = 414, f"a path and query of more than {LARGEST_TARGET // 1024} KiB"
    elif sum(len(name) + len(value) for name, value in what.headers) > LARGEST_HEADERS:
        status, found = 431, f"headers of more than {LARGEST_HEADERS // 1024} KiB"
    elif what.values(b"transfer-encoding") and what.values(b"content-length"):
        found = "both Content-Length and Transfer-Encoding"
    if not found:
        return None
    error = ConfigError(found, code="TARN-2002", where="the head of the request")
    return error_answer(error, status, {"Connection": "close"})


def _too_many(wait_s: float, *, about_user: bool) -> Response:
    error = TarnError(
        f"too many requests came {'about this user' if about_user else 'from this address'}",
        code="TARN-3710",
        next_step="Ask less often, or have api.rate_limit raised",
    )
    return error_answer(error, 429, {"Retry-After": str(math.ceil(wait_s))})


def _no(principal: Principal, action: str, verdict: Verdict) -> Response:
    return error_answer(NotAuthorizedError(principal.user, action), reason=verdict.reason)
