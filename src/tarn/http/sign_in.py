"""``/api/v1/me`` and ``/api/v1/session``: signing in, and the rights of the user.

The page keeps its session itself, never in a cookie, so that a browser never adds it to a request
by itself. Neither the session nor the api token may pass the runtime's proxy, which logs requests.
"""

import hmac
import math
from collections.abc import Mapping

from starlette.requests import Request
from starlette.responses import Response

from tarn.domain.access import FLEET_ACTIONS
from tarn.errors import NotAuthorizedError, RefusedError, TarnError
from tarn.http.admission import Rates
from tarn.http.answers import Endpoints, RejectedError, body_of, json_answer
from tarn.http.commands import wrong
from tarn.http.issued_tokens import LINK_S, SESSION_S, Csrf, Links, Sessions
from tarn.http.request import identity_of, is_through_proxy, principal_of, request_info
from tarn.http.rights import Rights, Sources

__all__ = ["SignIn"]

# Characters of a token or a code.
LONGEST = 4096
# Attempts that one address has at once.
TRIES = 10
# The pause between further attempts.
TRY_EVERY_S = 6.0


class SignIn:
    """The routes. Lives on one event loop.

    Args:
        sources: The master.
        rights: Decides what a principal may do.
        sessions: None if the master asks for no api token, so that there is no sign-in.
        csrf: Issues the values for a page's writes.
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

    def routes(self) -> Endpoints:
        """Return what answers each path."""
        return {
            "/api/v1/me": self.me,
            "/api/v1/session": self.begin,
            "/api/v1/session/end": self.end,
            "/api/v1/session/link": self.link,
        }

    async def me(self, request: Request) -> Response:
        """Answer the principal, its rights to the fleet, and the CSRF value for a page's writes."""
        principal, session = principal_of(request), identity_of(request.scope).session
        may = [
            action
            for action in FLEET_ACTIONS
            if (await self._rights.on_fleet(principal, action)).allowed
        ]
        far = is_through_proxy(request_info(request.scope), self._sources.proxy)
        left = None
        if session is not None and self._known is not None:
            left = {"expires_in_s": max(0, self._known.left_s(session))}
        return json_answer(
            {
                "user": principal.user,
                "via": principal.via if session is None else "session",
                "may": may,
                "csrf": self._csrf.of(principal),
                "session": left,
                "direct": self._sources.dashboard if far else None,
            }
        )

    async def begin(self, request: Request) -> Response:
        """Begin a session for the api token, or for a code from its holder."""
        sessions = self._sessions
        if is_through_proxy(request_info(request.scope), self._sources.proxy):
            step = f"Sign in at the master itself: {self._sources.dashboard}"
            found = "it came through a proxy, which can read it"
            raise RejectedError(403, TarnError(found, code="TARN-3804", next_step=step))
        token, code = _brought(await body_of(request))
        if token is not None:
            # The right token is refused, too: otherwise guessing would not be slowed down.
            peer = request_info(request.scope).peer
            wait_s = self._tries.wait_s(peer, self._sources.clock.now_s())
            if wait_s > 0:
                error = TarnError("too many came from this address", code="TARN-3801")
                raise RejectedError(429, error, {"Retry-After": str(math.ceil(wait_s))})
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
        """End the session of the request."""
        await _nothing(request)
        session = identity_of(request.scope).session
        if session is not None:
            self._sessions.end(session)
        return json_answer({"ended": session is not None})

    async def link(self, request: Request) -> Response:
        """Answer a code with which a browser signs in once, for the holder of the api token."""
        await _nothing(request)
        _ = self._sessions  # raises if there is no sign-in
        if principal_of(request).via != "token" or identity_of(request.scope).session is not None:
            # A session that could make codes could be renewed without end.
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


def _brought(body: Mapping[str, object]) -> tuple[str | None, str]:
    """Return the token, or None and the code; the error does not repeat what was sent."""
    fields = set(body)
    value = next(iter(body.values()), None)
    named = fields in ({"token"}, {"code"})
    if not named or not isinstance(value, str) or not 0 < len(value) <= LONGEST:
        raise wrong("body", "is not a way to sign in", '{"token": "…"} or {"code": "…"}')
    return (value, "") if "token" in fields else (None, value)


async def _nothing(request: Request) -> None:
    if await body_of(request):
        raise wrong("body", "holds fields", "an empty object")


def _refused(found: str) -> TarnError:
    step = "`tarn dashboard` makes a new link, where the cluster was started"
    return TarnError(found, code="TARN-3800", where="sign-in", next_step=step)
