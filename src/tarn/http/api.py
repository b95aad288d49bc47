"""``/api/v1``: status, lists and streams to read; every write is a PUT."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import Future

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from tarn.domain import Command, Done
from tarn.domain.access import FOLLOW
from tarn.domain.command import BeginUpdate, ControlRequest, HoldUpdate
from tarn.domain.events import event_fields
from tarn.errors import (
    ConfigError,
    NotAuthorizedError,
    NotFoundError,
    ProviderError,
    RefusedError,
    TimedOutError,
)
from tarn.http.answers import Endpoints, RejectedError, body_of, error_answer, json_answer
from tarn.http.commands import VERBS, acknowledge, command, demand, revision, update, wrong
from tarn.http.feed import Feed, StreamPlaces, decision_changes, event_changes, fleet_changes
from tarn.http.render import (
    authorizer_issues,
    authorizer_json,
    decision_json,
    issues_json,
    limits_json,
    render_instances_json,
    render_status,
    stopped,
)
from tarn.http.render_details import asked_number, control_json, models_json, scaling_json, sd_json
from tarn.http.request import principal_of, requester_of
from tarn.http.rights import CachedVisibility, Rights, Sources
from tarn.http.visibility import VisibilityFilter
from tarn.plain.credentials import load_balancer_token
from tarn.read.snapshot import Snapshot

__all__ = ["ApiRoutes"]

ANSWER_WITHIN_S = 5.0
USUAL_LINES = 200
MOST_LINES = 2000
LONGEST_NUMBER = 9
# Characters of an instance's id; a real one has at most half as many.
LONGEST_ID = 128


class ApiRoutes:
    """The routes below ``/api/v1``. Lives on one event loop.

    Args:
        sources: The master.
        rights: Decides who sees which models.
        answer_within_s: Seconds within which the control thread must answer a command.
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

    def routes(self) -> Endpoints:
        """Return what answers each path."""
        return {
            "/api/v1/status": self.status,
            "/api/v1/instances": self.instances,
            "/api/v1/events": self.events,
            "/api/v1/decisions": self.decisions,
            "/api/v1/scaling": self.scaling,
            "/api/v1/control": self.control,
            "/api/v1/stream": self.stream,
            "/api/v1/models": self.models,
            "/api/v1/sd": self.sd,
            "/api/v1/logs": self.logs,
            "/api/v1/load-balancer": self.load_balancer,
            **{f"/api/v1/{verb}": self.put for verb in VERBS},
            "/api/v1/followers/{name}": self.follower,
            "/api/v1/demand": self.demand,
            "/api/v1/update": self.update,
            "/api/v1/spec": self.spec,
        }

    def fold(self, snapshot: Snapshot) -> None:
        """Take in a newer snapshot. Event loop only."""
        for feed in (self._events, self._decisions, self._fleet):
            feed.fold(snapshot)

    def close(self) -> None:
        """End every stream. Event loop only."""
        for feed in (self._events, self._decisions, self._fleet):
            feed.close()

    async def status(self, request: Request) -> Response:
        """Answer the status; its ``ETag`` is for the ``If-Match`` of a PUT."""
        now = self._sources.board.current
        hidden = await self._hidden(request, now)
        now_s, readiness = self._sources.clock.now_s(), self._sources.readiness()
        stale, hides = self._rights.stale_for(principal_of(request)), bool(hidden)
        silent = tuple(stopped(self._sources.silent_s()))
        asked = tuple(authorizer_issues(readiness, stale=stale))
        more = {
            "authorizer": authorizer_json(readiness, stale=stale, hides=hides),
            **issues_json((*silent, *now.issues, *asked), hidden),
        }
        body = render_status(now, now_s, hidden, **more)
        return json_answer(body, headers={"ETag": f'"{now.spec_revision}"'})

    async def instances(self, request: Request) -> Response:
        """Answer every instance that is alive."""
        now = self._sources.board.current
        hidden = await self._hidden(request, now)
        return json_answer(render_instances_json(now, self._sources.clock.now_s(), hidden))

    async def events(self, request: Request) -> Response:
        """Answer the kept events, or a stream of them."""
        if _streaming(request):
            return await self._stream(request, self._events)
        feed = self._events
        now, last_id = feed.snapshot, feed.last_id
        hidden = await self._hidden(request, now)
        rows = [hidden.row(event_fields(event, now.name)) for event in now.events]
        return json_answer({"last_id": last_id, "events": rows})

    async def decisions(self, request: Request) -> Response:
        """Answer the kept decisions, or a stream of them."""
        if _streaming(request):
            return await self._stream(request, self._decisions)
        feed = self._decisions
        now, last_id = feed.snapshot, feed.last_id
        hidden = await self._hidden(request, now)
        rows = [hidden.row(decision_json(decision)) for decision in now.decisions]
        return json_answer({"last_id": last_id, "decisions": rows})

    async def scaling(self, request: Request) -> Response:
        """Answer the size and its reason, what comes next, and the signals."""
        now = self._sources.board.current
        hidden = await self._hidden(request, now)
        return json_answer(hidden.head(scaling_json(now, self._sources.clock.now_s())))

    async def control(self, request: Request) -> Response:
        """Answer the wanted control calls, and which instances carried out each."""
        now = self._sources.board.current
        hidden = await self._hidden(request, now)
        number = asked_number(request.query_params.get("call"))
        return json_answer(hidden.head(control_json(now, number)))

    async def models(self, request: Request) -> Response:
        """Answer a row for each model that the principal may list."""
        now = self._sources.board.current
        hidden = await self._hidden(request, now)
        return json_answer(hidden.row({"models": list(models_json(now))}))

    async def sd(self, _request: Request) -> Response:
        """Answer the targets of Triton's metrics for Prometheus' HTTP service discovery."""
        return json_answer(list(sd_json(self._sources.board.current)))

    async def logs(self, request: Request) -> Response:
        """Answer the end of the log of ``instance``, by default of the master."""
        instance_id = request.query_params.get("instance", "")
        if len(instance_id) > LONGEST_ID:
            found = f"instance has {len(instance_id)} characters"
            right = "the id of an instance, as `tarn status` shows it"
            raise wrong("/api/v1/logs", found, right)
        lines = _lines(request.query_params.get("lines", ""))
        reader = self._sources.logs
        if reader is None:
            raise NotFoundError("no logs are kept here", where="/api/v1/logs")
        hidden = await self._hidden(request, self._sources.board.current)
        tail = await reader.tail(instance_id, lines, hidden)
        return json_answer(
            {"instance": instance_id, "lines": list(tail.lines), "truncated": tail.truncated}
        )

    async def stream(self, request: Request) -> Response:
        """Stream the view (``instances``) and ``status`` to followers as they change."""
        if _streaming(request):
            return await self._stream(request, self._fleet)
        right = "Expected Accept: text/event-stream"
        error = ConfigError("is a stream", where="/api/v1/stream", right=right)
        raise RejectedError(406, error)

    async def put(self, request: Request) -> Response:
        """Pass a command to the control thread, and answer its result."""
        verb = request.url.path.rpartition("/")[2]
        asked = command(verb, await body_of(request))
        principal = principal_of(request)
        brings_code = isinstance(asked, ControlRequest) and asked.brings_code
        # The code would run as the owner of the cluster, so an authorizer's verdict is not enough.
        if brings_code and not self._rights.stands(principal):
            raise NotAuthorizedError(
                principal.user,
                "load a model with parameters",
                next_step="Parameters can contain code, which runs as the cluster's owner. Only "
                "the owner, those in `admins`, and holders of the api token may send them; "
                "without parameters the model is loaded as it is in the repository",
            )
        return await self._obey(request, asked)

    async def update(self, request: Request) -> Response:
        """Begin an update to the spec of the body, or let the one that runs wait."""
        editions, asked = self._sources.editions, update(await body_of(request))
        if isinstance(asked, HoldUpdate):
            return await self._obey(request, asked)
        self._only_standing(request, "update the cluster", "A spec chooses what instances run")
        if editions is None:
            raise NotFoundError("this master takes no update", where="/api/v1/update")
        files, changes = asked
        try:
            # Its models may lie on a file system that hangs; the other answers go on.
            edition = await asyncio.to_thread(editions.made_of, files)
        except (ValueError, OSError) as error:
            raise ConfigError(str(error), where="/api/v1/update") from error
        return await self._obey(request, BeginUpdate(edition, changes))

    async def spec(self, request: Request) -> Response:
        """Answer the files of the present edition of the spec, as they were sent."""
        self._only_standing(request, "read the whole spec", "It may hold what is secret")
        editions = self._sources.editions
        if editions is None:
            raise NotFoundError("this master does not show its spec", where="/api/v1/spec")
        present = editions.present.files
        return json_answer({"digest": present.digest, "files": dict(present.files)})

    def _only_standing(self, request: Request, doing: str, why: str) -> None:
        """Refuse those whom only an authorizer lets in: it decides about models, not about code."""
        principal = principal_of(request)
        if not self._rights.stands(principal):
            raise NotAuthorizedError(
                principal.user,
                doing,
                next_step=f"{why}. Only the owner, those in `admins`, and holders of the api token "
                "may do that",
            )

    async def follower(self, request: Request) -> Response:
        """Pass a follower's acknowledgement to the control thread."""
        name = request.path_params["name"]
        applied = acknowledge(name, await body_of(request), self._sources.clock.at())
        return await self._obey(request, applied)

    async def demand(self, request: Request) -> Response:
        """Tell the control thread that requests wait for an instance."""
        return await self._obey(request, demand(await body_of(request)))

    async def load_balancer(self, request: Request) -> Response:
        """Answer what a load balancer needs to send Triton's management requests here."""
        token = load_balancer_token(self._sources.api_token).decode()
        listener, port, lack = self._sources.grpc, 0, "it was not asked for"
        if request.query_params.get("grpc") == "true":
            port = 0 if listener is None else await listener.port()
            lack = "it has no service for gRPC" if listener is None else listener.lack
        return json_answer({"token": token, "grpc_port": port, "grpc_lack": lack})

    async def _hidden(self, request: Request, now: Snapshot) -> VisibilityFilter:
        return await self._rights.hidden(principal_of(request), now)

    async def _obey(self, request: Request, asked: Command) -> Response:
        if_match = revision(request.headers.get("if-match"))
        try:
            done = await self.settled(
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

    async def settled(self, future: "Future[Done]") -> Done:
        """Wait for the result of the control thread."""
        # `asyncio.wrap_future` would cancel the future at the deadline, while the control thread
        # may be about to set its result.
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
        # The right to follow is looked up only for a principal whose share as a viewer is used up.
        if full and (await self._rights.on_fleet(principal, FOLLOW)).allowed:
            full = self._places.take(principal, follows=True)
        if full:
            raise ProviderError("master", full, retry_after_s=10.0)
        last_id = request.headers.get("last-event-id")
        texts = feed.read(last_id or None, CachedVisibility(self._rights, self._sources, principal))
        return _Stream(texts, lambda: self._places.give_back(principal))


class _Stream(StreamingResponse):
    """A stream that is closed with its answer, not when the garbage is collected."""

    def __init__(self, texts: AsyncGenerator[str, None], ended: Callable[[], None]) -> None:
        headers = {"X-Accel-Buffering": "no"}  # nginx would collect the stream
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


def _lines(text: str) -> int:
    if not text:
        return USUAL_LINES
    number = text.isascii() and text.isdecimal() and len(text) <= LONGEST_NUMBER
    if number and 1 <= int(text) <= MOST_LINES:
        return int(text)
    raise ConfigError(
        f"lines = '{text[:20]}'",
        code="TARN-3810",
        where="/api/v1/logs",
        right=f"Expected a number from 1 to {MOST_LINES}",
    )
