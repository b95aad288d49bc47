"""``/api/v1``: status, lists and streams to read; every write is a PUT."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import Future

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from tarn.control.snapshot import Snapshot
from tarn.domain import Command, Done, Principal
from tarn.domain.access import FOLLOW
from tarn.domain.command import ControlRequest
from tarn.errors import (
    ConfigError,
    NotAuthorizedError,
    ProviderError,
    RefusedError,
    TimedOutError,
)
from tarn.http.answers import RejectedError, error_answer, json_answer
from tarn.http.body import body_of
from tarn.http.commands import VERBS, acknowledge, command, demand, revision
from tarn.http.control import asked_number, control_json
from tarn.http.feed import Feed, StreamPlaces, decision_changes, event_changes, fleet_changes
from tarn.http.render import (
    authorizer_json,
    authorizer_warnings,
    decision_json,
    event_json,
    limits_json,
    render_instances_json,
    render_status,
    stopped,
)
from tarn.http.request_id import requester_of
from tarn.http.rights import CachedVisibility, Rights, principal_of
from tarn.http.scaling import scaling_json
from tarn.http.sources import Sources
from tarn.http.visibility import VisibilityFilter

__all__ = ["ApiRoutes"]

ANSWER_WITHIN_S = 5.0


class ApiRoutes:
    """The routes below ``/api/v1``. Lives on one event loop.

    Args:
        sources: The master.
        rights: Who sees which models.
        answer_within_s: How long the control thread may take to answer a command.
    """

    def __init__(
        self, sources: Sources, rights: Rights, *, answer_within_s: float = ANSWER_WITHIN_S
    ) -> None:
        self._sources = sources
        self._rights = rights
        self._answer_within_s = answer_within_s
        board = sources.board
        self._events = Feed(board, event_changes)
        self._decisions = Feed(board, decision_changes)
        self._fleet = Feed(board, fleet_changes)
        self._places = StreamPlaces()

    def routes(self) -> list[Route]:
        """Return the routes; a wrong method is answered 405 with ``Allow``."""
        return [
            Route("/api/v1/status", self.status),
            Route("/api/v1/instances", self.instances),
            Route("/api/v1/events", self.events),
            Route("/api/v1/decisions", self.decisions),
            Route("/api/v1/scaling", self.scaling),
            Route("/api/v1/control", self.control),
            Route("/api/v1/stream", self.stream),
            *(Route(f"/api/v1/{verb}", self.put, methods=["PUT"], name=verb) for verb in VERBS),
            Route("/api/v1/followers/{name}", self.follower, methods=["PUT"]),
            Route("/api/v1/demand", self.demand, methods=["PUT"]),
        ]

    def fold(self, snapshot: Snapshot) -> None:
        """Take in a newer snapshot. Event loop only."""
        for feed in (self._events, self._decisions, self._fleet):
            feed.fold(snapshot)

    def close(self) -> None:
        """End every stream. Event loop only."""
        for feed in (self._events, self._decisions, self._fleet):
            feed.close()

    async def status(self, request: Request) -> Response:
        """Answer the status; the ``ETag`` is what ``If-Match`` of a PUT may name."""
        now = self._sources.board.current
        hidden = await self._hidden(request, now)
        now_s, readiness = self._sources.clock.now_s(), self._sources.readiness()
        stale, hides = self._rights.stale_for(principal_of(request)), bool(hidden)
        more = {
            "authorizer": authorizer_json(readiness, stale=stale, hides=hides),
            "warnings": [
                *stopped(self._sources.silent_s()),
                *now.warnings,
                *authorizer_warnings(readiness, stale=stale),
            ],
        }
        body = render_status(now, now_s, hidden, **more)
        return json_answer(body, headers={"ETag": f'"{now.spec_revision}"'})

    async def instances(self, request: Request) -> Response:
        """Answer every instance that is alive."""
        now = self._sources.board.current
        hidden = await self._hidden(request, now)
        return json_answer(render_instances_json(now, self._sources.clock.now_s(), hidden))

    async def events(self, request: Request) -> Response:
        """Answer the events that are kept, or a stream of them."""
        if _streaming(request):
            return await self._stream(request, self._events)
        feed = self._events
        now, last_id = feed.snapshot, feed.last_id
        hidden = await self._hidden(request, now)
        rows = [hidden.row(event_json(event, now.name)) for event in now.events]
        return json_answer({"last_id": last_id, "events": rows})

    async def decisions(self, request: Request) -> Response:
        """Answer the decisions that are kept, or a stream of them."""
        if _streaming(request):
            return await self._stream(request, self._decisions)
        feed = self._decisions
        now, last_id = feed.snapshot, feed.last_id
        hidden = await self._hidden(request, now)
        rows = [hidden.row(decision_json(decision)) for decision in now.decisions]
        return json_answer({"last_id": last_id, "decisions": rows})

    async def scaling(self, request: Request) -> Response:
        """Answer what the size is and why, what comes next, and by which signals."""
        now = self._sources.board.current
        hidden = await self._hidden(request, now)
        return json_answer(hidden.head(scaling_json(now, self._sources.clock.now_s())))

    async def control(self, request: Request) -> Response:
        """Answer which control calls are wanted, and who has had each."""
        now = self._sources.board.current
        hidden = await self._hidden(request, now)
        number = asked_number(request.query_params.get("call"))
        return json_answer(hidden.head(control_json(now, number)))

    async def stream(self, request: Request) -> Response:
        """Stream ``instances`` (the whole view) and ``status`` as they change, for followers."""
        if _streaming(request):
            return await self._stream(request, self._fleet)
        right = "Expected Accept: text/event-stream"
        error = ConfigError("is a stream", where="/api/v1/stream", right=right)
        raise RejectedError(406, error)

    async def put(self, request: Request) -> Response:
        """Hand a person's command to the control thread, and answer what it said."""
        verb = request.url.path.rpartition("/")[2]
        asked = command(verb, await body_of(request))
        if isinstance(asked, ControlRequest) and asked.brings_code:
            self._refuse_strangers(principal_of(request))
        return await self._obey(request, asked)

    def _refuse_strangers(self, principal: Principal) -> None:
        """Refuse code of somebody's own to whom only an authorizer lets change the fleet.

        It would run as the owner of the cluster.
        """
        if not self._rights.stands(principal):
            raise NotAuthorizedError(
                principal.user,
                "load a model with parameters",
                next_step="Parameters can contain code, which runs as the cluster's owner. Only "
                "the owner, those in `admins`, and holders of the api token may send them; "
                "without parameters the model is loaded as it is in the repository",
            )

    async def follower(self, request: Request) -> Response:
        """Hand a follower's word to the control thread."""
        name = request.path_params["name"]
        word = acknowledge(name, await body_of(request), self._sources.clock.at())
        return await self._obey(request, word)

    async def demand(self, request: Request) -> Response:
        """Tell the control thread that requests wait somewhere for an instance."""
        return await self._obey(request, demand(await body_of(request)))

    async def _hidden(self, request: Request, now: Snapshot) -> VisibilityFilter:
        return await self._rights.hidden(principal_of(request), now)

    async def _obey(self, request: Request, asked: Command) -> Response:
        if_match = revision(request.headers.get("if-match"))
        try:
            done = await self._answer(
                self._sources.inbox.ask(asked, if_match, requester_of(request))
            )
        except RefusedError as error:
            return error_answer(error, limits=limits_json(self._sources.board.current.limits))
        return json_answer(
            {
                "spec_revision": done.spec_revision,
                "message": done.message,
                **({} if done.call is None else {"call": done.call}),
            },
            headers={"ETag": f'"{done.spec_revision}"'},
        )

    async def _answer(self, future: "Future[Done]") -> Done:
        """Wait for the control thread; its future is never cancelled under its hands."""
        loop, settled = asyncio.get_running_loop(), asyncio.Event()

        def tell(_future: "Future[Done]") -> None:
            with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
                loop.call_soon_threadsafe(settled.set)

        future.add_done_callback(tell)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._answer_within_s):
                await settled.wait()
        if future.done():
            return future.result()
        raise TimedOutError(
            f"the control thread did not answer within {self._answer_within_s:g} s",
            where="master",
            next_step="It may still carry out the command; check the status before you repeat it",
        )

    async def _stream(self, request: Request, feed: Feed) -> Response:
        principal = principal_of(request)
        full = self._places.take(principal, follows=False)
        if full and (await self._rights.on_fleet(principal, FOLLOW)).allowed:
            full = self._places.take(principal, follows=True)
        if full:
            raise ProviderError("master", full, retry_after_s=10.0)
        last_id = request.headers.get("last-event-id")
        texts = feed.read(last_id or None, CachedVisibility(self._rights, self._sources, principal))
        return _Stream(texts, lambda: self._places.give_back(principal))


class _Stream(StreamingResponse):
    """A stream that ends with its answer, not whenever the garbage is collected."""

    def __init__(self, texts: AsyncGenerator[str, None], ended: Callable[[], None]) -> None:
        headers = {"X-Accel-Buffering": "no"}
        super().__init__(texts, headers=headers, media_type="text/event-stream")
        self._texts, self._ended = texts, ended

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._ended()
            await self._texts.aclose()


def _streaming(request: Request) -> bool:
    accepted = request.headers.get("accept", "").lower()
    return request.method == "GET" and "text/event-stream" in accepted
