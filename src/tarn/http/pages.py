"""The pages of the contract: ``/instances /health /livez /readyz /config /metrics``, and ``/``."""

from collections.abc import Iterator, Mapping

import attrs
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tarn.control.metrics import OPENMETRICS, PROMETHEUS
from tarn.control.snapshot import Snapshot
from tarn.domain.access import ADMIN
from tarn.errors import UnreachableError
from tarn.http.answers import error_answer, json_answer, text_answer, wants_json, wants_openmetrics
from tarn.http.exposition import Exposition
from tarn.http.front import front
from tarn.http.render import (
    AUTHORIZER_UNAVAILABLE,
    OK,
    STALE,
    STOPPED,
    health,
    render_instances_json,
    stopped,
)
from tarn.http.rights import Rights, principal_of
from tarn.http.sources import Sources
from tarn.plain import MASK

__all__ = ["PageRoutes"]


@attrs.frozen(eq=False)
class PageRoutes:
    """One method for each page; none of them waits for anything."""

    sources: Sources
    rights: Rights
    exposition: Exposition = attrs.field(factory=Exposition)

    def routes(self) -> list[Route]:
        """Return the routes; all of them GET and HEAD."""
        return [
            Route("/", self.front),
            Route("/instances", self.instances),
            Route("/health", self.health),
            Route("/livez", self.livez),
            Route("/readyz", self.readyz),
            Route("/config", self.config),
            Route("/metrics", self.metrics),
        ]

    @property
    def _now(self) -> Snapshot:
        return self.sources.board.current

    async def front(self, request: Request) -> Response:
        """Answer a page with links to the others."""
        rule = self.sources.proxy
        # no proof is asked of who comes through the proxy: they mislead nobody but themselves
        base = rule.base if rule is not None and rule.cookie in request.cookies else ""
        now = self._now
        hidden = await self.rights.hidden(principal_of(request), now)
        return Response(front(now, base, hidden), media_type="text/html")

    async def instances(self, request: Request) -> Response:
        """Answer ``host:port`` lines of the ready ones, or every instance in JSON.

        No line means that nobody is ready. A master that does not know that yet says 503.
        """
        now = self._now
        if _json(request):
            hidden = await self.rights.hidden(principal_of(request), now)
            return json_answer(render_instances_json(now, self.sources.clock.now_s(), hidden))
        if not now.instances_known:
            return error_answer(_not_yet(now), headers={"Retry-After": "1"})
        return text_answer(now.instances_text)

    async def health(self, request: Request) -> Response:
        """Answer the contract's word, then one line for each fault; names nobody."""
        readiness = self.sources.readiness()
        word = health(self._now, authorizer_ready=readiness.ready)
        faults = (*self._now.faults, *[STALE] * self.rights.stale)
        return _verdict(request, word, (*stopped(self.sources.silent_s()), *faults))

    async def livez(self, request: Request) -> Response:
        """Answer whether this master is at work at all: what a supervisor should ask."""
        silent_s = self.sources.silent_s()
        return _verdict(request, STOPPED if silent_s else OK, tuple(stopped(silent_s)))

    async def readyz(self, request: Request) -> Response:
        """Answer whether this master takes commands now."""
        word = OK if self.sources.readiness().ready else AUTHORIZER_UNAVAILABLE
        word = "FENCED" if self._now.stale else word
        return _verdict(request, STOPPED if self.sources.silent_s() else word, ())

    async def config(self, request: Request) -> Response:
        """Answer the redacted configuration: ``key: value`` lines, or JSON.

        Of environment variables only who may change the fleet sees the values: a harmless name may
        hold a secret.
        """
        principal = principal_of(request)
        hidden = await self.rights.hidden(principal, self._now)
        spec = hidden.config(self.sources.config)
        names = without_values(spec)
        if names != spec and not (await self.rights.on_fleet(principal, ADMIN)).allowed:
            spec = names
        if _json(request):
            return json_answer(spec)
        return text_answer("".join(f"{line}\n" for line in _flat(spec)))

    async def metrics(self, request: Request) -> Response:
        """Answer what is measured now, in the format that is asked for."""
        now = self._now
        hidden = await self.rights.hidden(principal_of(request), now)
        openmetrics = wants_openmetrics(request.headers.get("accept", ""))
        text = await self.exposition.text(now, hidden, openmetrics=openmetrics)
        kind = OPENMETRICS if openmetrics else PROMETHEUS
        return Response(text, headers={"Content-Type": kind, "Vary": "Accept"})


def without_values(spec: Mapping[str, object]) -> dict[str, object]:
    """Return *spec* with the names of what stands under ``env``, at any depth, and no value."""
    return {key: _named(value) if key == "env" else _below(value) for key, value in spec.items()}


def _below(value: object) -> object:
    match value:
        case Mapping():
            return without_values(value)
        case list() | tuple():
            return [_below(part) for part in value]
        case _:
            return value


def _named(value: object) -> object:
    return dict.fromkeys(value, MASK) if isinstance(value, Mapping) else MASK


def _not_yet(now: Snapshot) -> UnreachableError:
    return UnreachableError(
        "the master has just started, and does not know yet which instances are ready",
        where=now.name,
        next_step=(
            "Ask again in a second, and keep the list that you have until then. "
            "With `Accept: application/json` you get what is known."
        ),
    )


def _json(request: Request) -> bool:
    return wants_json(request.headers.get("accept", ""))


def _verdict(request: Request, word: str, faults: tuple[str, ...]) -> Response:
    status = 200 if word == OK else 503
    if _json(request):
        return json_answer({"status": word, "faults": list(faults)}, status)
    return text_answer("".join(f"{line}\n" for line in (word, *faults)), status)


def _flat(value: object, path: str = "") -> Iterator[str]:
    """Yield ``a.b: value`` and ``a[0].b: value`` lines; line breaks in values are escaped."""
    match value:
        case Mapping() if value:
            for key, part in value.items():
                yield from _flat(part, f"{path}.{key}" if path else str(key))
        case list() | tuple() if value:
            for index, part in enumerate(value):
                yield from _flat(part, f"{path}[{index}]")
        case None:
            yield f"{path}: null"
        case bool():
            yield f"{path}: {str(value).lower()}"
        case _:
            text = str(value).replace("\\", "\\\\").replace("\r", "\\r").replace("\n", "\\n")
            yield f"{path}: {text}"
