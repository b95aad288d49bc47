"""The application: one door in front of every route, then the pages and the API."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Mapping

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from tarn.control.snapshot import Snapshot
from tarn.domain import Principal, Verdict
from tarn.domain.access import ADMIN, FOLLOW, VIEW, by_standing
from tarn.errors import NotAuthorizedError, NotFoundError, TarnError
from tarn.http.answers import TEXT, RejectedError, error_answer, wants_json
from tarn.http.api import Api
from tarn.http.asked import Identified, asked
from tarn.http.identity import Identity
from tarn.http.pages import Pages
from tarn.http.sources import Sources

__all__ = ["Application", "create_app"]

_LOG = logging.getLogger(__name__)

OPEN = frozenset({"/health", "/livez", "/readyz"})
"""Routes that ask nobody, and therefore name nobody."""

SAFE_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
)


def create_app(sources: Sources) -> "Application":
    """Return the ASGI application of one master."""
    return Application(sources)


class Application:
    """Identifies and authorizes every request before any route sees it.

    A route that is added later is closed unless it stands in ``OPEN``. The text of ``/instances``
    is answered here, before the router: it is asked the most.
    """

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self._identity = Identity(sources.api_token, sources.proxy)
        self._api = Api(sources)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiting: Snapshot | None = None
        self._routes = Starlette(
            routes=[*Pages(sources).routes(), *self._api.routes()],
            lifespan=self._follow,
            exception_handlers={
                HTTPException: _http_error,
                TarnError: _tarn_error,
                RejectedError: _rejected,
                Exception: _bug,
            },
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request (ASGI)."""
        if scope["type"] == "lifespan":
            await self._routes(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        else:
            await self._guarded(scope, receive, _Safe(send))

    def close(self) -> None:
        """End every stream; any thread, idempotent."""
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop has ended already
                self._loop.call_soon_threadsafe(self._api.close)

    async def _guarded(self, scope: Scope, receive: Receive, send: "_Safe") -> None:
        try:
            refusal = None if scope["path"] in OPEN else await self._refusal(scope, send)
            if refusal is not None:
                await refusal(scope, receive, send)
            elif not await self._hot(scope, send):
                await self._routes(scope, receive, send)
        except ClientDisconnect:
            return
        except Exception:  # noqa: BLE001 (a bug in a route: answered without its insides, logged)
            _LOG.exception("a request failed: %s %s", scope["method"], scope["path"])
            if not send.started:
                await _internal()(scope, receive, send)

    async def _refusal(self, scope: Scope, send: "_Safe") -> Response | None:
        """Return the answer for somebody who may not; None lets the request in."""
        action = _action(scope)
        who = await self._identity.identify(asked(scope))
        if who.principal is None:
            return _unidentified(action, who)
        send.add(who.headers)
        verdict = by_standing(who.principal, action, self._sources.access)
        if verdict is None:
            verdict = await self._sources.gate.allow(who.principal, action, "")
        return None if verdict.allowed else _forbidden(who.principal, action, verdict)

    async def _hot(self, scope: Scope, send: Send) -> bool:
        if scope["path"] != "/instances" or scope["method"] != "GET":
            return False
        if any(n == b"accept" and wants_json(v.decode("latin-1")) for n, v in scope["headers"]):
            return False
        body = self._sources.board.current.instances_text
        headers = [
            (b"content-type", TEXT.encode()),
            (b"content-length", str(len(body)).encode()),
        ]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})
        return True

    @contextlib.asynccontextmanager
    async def _follow(self, _routes: Starlette) -> AsyncIterator[None]:
        """Follow the board while the loop runs."""
        self._loop = asyncio.get_running_loop()
        unsubscribe = self._sources.board.subscribe(self._hand_over)
        self._api.fold(self._sources.board.current)
        try:
            yield
        finally:
            unsubscribe()
            self._api.close()

    def _hand_over(self, snapshot: Snapshot) -> None:
        """Leave the newest snapshot for the loop. Control thread."""
        idle, self._waiting = self._waiting is None, snapshot
        if idle and self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
                self._loop.call_soon_threadsafe(self._take_over)

    def _take_over(self) -> None:
        snapshot, self._waiting = self._waiting, None
        if snapshot is not None:
            self._api.fold(snapshot)


class _Safe:
    """A ``send`` that adds the safe headers, and knows whether an answer began."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._more: tuple[tuple[bytes, bytes], ...] = ()
        self.started = False

    def add(self, headers: Mapping[str, str]) -> None:
        """Let the answer carry *headers*, too."""
        self._more = tuple((name.lower().encode(), v.encode()) for name, v in headers.items())

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.started = True
            message["headers"] = [*message.get("headers", ()), *SAFE_HEADERS, *self._more]
        await self._send(message)


def _action(scope: Scope) -> str:
    if scope["method"] in ("GET", "HEAD"):
        return VIEW
    followed = scope["path"].startswith("/api/v1/followers/") or scope["path"] == "/api/v1/demand"
    return FOLLOW if followed else ADMIN


def _unidentified(action: str, who: Identified) -> Response:
    error = NotAuthorizedError("anonymous", action, next_step=who.found)
    return error_answer(error, who.status, who.headers)


def _forbidden(principal: Principal, action: str, verdict: Verdict) -> Response:
    return error_answer(NotAuthorizedError(principal.user, action), reason=verdict.reason)


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    headers = error.headers
    if error.status_code == 404:  # noqa: PLR2004 (not found)
        found = NotFoundError("there is no such page", where=request.url.path)
        return error_answer(found)
    found_method = TarnError(f"{request.method}: {error.detail}", where=request.url.path)
    return error_answer(found_method, error.status_code, headers)


async def _tarn_error(_request: Request, error: Exception) -> Response:
    assert isinstance(error, TarnError)
    return error_answer(error)


async def _rejected(_request: Request, error: Exception) -> Response:
    assert isinstance(error, RejectedError)
    return error_answer(error.error, error.status, error.headers)


async def _bug(_request: Request, _error: Exception) -> Response:
    return _internal()


def _internal() -> Response:
    error = TarnError("the master failed on this request", next_step="Its log says more")
    return error_answer(error, 500)
