"""The application: who may come in, then the pages and the API."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Mapping

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from tarn.control.snapshot import Snapshot
from tarn.errors import NotFoundError, TarnError
from tarn.http.admission import Admission
from tarn.http.answers import TEXT, RejectedError, error_answer, wants_json
from tarn.http.api import ApiRoutes
from tarn.http.authorize import Authorize
from tarn.http.csrf import Csrf
from tarn.http.dashboard import Dashboard, read_page
from tarn.http.history import PastPages
from tarn.http.identity import Authenticator
from tarn.http.logs import LogRoutes
from tarn.http.model_routes import ModelRoutes
from tarn.http.pages import PageRoutes
from tarn.http.request_id import HEADER, log_request, request_id_of
from tarn.http.rights import Rights
from tarn.http.sessions import Sessions
from tarn.http.sign_in import SignIn
from tarn.http.sources import Sources
from tarn.log import request_id, within

__all__ = ["Application", "create_app"]

_LOG = logging.getLogger(__name__)

SAFE_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (
        b"content-security-policy",
        # the page at / names its base where a proxy shows it under another path
        b"default-src 'none'; base-uri 'self'; form-action 'none'; frame-ancestors 'none'",
    ),
)
"""On every answer: nothing of it is kept, framed, run, or taken for another type. An answer that
brings one of them itself (the dashboard its policy) keeps its own."""
TAKEN_WITHIN_S = 30.0
"""For a part of an answer, behind which 64 KiB and the system's own buffers are full."""


def create_app(sources: Sources) -> "Application":
    """Return the ASGI application of one master."""
    return Application(sources)


class Application:
    """Asks its `Admission` about every request before any route sees it.

    A route that does not stand in the table of actions is closed. The text of ``/instances`` is
    answered here, before the router: it is asked the most.
    """

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        rights = Rights(sources)
        clock, token = sources.clock, sources.api_token
        name = sources.board.current.name
        sessions = None if token is None else Sessions(token, name, clock.at)
        csrf = Csrf(clock.at)
        identity = Authenticator(token, sources.proxy, sources.proofs, sessions, sources.hosts)
        self._admission = Admission(sources, rights, identity, csrf)
        self._api = ApiRoutes(sources, rights)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._routes = Starlette(
            routes=[
                *PageRoutes(sources, rights).routes(),
                *Dashboard(read_page(only_sessions=sources.only_sessions)).routes(),
                *PastPages(sources, rights).routes(),
                *Authorize(rights, sources.groups).routes(),
                *self._api.routes(),
                *SignIn(sources, rights, sessions, csrf).routes(),
                *LogRoutes(sources, rights).routes(),
                *ModelRoutes(sources, rights).routes(),
            ],
            lifespan=self._follow,
            exception_handlers={
                HTTPException: _http_error,
                TarnError: _tarn_error,
                RejectedError: _rejected,
                Exception: _bug,
            },
        )
        # a redirect would be told by the Host that somebody sent
        self._routes.router.redirect_slashes = False

    @property
    def routes(self) -> tuple[Route, ...]:
        """Return every route there is."""
        return tuple(one for one in self._routes.routes if isinstance(one, Route))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request (ASGI)."""
        if scope["type"] == "lifespan":
            await self._routes(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        else:
            await self._numbered(_without_slash(scope), receive, send)

    def close(self) -> None:
        """End every stream; any thread, idempotent."""
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop has ended already
                self._loop.call_soon_threadsafe(self._api.close)

    async def _numbered(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer under an id of its own; whatever is logged meanwhile carries it."""
        number, began_s = request_id_of(scope["headers"]), self._sources.clock.now_s()
        safe = _Safe(send, number)
        with within(number):
            try:
                await self._guarded(scope, receive, safe)
            finally:
                log_request(scope, safe.status, self._sources.clock.now_s() - began_s)

    async def _guarded(self, scope: Scope, receive: Receive, send: "_Safe") -> None:
        try:
            refusal = await self._admission.refusal(scope, send.add)
            if refusal is not None:
                await refusal(scope, receive, send)
            elif not await self._hot(scope, send):
                await self._routes(scope, receive, send)
        except ClientDisconnect:
            return
        except TarnError as error:  # who asks could not be looked up
            if not send.started:
                await error_answer(error)(scope, receive, send)
        except Exception:  # noqa: BLE001 (a bug in a route: answered without its insides, logged)
            _LOG.exception("a request failed: %s %s", scope["method"], scope["path"])
            if not send.started:
                await _internal()(scope, receive, send)

    async def _hot(self, scope: Scope, send: Send) -> bool:
        if scope["path"] != "/instances" or scope["method"] != "GET":
            return False
        if any(n == b"accept" and wants_json(v.decode("latin-1")) for n, v in scope["headers"]):
            return False
        now = self._sources.board.current
        if not now.instances_known:
            return False
        body = now.instances_text
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

    def _hand_over(self, _snapshot: Snapshot) -> None:
        """Let the loop look at the board. Control thread.

        Nothing but the board holds the newest snapshot, so no two threads share anything else here.
        """
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
                self._loop.call_soon_threadsafe(self._take_over)

    def _take_over(self) -> None:
        self._api.fold(self._sources.board.current)


def _without_slash(scope: Scope) -> Scope:
    """Return *scope* with a page's path as the page has it; a slash at its end is no other page.

    A redirect would lead to where the ``Host`` header says, which anybody may have written, and
    out of a proxy's prefix.
    """
    path = scope["path"]
    one = len(path) > 1 and path[-1] == "/" and path[-2] != "/"
    return {**scope, "path": path[:-1]} if one else scope


class _Safe:
    """A ``send`` that adds the safe headers, and knows whether an answer began.

    A part of an answer that is not taken in time ends it: who reads nothing holds no stream.
    """

    def __init__(self, send: Send, number: str) -> None:
        self._send = send
        self._number = (HEADER.lower().encode(), number.encode())
        self._more: tuple[tuple[bytes, bytes], ...] = ()
        self.status = 0
        """0 while no answer began."""

    @property
    def started(self) -> bool:
        return self.status > 0

    def add(self, headers: Mapping[str, str]) -> None:
        """Let the answer carry *headers*, too."""
        self._more = tuple((name.lower().encode(), v.encode()) for name, v in headers.items())

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            own = list(message.get("headers", ()))
            names = {name for name, _ in own}
            safe = (one for one in SAFE_HEADERS if one[0] not in names)
            message["headers"] = [*own, *safe, self._number, *self._more]
        try:
            async with asyncio.timeout(TAKEN_WITHIN_S):
                await self._send(message)
        except TimeoutError as error:
            raise ClientDisconnect from error


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
    step = f"Its log says more: search it for {request_id()}"
    error = TarnError("the master failed on this request", next_step=step)
    return error_answer(error, 500)
