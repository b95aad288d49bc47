"""``/api/v1/me`` and ``/api/v1/session``: what a page asks to know for whom it works.

A session is kept by the page, never in a cookie: a browser adds it to no request by itself.
Neither it nor the api token may pass the runtime's proxy, which writes down what it hands on.
"""

import hmac
import math
from collections.abc import Mapping

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tarn.domain.access import FLEET_ACTIONS
from tarn.errors import ConfigError, NotAuthorizedError, RefusedError, TarnError
from tarn.http.answers import RejectedError, json_answer
from tarn.http.body import body_of
from tarn.http.csrf import Csrf
from tarn.http.links import LINK_S, Links
from tarn.http.origin import is_through_proxy
from tarn.http.rate import Rates
from tarn.http.request_info import SESSION, request_info
from tarn.http.rights import Rights, principal_of
from tarn.http.sessions import SESSION_S, BrowserSession, Sessions
from tarn.http.sources import Sources

__all__ = ["SignIn"]

LONGEST = 4096
"""Of a token or a code."""
TRIES = 10
"""That one address has at once."""
TRY_EVERY_S = 6.0
"""And then."""


class SignIn:
    """The routes. Lives on one event loop.

    Args:
        sources: The master.
        rights: What who asks may do.
        sessions: None: no api token is asked for, so nobody signs in.
        csrf: Of this master.
    """

    def __init__(
        self, sources: Sources, rights: Rights, sessions: Sessions | None, csrf: Csrf
    ) -> None:
        self._sources = sources
        self._rights = rights
        self._known = sessions
        self._csrf = csrf
        self._links = Links(sources.clock.now_s)
        self._tries = Rates(1 / TRY_EVERY_S, burst=TRIES)

    def routes(self) -> list[Route]:
        """Return the routes."""
        return [
            Route("/api/v1/me", self.me),
            Route("/api/v1/session", self.begin, methods=["PUT"]),
            Route("/api/v1/session/end", self.end, methods=["PUT"]),
            Route("/api/v1/session/link", self.link, methods=["PUT"]),
        ]

    async def me(self, request: Request) -> Response:
        """Answer who asks, what they may do to the fleet, and what a page's writes must carry."""
        principal, session = principal_of(request), _session(request)
        may = [
            action
            for action in FLEET_ACTIONS
            if (await self._rights.on_fleet(principal, action)).allowed
        ]
        far = is_through_proxy(request_info(request.scope), self._sources.proxy)
        return json_answer(
            {
                "user": principal.user,
                "via": principal.via if session is None else "session",
                "may": may,
                "csrf": self._csrf.of(principal),
                "session": self._left(session),
                "direct": self._sources.dashboard if far else None,
            }
        )

    async def begin(self, request: Request) -> Response:
        """Begin a session for who brings the api token, or a code that its holder got."""
        sessions = self._sessions
        if is_through_proxy(request_info(request.scope), self._sources.proxy):
            raise RejectedError(403, _far(self._sources.dashboard))
        token, code = _brought(await body_of(request))
        if token is not None:
            self._count(request)
            expected = self._sources.api_token
            assert expected is not None
            if not hmac.compare_digest(token.encode("utf-8", "surrogatepass"), expected):
                raise RejectedError(401, _refused("the api token is another one"))
        elif not self._links.take(code):
            raise RejectedError(
                401, _refused("the link was used before, or is older than a minute")
            )
        return json_answer({"session": sessions.begin(), "expires_in_s": SESSION_S})

    async def end(self, request: Request) -> Response:
        """End the session that the request came with."""
        await _nothing(request)
        session = _session(request)
        if session is not None:
            self._sessions.end(session)
        return json_answer({"ended": session is not None})

    async def link(self, request: Request) -> Response:
        """Answer a code for the holder of the api token, with which a browser signs in once."""
        await _nothing(request)
        _ = self._sessions
        if principal_of(request).via != "token" or _session(request) is not None:
            # a session gives no code: it would be one without an end
            step = "Only the holder of the api token can make one: run `tarn dashboard`"
            raise NotAuthorizedError(principal_of(request).user, "make a link", next_step=step)
        return json_answer({"code": self._links.give(), "expires_in_s": LINK_S})

    @property
    def _sessions(self) -> Sessions:
        if self._known is None:
            raise RefusedError(
                "there is no sign-in here: this master does not ask for an api token",
                code="TARN-3803",
            )
        return self._known

    def _left(self, session: BrowserSession | None) -> Mapping[str, int] | None:
        if session is None or self._known is None:
            return None
        return {"expires_in_s": max(0, self._known.left_s(session))}

    def _count(self, request: Request) -> None:
        """Refuse who tried too often; the right token, too, or trying would tell it."""
        peer = request_info(request.scope).peer
        wait_s = self._tries.wait_s(peer, self._sources.clock.now_s())
        if wait_s > 0:
            error = TarnError("too many came from this address", code="TARN-3801")
            raise RejectedError(429, error, {"Retry-After": str(math.ceil(wait_s))})


def _session(request: Request) -> BrowserSession | None:
    found = request.scope.get(SESSION)
    return found if isinstance(found, BrowserSession) else None


def _brought(body: Mapping[str, object]) -> tuple[str | None, str]:
    """Return the token, or None and the code.

    Raises:
        ConfigError: Not exactly one of them, as a text; what was sent is not repeated.
    """
    fields = set(body)
    value = next(iter(body.values()), None)
    named = fields in ({"token"}, {"code"})
    if not named or not isinstance(value, str) or not 0 < len(value) <= LONGEST:
        right = 'Expected {"token": "…"} or {"code": "…"}'
        raise ConfigError("is not a way to sign in", code="TARN-2002", where="body", right=right)
    return (value, "") if "token" in fields else (None, value)


async def _nothing(request: Request) -> None:
    if await body_of(request):
        right = "Expected an empty object"
        raise ConfigError("holds fields", code="TARN-2002", where="body", right=right)


def _refused(found: str) -> TarnError:
    step = "`tarn dashboard` makes a new link, where the cluster was started"
    return TarnError(found, code="TARN-3800", where="sign-in", next_step=step)


def _far(direct: str) -> TarnError:
    step = f"Sign in at the master itself: {direct}"
    return TarnError("it came through a proxy, which can read it", code="TARN-3804", next_step=step)
