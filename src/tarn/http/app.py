"""The ASGI application: admission, then the pages and the API."""

import asyncio
import contextlib
import logging
import re
import secrets
from collections.abc import AsyncIterator, Iterable, Mapping

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from tarn.errors import NotFoundError, TarnError
from tarn.http.admission import ACTIONS, Admission
from tarn.http.answers import RejectedError, error_answer
from tarn.http.api import ApiRoutes
from tarn.http.authenticator import Authenticator
from tarn.http.authorize import Authorize
from tarn.http.dashboard import Dashboard, read_page
from tarn.http.history import PastPages
from tarn.http.issued_tokens import Csrf, Sessions
from tarn.http.one_triton import OneTriton, shaped
from tarn.http.pages import PageRoutes
from tarn.http.request import IDENTITY, identity_of
from tarn.http.rights import Rights, Sources
from tarn.http.sign_in import SignIn
from tarn.log import request_id, within
from tarn.read.snapshot import Snapshot

__all__ = ["Application"]

_LOG = logging.getLogger(__name__)

HEADER = "X-Request-Id"
_NAME = HEADER.lower().encode()
_ID = re.compile(rb"[A-Za-z0-9][A-Za-z0-9._:-]{7,63}")
_REQUESTS = logging.getLogger("tarn.http.requests")
# Each follower and load balancer sends these every second or so: a line for each is noise.
_OFTEN = ("/api/v1/followers/", "/api/v1/demand")
_FAILED = 500
# On every answer: it is not cached, framed, run, or taken for another type. An answer that sets
# one of them itself (the dashboard its policy) keeps its own.
SAFE_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (
        b"content-security-policy",
        # the page at / has a <base> if a proxy shows it under another path
        b"default-src 'none'; base-uri 'self'; form-action 'none'; frame-ancestors 'none'",
    ),
)


class Application:
    """Serves the HTTP API of a master.

    Its `Admission` decides about every request first. A route that is not in `ACTIONS` is closed.
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
        self._one_triton = OneTriton(sources, rights, self._api.settled)
        self._loop: asyncio.AbstractEventLoop | None = None
        parts = (
            PageRoutes(sources, rights),
            Dashboard(read_page(only_sessions=sources.only_sessions)),
            PastPages(sources, rights),
            Authorize(rights, sources.groups),
            self._api,
            self._one_triton,
            SignIn(sources, rights, sessions, csrf),
        )
        endpoints = {path: one for part in parts for path, one in part.routes().items()}
        # Admission has found the route and its method, so Starlette's router and middleware, which
        # take longer than most answers, are left to paths with a name in them.
        self._exact = {path: one for path, one in endpoints.items() if "{" not in path}
        self._routes = Starlette(
            routes=[
                Route(path, endpoint, methods=[*ACTIONS[path].methods])
                for path, endpoint in endpoints.items()
            ],
            lifespan=self._follow,
            exception_handlers={
                HTTPException: _http_error,
                TarnError: _failed,
                RejectedError: _failed,
                Exception: _failed,
            },
        )
        # Its redirect would lead to the Host that the client sent.
        self._routes.router.redirect_slashes = False

    @property
    def routes(self) -> tuple[Route, ...]:
        """Return every route."""
        return tuple(one for one in self._routes.routes if isinstance(one, Route))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request (ASGI)."""
        if scope["type"] == "lifespan":
            await self._routes(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        else:
            path = scope["path"]
            # The same page with a slash at its end. A redirect would lead to the ``Host`` that the
            # client sent, and out of a proxy's prefix.
            if len(path) > 1 and path[-1] == "/" and path[-2] != "/":
                scope = {**scope, "path": path[:-1]}
            number, began_s = request_id_of(scope["headers"]), self._sources.clock.now_s()
            safe = _Safe(send, number)
            with within(number):  # every log record of this request carries its id
                try:
                    await self._guarded(scope, receive, safe)
                finally:
                    log_request(scope, safe.status, self._sources.clock.now_s() - began_s)

    def close(self) -> None:
        """End every stream; any thread, idempotent."""
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop has ended already
                self._loop.call_soon_threadsafe(self._end)

    async def _guarded(self, scope: Scope, receive: Receive, send: "_Safe") -> None:
        try:
            refusal = await self._admission.refusal(scope, send.add)
            if refusal is not None:
                await shaped(scope["path"], refusal)(scope, receive, send)
            elif (endpoint := self._exact.get(scope["path"])) is not None:
                answer = await endpoint(Request(scope, receive, send))
                await answer(scope, receive, send)
            else:
                await self._routes(scope, receive, send)
        except ClientDisconnect:
            return
        except Exception as error:  # noqa: BLE001 (a bug in a route, too, is answered)
            if not isinstance(error, TarnError | RejectedError):
                _LOG.exception("a request failed: %s %s", scope["method"], scope["path"])
            if not send.started:
                await _failure(error)(scope, receive, send)

    @contextlib.asynccontextmanager
    async def _follow(self, _routes: Starlette) -> AsyncIterator[None]:
        """Follow the board while the loop runs."""
        self._loop = asyncio.get_running_loop()
        unsubscribe = self._sources.board.subscribe(self._hand_over)
        self._fold()
        listener = self._sources.grpc
        if listener is not None:
            listener.bind(self)
        try:
            yield
        finally:
            unsubscribe()
            self._end()
            if listener is not None:
                await listener.close()

    def _fold(self) -> None:
        self._api.fold(self._sources.board.current)
        self._one_triton.fold(self._sources.board.current)

    def _end(self) -> None:
        self._api.close()
        self._one_triton.close()

    def _hand_over(self, _snapshot: Snapshot) -> None:
        """Let the loop look at the board. Control thread."""
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
                # The loop reads the board itself: the two threads share nothing else, and a loop
                # that is late takes only the newest snapshot.
                self._loop.call_soon_threadsafe(self._fold)


class _Safe:
    """A ``send`` that adds the safe headers, and knows whether an answer began."""

    def __init__(self, send: Send, number: str) -> None:
        self._send = send
        self._number = (HEADER.lower().encode(), number.encode())
        self._more: tuple[tuple[bytes, bytes], ...] = ()
        # 0 until the answer begins.
        self.status = 0

    @property
    def started(self) -> bool:
        return self.status > 0

    def add(self, headers: Mapping[str, str]) -> None:
        """Add *headers* to the answer."""
        self._more = tuple((name.lower().encode(), v.encode()) for name, v in headers.items())

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            own = list(message.get("headers", ()))
            names = {name for name, _ in own}
            safe = (one for one in SAFE_HEADERS if one[0] not in names)
            message["headers"] = [*own, *safe, self._number, *self._more]
        await self._send(message)


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    headers = error.headers
    if error.status_code == 404:  # noqa: PLR2004 (not found)
        found = NotFoundError("there is no such page", where=request.url.path)
        return error_answer(found)
    found_method = TarnError(f"{request.method}: {error.detail}", where=request.url.path)
    return error_answer(found_method, error.status_code, headers)


async def _failed(_request: Request, error: Exception) -> Response:
    return _failure(error)


def _failure(error: Exception) -> Response:
    """Return the answer to a request that failed; one about a bug shows nothing of its insides."""
    if isinstance(error, TarnError):
        return error_answer(error)
    if isinstance(error, RejectedError):
        return error_answer(error.error, error.status, error.headers)
    step = f"Its log says more: search it for {request_id()}"
    return error_answer(TarnError("the master failed on this request", next_step=step), 500)


def request_id_of(headers: Iterable[tuple[bytes, bytes]]) -> str:
    """Return the id in the *headers* of a request, or a new one.

    An id with other characters than letters, digits and ``._:-`` is not taken.
    """
    # A proxy in front may have set it, so that its log can be searched for the same id.
    brought = [value for name, value in headers if name == _NAME]
    if len(brought) == 1 and _ID.fullmatch(brought[0]):
        return brought[0].decode("ascii")
    return secrets.token_hex(8)


def log_request(scope: Scope, status: int, took_s: float) -> None:
    """Log an answered request; writes and failures at level INFO."""
    path = scope["path"]
    write = scope["method"] == "PUT" and IDENTITY in scope and not path.startswith(_OFTEN)
    level = logging.INFO if write or status >= _FAILED else logging.DEBUG
    if _REQUESTS.isEnabledFor(level):
        who = identity_of(scope).principal if IDENTITY in scope else None
        user = f"{who.user} ({who.via})" if who is not None else "nobody proven"
        host = (scope.get("client") or ("",))[0]
        words = (scope["method"], path[:200], status, user, host, took_s * 1e3)
        # A client can cause failures without end, so equal ones are logged as one kind.
        kind = None if write else {"kind": f"{path} answered {status} to {host}"}
        _REQUESTS.log(level, "%s %r answered %d to %s at %s in %.1f ms", *words, extra=kind)
