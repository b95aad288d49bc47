"""The pages of the contract (``/instances``, ``/health``, …), ``/affinity``, and ``/``."""

import asyncio
from collections.abc import Iterator, Mapping
from html import escape

import attrs
from starlette.requests import Request
from starlette.responses import Response

from tarn.domain.access import ADMIN, FOLLOW
from tarn.errors import UnreachableError
from tarn.http.answers import (
    Endpoints,
    error_answer,
    json_answer,
    text_answer,
    wants_json,
    wants_openmetrics,
)
from tarn.http.render import (
    AUTHORIZER_UNAVAILABLE,
    OK,
    STALE,
    STOPPED,
    health,
    reason,
    render_instances_json,
    stopped,
)
from tarn.http.render_details import affinity_json
from tarn.http.request import principal_of
from tarn.http.rights import Rights, Sources
from tarn.http.visibility import NOTHING, VisibilityFilter
from tarn.plain import MASK
from tarn.read.metrics import OPENMETRICS, PROMETHEUS, InstanceText, render_metrics
from tarn.read.snapshot import Snapshot

__all__ = ["MOST_FILTERED", "PAGES", "Exposition", "PageRoutes", "front"]

# Relative path -> what it shows. There is no stream: a proxy would collect it without end.
# The links are relative, so that they work under any prefix of a proxy, unless the prefix has no
# slash at its end. YARN's proxy takes such a URL and passes it on as ``/``, so the page that it
# shows has a <base> with the prefix.
PAGES = (
    ("dashboard", "the dashboard: everything, to read and to act on"),
    ("instances", "the instances that serve, one per line"),
    ("affinity", "which requests reach the same instance, as JSON"),
    ("health", "OK, or what is wrong"),
    ("livez", "whether the master works"),
    ("readyz", "whether it takes commands"),
    ("config", "the spec in force, secrets masked"),
    ("metrics", "for Prometheus"),
    ("alerts", "present and past problems, one per line"),
    ("api/v1/status", "everything, as JSON"),
    ("api/v1/instances", "the instances, as JSON"),
    ("api/v1/events", "what happened"),
    ("api/v1/decisions", "the last decisions about the size"),
    ("api/v1/scaling", "why the size is what it is"),
    ("api/v1/alerts", "present and past problems, with what to do, as JSON"),
    ("api/v1/history", "size, load and requests of the last three hours"),
    ("api/v1/usage", "what instances and models did in that time"),
)


def front(now: Snapshot, base: str, hidden: VisibilityFilter = NOTHING) -> bytes:
    """Return the page as HTML.

    Args:
        now: The snapshot to show.
        base: The proxy's prefix (``/proxy/application_1_2``); empty without a proxy.
        hidden: Models that are not named.
    """
    under = f'<base href="{escape(base.rstrip("/"))}/">\n' if base else ""
    rows = "".join(
        f'<li><a href="{escape(path)}">{escape(path)}</a> {escape(what)}</li>\n'
        for path, what in PAGES
    )
    return f"""\
<!doctype html>
<html lang="en">
<meta charset="utf-8">
{under}<title>TARN: {escape(now.name)}</title>
<h1>{escape(now.name)} is {escape(now.state.value)}</h1>
<p>{now.ready} of {now.desired} ready. {escape(reason(now, hidden))}</p>
<ul>
{rows}</ul>
</html>
""".encode()


# Filtered texts of one snapshot that are kept, for as many kinds of readers.
MOST_FILTERED = 16


class Exposition:
    """Renders the metrics on a thread, once for each snapshot, format and filter.

    Requests for a text that is being rendered wait for the same one. One text is rendered at a
    time, as each uses again what is unchanged since the last. Lives on one event loop.
    """

    def __init__(self) -> None:
        self._instances, self._turn = InstanceText(), asyncio.Lock()
        # The newest, by whether it is OpenMetrics: the texts by what is hidden, first the whole.
        self._made: dict[bool, tuple[Snapshot, dict[VisibilityFilter, asyncio.Task[bytes]]]] = {}

    async def text(
        self, snapshot: Snapshot, hidden: VisibilityFilter, *, openmetrics: bool
    ) -> bytes:
        """Return the text of *snapshot* without what is *hidden*."""
        begin = asyncio.get_running_loop().create_task
        made = self._made.get(openmetrics)
        if made is None or made[0] is not snapshot:
            work = self._render(snapshot, openmetrics=openmetrics)
            made = self._made[openmetrics] = (snapshot, {NOTHING: begin(work)})
        texts = made[1]
        if hidden and hidden not in texts:
            if len(texts) > MOST_FILTERED:
                del texts[next(one for one in texts if one)]
            texts[hidden] = begin(_filtered(texts[NOTHING], hidden))
        # A client that leaves must not cancel the work for the others.
        return await asyncio.shield(texts[hidden or NOTHING])

    async def _render(self, snapshot: Snapshot, *, openmetrics: bool) -> bytes:
        async with self._turn:
            return await asyncio.to_thread(
                render_metrics, snapshot, self._instances, openmetrics=openmetrics
            )


async def _filtered(whole: asyncio.Task[bytes], hidden: VisibilityFilter) -> bytes:
    return await asyncio.to_thread(hidden.metrics, await asyncio.shield(whole))


@attrs.frozen(eq=False)
class PageRoutes:
    """The pages of the contract."""

    sources: Sources
    rights: Rights
    exposition: Exposition = attrs.field(factory=Exposition)

    def routes(self) -> Endpoints:
        """Return what answers each path."""
        return {
            "/": self.front,
            "/instances": self.instances,
            "/affinity": self.affinity,
            "/health": self.health,
            "/livez": self.livez,
            "/readyz": self.readyz,
            "/config": self.config,
            "/metrics": self.metrics,
        }

    @property
    def _now(self) -> Snapshot:
        return self.sources.board.current

    @property
    def _stopped(self) -> tuple[str, ...]:
        return tuple(issue.line for issue in stopped(self.sources.silent_s()))

    async def front(self, request: Request) -> Response:
        """Answer a page with links to the others."""
        rule = self.sources.proxy
        # Anybody can send this cookie: a wrong base harms only the client that sent it.
        base = rule.base if rule is not None and rule.cookie in request.cookies else ""
        now = self._now
        hidden = await self.rights.hidden(principal_of(request), now)
        return Response(front(now, base, hidden), media_type="text/html")

    async def instances(self, request: Request) -> Response:
        """Answer ``host:port`` lines of the ready instances, or every instance in JSON."""
        now = self._now
        if _json(request):
            hidden = await self.rights.hidden(principal_of(request), now)
            return json_answer(render_instances_json(now, self.sources.clock.now_s(), hidden))
        if not now.instances_known:
            # An empty list would mean that no instance is ready, and clients would drop theirs.
            error = UnreachableError(
                "the master has just started, and does not know yet which instances are ready",
                where=now.name,
                next_step=(
                    "Ask again in a second, and keep the list that you have until then. "
                    "With `Accept: application/json` you get what is known."
                ),
            )
            return error_answer(error, headers={"Retry-After": "1"})
        return text_answer(now.instances_text)

    async def affinity(self, request: Request) -> Response:
        """Answer the rules by which requests reach the same instance."""
        principal = principal_of(request)
        hidden = await self.rights.hidden(principal, self._now)
        # A load balancer without a rule would give wrong answers, so one that may follow gets all.
        if hidden and (await self.rights.on_fleet(principal, FOLLOW)).allowed:
            hidden = NOTHING
        return json_answer(affinity_json(self._now.affinity, hidden))

    async def health(self, request: Request) -> Response:
        """Answer the health in one word, then one line for each fault."""
        readiness = self.sources.readiness()
        word = health(self._now, authorizer_ready=readiness.ready)
        faults = (*self._now.faults, *[STALE] * self.rights.stale)
        return _verdict(request, word, (*self._stopped, *faults))

    async def livez(self, request: Request) -> Response:
        """Answer whether the control thread runs; this is for supervisors."""
        silent_s = self.sources.silent_s()
        return _verdict(request, STOPPED if silent_s else OK, self._stopped)

    async def readyz(self, request: Request) -> Response:
        """Answer whether this master takes commands."""
        word = OK if self.sources.readiness().ready else AUTHORIZER_UNAVAILABLE
        word = "FENCED" if self._now.stale else word
        return _verdict(request, STOPPED if self.sources.silent_s() else word, ())

    async def config(self, request: Request) -> Response:
        """Answer the redacted spec: ``key: value`` lines, or JSON."""
        principal = principal_of(request)
        hidden = await self.rights.hidden(principal, self._now)
        spec = hidden.config(self.sources.config())
        # Any environment variable may hold a secret: its value is only for those who may change the
        # fleet.
        names = without_values(spec)
        if names != spec and not (await self.rights.on_fleet(principal, ADMIN)).allowed:
            spec = names
        if _json(request):
            return json_answer(spec)
        return text_answer("".join(f"{line}\n" for line in _flat(spec)))

    async def metrics(self, request: Request) -> Response:
        """Answer the metrics, in the format that the client asks for."""
        now = self._now
        hidden = await self.rights.hidden(principal_of(request), now)
        openmetrics = wants_openmetrics(request.headers.get("accept", ""))
        text = await self.exposition.text(now, hidden, openmetrics=openmetrics)
        kind = OPENMETRICS if openmetrics else PROMETHEUS
        return Response(text, headers={"Content-Type": kind, "Vary": "Accept"})


def without_values(spec: Mapping[str, object]) -> dict[str, object]:
    """Return *spec* with every value under ``env``, at any depth, masked."""
    plain: dict[str, object] = {}
    for key, value in spec.items():
        if key != "env":
            plain[key] = _below(value)
        else:
            plain[key] = dict.fromkeys(value, MASK) if isinstance(value, Mapping) else MASK
    return plain


def _below(value: object) -> object:
    match value:
        case Mapping():
            return without_values(value)
        case list() | tuple():
            return [_below(part) for part in value]
        case _:
            return value


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
