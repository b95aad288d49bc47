"""The fleet as one Triton: its management requests, in Triton's own form, below `PREFIX`.

A load balancer sends the requests here that one instance cannot answer for all; inference never
comes here. Reads ask each instance in the view at once and merge the answers. Loads, unloads and
changes of settings become control calls, so instances that start later have them, too.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence

from starlette.requests import Request
from starlette.responses import Response

from tarn.domain import Instance, InstanceState, Principal
from tarn.domain.access import ADMIN, LIST, LOAD_BALANCER, METADATA, VIEW
from tarn.domain.command import ControlRequest, Done
from tarn.errors import (
    NotAuthorizedError,
    NotFoundError,
    ProviderError,
    RefusedError,
    TarnError,
    TimedOutError,
)
from tarn.http.answers import (
    Endpoints,
    RejectedError,
    error_answer,
    json_answer,
    json_object,
    raw_body,
)
from tarn.http.commands import command, wrong
from tarn.http.departed_counts import DepartedCounts
from tarn.http.instance_questions import InstanceQuestions, of_present
from tarn.http.render_details import control_json
from tarn.http.request import principal_of, requester_of
from tarn.http.rights import EVERY, Rights, Sources
from tarn.http.shared_regions import SharedRegions
from tarn.plain.call_answers import missing_instances
from tarn.read.snapshot import Snapshot
from tarn.triton.merged_answers import (
    BAD_REQUEST,
    FleetAnswer,
    answered,
    merged_index,
    merged_readiness,
    merged_regions,
    merged_server,
    merged_settings,
    merged_statistics,
    same_answer,
)
from tarn.triton.server_questions import QuestionKind, TritonQuestion, question_at

__all__ = ["PREFIX", "ROUTE", "OneTriton", "asked_of_fleet", "in_tritons_form", "shaped"]

PREFIX = "/triton"
ROUTE = f"{PREFIX}/{{path:path}}"

# Longer than any sensible load, and shorter than a load balancer waits.
CALL_WITHIN_S = 540.0
LOOK_FIRST_S, LOOK_MOST_S = 0.05, 1.0
# How long a call waits for instances that are out of the view.
AWAY_S = 10.0
# Control calls that wait for instances.
MOST_CALLS_WAITING = 32
RETRY_AFTER = {"Retry-After": "2"}

_MERGES = {
    QuestionKind.READY: merged_readiness,
    QuestionKind.TRACE: merged_settings,
    QuestionKind.LOG: merged_settings,
    QuestionKind.MEMORY: merged_regions,
}


def asked_of_fleet(path: str) -> TritonQuestion | None:
    """Return the question at *path*, which begins with `PREFIX`; None if there is none."""
    return question_at(path.removeprefix(PREFIX)) if path.startswith(f"{PREFIX}/") else None


def in_tritons_form(refusal: Response) -> Response:
    """Return *refusal*, an error of ours, with a text for Triton's clients as its error."""
    try:
        error = json.loads(bytes(refusal.body))["error"]
        text = ". ".join(filter(None, (error["found"], error["right"], error["next_step"])))
    except (ValueError, KeyError, TypeError):
        return refusal
    kept = {
        name: value
        for name, value in refusal.headers.items()
        if name not in ("content-length", "content-type")
    }
    return json_answer({"error": text}, refusal.status_code, kept)


def shaped(path: str, refusal: Response) -> Response:
    """Return *refusal* in the form that clients of *path* can read."""
    return in_tritons_form(refusal) if path.startswith(f"{PREFIX}/") else refusal


class OneTriton:
    """The routes below `PREFIX`. Lives on one event loop.

    Args:
        sources: The master.
        rights: Decides who sees which models, and who changes the fleet.
        settled: Waits for the control thread's answer.
    """

    def __init__(
        self,
        sources: Sources,
        rights: Rights,
        settled: Callable[..., Awaitable[Done]],
        *,
        call_within_s: float = CALL_WITHIN_S,
    ) -> None:
        self._sources, self._rights, self._settled = sources, rights, settled
        self._call_within_s = call_within_s
        self._questions = InstanceQuestions(sources.keys_of)
        self._departed = DepartedCounts(self._questions, sources.clock)
        self._regions = SharedRegions(self._questions)
        self._calls = 0

    def routes(self) -> Endpoints:
        """Return what answers each path."""
        return {ROUTE: self.answer}

    def fold(self, snapshot: Snapshot) -> None:
        """Take in a newer snapshot. Event loop only."""
        self._departed.fold(snapshot)
        self._regions.fold(snapshot)

    def close(self) -> None:
        """End the tasks. Event loop only."""
        self._departed.close()
        self._regions.close()

    async def answer(self, request: Request) -> Response:
        """Answer one request as Triton does."""
        raw = request.scope.get("raw_path") or request.scope["path"].encode()
        question = asked_of_fleet(raw.decode("latin-1"))
        try:
            if question is None or request.method not in question.methods:
                return _odd(question)
            body = json_object(await raw_body(request))
            return await self._answered(request, question, body)
        except RejectedError as error:
            return in_tritons_form(error_answer(error.error, error.status, error.headers))
        except (RefusedError, NotFoundError) as error:
            return in_tritons_form(error_answer(error, BAD_REQUEST))
        except TarnError as error:
            return in_tritons_form(error_answer(error))

    async def _answered(
        self, request: Request, question: TritonQuestion, body: Mapping[str, object]
    ) -> Response:
        principal, now = principal_of(request), self._sources.board.current
        # An empty update reads the settings, as Triton's clients do over gRPC.
        settings = question.kind in (QuestionKind.TRACE, QuestionKind.LOG)
        changes = question.changes(request.method) and bool(body or not settings)
        await self._check(principal, question, now, changes=changes)
        if changes and question.kind is QuestionKind.MEMORY:
            ready = [one for one in now.instances if one.in_view]
            return _plain(await self._regions.change(question, body, ready))
        if changes:
            has = await self._call(request, question, body)
            if question.kind in (QuestionKind.LOAD, QuestionKind.UNLOAD):
                return json_answer({"instances": list(has)})
        answer = await self._read(question, body)
        return await self._seen(principal, question, answer)

    # -- rights ------------------------------------------------------------------------------------

    async def _check(
        self, principal: Principal, question: TritonQuestion, now: Snapshot, *, changes: bool
    ) -> None:
        """Raise NotAuthorizedError unless *principal* may ask this."""
        action = ADMIN if changes else METADATA if question.model else VIEW
        if principal.via == LOAD_BALANCER.via:
            self._check_unproven(principal, question, now, action)
            allowed = changes or await self._may_read(principal, question)
        elif changes:
            allowed = (await self._rights.on_fleet(principal, ADMIN)).allowed
        else:
            allowed = await self._may_read(principal, question)
        if not allowed:
            raise NotAuthorizedError(principal.user, action, question.model)

    def _check_unproven(
        self, principal: Principal, question: TritonQuestion, now: Snapshot, action: str
    ) -> None:
        # What a Triton answers to everybody, it would answer through the load balancer, too.
        if self._questions.restricted(now.instances, question):
            raise NotAuthorizedError(
                principal.user,
                action,
                question.model,
                next_step=f"`triton.restricted` has '{question.part}'. Send the api token in the "
                "header 'Authorization: Bearer TOKEN', or leave this part out of it",
            )

    async def _may_read(self, principal: Principal, question: TritonQuestion) -> bool:
        rights = self._rights
        if rights.stands(principal):
            return True
        if question.kind in (QuestionKind.TRACE, QuestionKind.LOG, QuestionKind.MEMORY):
            return await self._views(principal)
        if question.model:
            return (await rights.on_model(principal, METADATA, question.model)).allowed
        # Who may see all models may see those of the fleet, without the right to view its figures.
        return await self._views(principal) or (
            (await rights.on_model(principal, LIST, EVERY)).allowed
        )

    async def _views(self, principal: Principal) -> bool:
        if principal.via == LOAD_BALANCER.via:
            return True
        return (await self._rights.on_fleet(principal, VIEW)).allowed

    async def _seen(
        self, principal: Principal, question: TritonQuestion, answer: FleetAnswer
    ) -> Response:
        """Return the answer without the models that *principal* may not see."""
        body = answer.body
        whole = question.kind in (QuestionKind.STATISTICS, QuestionKind.INDEX)
        if whole and not question.model:
            hidden = await self._rights.hidden(principal, self._sources.board.current)
            closed = hidden.names | hidden.closed
            if closed and isinstance(body, list):
                body = [row for row in body if row.get("name") not in hidden.names]
            elif closed and isinstance(body, Mapping) and "model_stats" in body:
                rows = [row for row in body["model_stats"] if row.get("name") not in closed]
                body = {**body, "model_stats": rows}
        return _plain(FleetAnswer(answer.status, body))

    # -- reading -----------------------------------------------------------------------------------

    async def _read(self, question: TritonQuestion, body: Mapping[str, object]) -> FleetAnswer:
        if question.kind is QuestionKind.STATISTICS:
            return await self._statistics(question)
        method = "POST" if question.kind is QuestionKind.INDEX else "GET"
        ready = [one for one in self._sources.board.current.instances if one.in_view]
        asked = await self._questions.ask(ready, question, method, b"{}" * (method == "POST"))
        # A load balancer sends the requests of one that is gone elsewhere.
        answers = of_present(asked)
        if question.kind is QuestionKind.SERVER:
            return merged_server(answers, self._sources.board.current.name)
        if question.kind is QuestionKind.INDEX:
            return merged_index(answers, only_ready=body.get("ready") is True)
        if (merge := _MERGES.get(question.kind)) is not None:
            return merge(answers)
        what = "configuration" if question.kind is QuestionKind.CONFIG else "metadata"
        return same_answer(f"the {what} of '{question.model}'", answers)

    async def _statistics(self, question: TritonQuestion) -> FleetAnswer:
        departed = self._departed
        departed.wanted()
        ready, others = _counting(self._sources.board.current.instances)
        answers = await self._questions.ask((*ready, *others), question)
        of_ready, of_others = answers[: len(ready)], answers[len(ready) :]
        silent = [one for one in of_present(of_ready) if not one.status]
        if silent:
            # Without its counts the sum would be too small, and look like a good one.
            why = "; ".join(f"{one.instance_id}: {one.error}" for one in silent)
            return FleetAnswer.refusal(503, f"not every instance told its statistics: {why}")
        departed.noted(question, of_ready)
        departed.grown(of_others)
        told = departed.of_alive(one for one in of_ready if one.status)
        refused = answered(told)
        if refused is not None:
            if refused.status == BAD_REQUEST:
                departed.forget(question)
            return refused
        kept = [departed.kept(question, one.id) for one in others]
        return merged_statistics((*told, *kept), departed.former(question))

    # -- changing ----------------------------------------------------------------------------------

    async def _call(
        self, request: Request, question: TritonQuestion, body: Mapping[str, object]
    ) -> Sequence[str]:
        """Make the change a control call; return the instances that have it, once all have.

        Raises:
            RefusedError: An instance refused it; the error names it, with Triton's reason.
            TimedOutError: Some instance did not do it in time.
        """
        asked = _control_request(question, body)
        if asked.brings_code and not self._rights.stands(principal_of(request)):
            raise NotAuthorizedError(
                principal_of(request).user,
                "load a model with parameters",
                next_step="Parameters can contain code, which runs as the cluster's owner: send "
                "the api token in the header 'Authorization: Bearer TOKEN'",
            )
        if self._calls >= MOST_CALLS_WAITING:
            raise ProviderError("master", "too many control calls are waiting", retry_after_s=5.0)
        self._calls += 1
        try:
            done = await self._settled(self._sources.inbox.ask(asked, None, requester_of(request)))
            return await self._everywhere(done.call or 0)
        finally:
            self._calls -= 1

    async def _everywhere(self, number: int) -> Sequence[str]:
        end_s, pause_s = self._sources.clock.now_s() + self._call_within_s, LOOK_FIRST_S
        away_s: float | None = None
        while True:
            now = self._sources.board.current
            number, missing = missing_instances(control_json(now, number), number)
            now_s = self._sources.clock.now_s()
            if all(not one["in_view"] for one in missing):
                away_s = now_s + AWAY_S if away_s is None else away_s
                if not missing or now_s >= away_s:
                    return [i.id for i in now.instances if i.in_view]
            if now_s >= end_s:
                why = "; ".join(f"{one['id']}: {one['why']}" for one in missing)
                raise TimedOutError(
                    f"not every instance has carried it out in {self._call_within_s:g} s: {why}",
                    next_step="The master goes on; `tarn models wanted` shows the progress",
                )
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, LOOK_MOST_S)


def _plain(answer: FleetAnswer) -> Response:
    headers = RETRY_AFTER if answer.status == 503 else {}  # noqa: PLR2004
    if answer.body is None:
        return Response(b"", answer.status, headers)
    return json_answer(answer.body, answer.status, headers)


def _counting(instances: Sequence[Instance]) -> tuple[list[Instance], list[Instance]]:
    """Return the instances in the view, and those that were in it and still count."""
    counting = [i for i in instances if i.state in (InstanceState.READY, InstanceState.DRAINING)]
    ready = [one for one in counting if one.in_view]
    return ready, [one for one in counting if not one.in_view and one.endpoint is not None]


def _control_request(question: TritonQuestion, body: Mapping[str, object]) -> ControlRequest:
    match question.kind:
        case QuestionKind.LOAD | QuestionKind.UNLOAD:
            parameters = _parameters(body)
            asked = command(question.kind, {"model": question.model, "parameters": parameters})
        case QuestionKind.TRACE:
            asked = command("trace-settings", {"model": question.model, "settings": body})
        case _:
            asked = command("log-settings", {"settings": body})
    assert isinstance(asked, ControlRequest)
    return asked


def _parameters(body: Mapping[str, object]) -> Mapping[str, object]:
    given = body.get("parameters", {})
    if not isinstance(given, Mapping):
        raise wrong("parameters", "is not an object", "an object: name to value")
    # Triton's clients always say it, and false is what a Triton does without it.
    return {
        name: value
        for name, value in given.items()
        if not (name == "unload_dependents" and value is False)
    }


def _odd(question: TritonQuestion | None) -> Response:
    """Return Triton's answer to an unknown path or a wrong method."""
    if question is None:
        return json_answer({"error": "Not Found"}, 404)
    allow = {"Allow": ", ".join(question.methods)}
    return json_answer({"error": "Method Not Allowed"}, 405, allow)
