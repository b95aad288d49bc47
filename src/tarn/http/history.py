"""What was seen over hours: ``/api/v1/history``, ``/api/v1/alerts`` and the page ``/alerts``."""

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache

import attrs
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tarn.control.alerts import Alert, alerts
from tarn.control.snapshot import Snapshot
from tarn.domain import CODES, Severity
from tarn.domain.history import COLUMNS, Grain, Row
from tarn.domain.usage import INSTANCE, MODEL, UsageTotal
from tarn.errors import ConfigError
from tarn.http.answers import json_answer, text_answer
from tarn.http.render import encode
from tarn.http.rights import Rights, principal_of
from tarn.http.sources import Sources
from tarn.http.visibility import NOTHING, VisibilityFilter

__all__ = ["PastPages", "alarm_json", "render_alerts", "render_history", "usage_json"]

SHOWN_S = 10800.0
"""Of the history, where nobody says how much."""
LONGEST_S = 366 * 86400.0
LINES = 100
"""Of ``/alerts``; the contract's number."""


@attrs.frozen(eq=False)
class PastPages:
    """One method for each route; none of them waits for anything but rights."""

    sources: Sources
    rights: Rights

    def routes(self) -> list[Route]:
        """Return the routes; all of them GET and HEAD."""
        return [
            Route("/alerts", self.page),
            Route("/api/v1/alerts", self.alerts),
            Route("/api/v1/history", self.history),
            Route("/api/v1/usage", self.usage),
        ]

    async def history(self, request: Request) -> Response:
        """Answer a row for each step of the last ``since_s`` seconds; the finest that reach so far.

        It names nothing but numbers of the whole fleet.
        """
        since_s = span_s(request.query_params.get("since_s"))
        now = self.sources.board.current
        grain = self.sources.past().history.grain(since_s)
        return json_answer(render_history(grain, now.at - since_s))

    async def alerts(self, request: Request) -> Response:
        """Answer what is wrong now, the newest first, then what was; each with what to do."""
        now = self.sources.board.current
        hidden = await self.rights.hidden(principal_of(request), now)
        found = self._alarms(now)
        return json_answer({"alerts": [hidden.row(alarm_json(alarm)) for alarm in found]})

    async def page(self, request: Request) -> Response:
        """Answer the contract's text: three counters, then the newest alerts, the newest last."""
        now = self.sources.board.current
        hidden = await self.rights.hidden(principal_of(request), now)
        return text_answer(render_alerts(now, self._alarms(now), hidden))

    async def usage(self, request: Request) -> Response:
        """Answer what instances and models did and held in the last ``since_s`` seconds."""
        since_s = span_s(request.query_params.get("since_s"))
        now = self.sources.board.current
        hidden = await self.rights.hidden(principal_of(request), now)
        total = self.sources.past().usage.total(now.at - since_s, now.at)
        known = self.rights.models(now) if self.sources.guards_models else None
        return json_answer(hidden.row(usage_json(total, now.at, known)))

    def _alarms(self, now: Snapshot) -> tuple[Alert, ...]:
        past, readiness = self.sources.past(), self.sources.readiness()
        found = alerts(now, past.since, past.trouble)
        if readiness.ready:
            return found
        said = readiness.reason or "it does not say why"
        return (Alert("TARN-3832", "authorizer", said), *found)


def render_history(grain: Grain, at: float) -> bytes:
    """Return the steps of *grain* from *at* on (wall seconds) as JSON.

    It is asked for by every page that is open: a whole step is encoded once, each by itself.
    """
    head = encode({"step_s": grain.step_s, "columns": COLUMNS})[:-1]
    rows = ", ".join(map(_encoded, grain.since(at)))
    return f'{head}, "rows": [{rows}]}}\n'.encode()


@lru_cache(maxsize=4096)
def _encoded(row: Row) -> str:
    return encode(row)


def span_s(given: str | None) -> float:
    """Return how far back *given* asks for, in seconds; `SHOWN_S` without it.

    Raises:
        ConfigError: It is not a number of seconds.
    """
    if given is None:
        return SHOWN_S
    try:
        value = float(given)
    except ValueError:
        value = math.nan
    if not 0 < value <= LONGEST_S:
        right = f"Expected seconds, more than 0 and at most {LONGEST_S:.0f}"
        raise ConfigError(f"= '{given[:40]}'", code="TARN-2002", where="since_s", right=right)
    return value


def usage_json(
    total: UsageTotal, at: float, known: frozenset[str] | None = None
) -> Mapping[str, object]:
    """Return what was spent until *at*, wall seconds: a row for each instance and each model.

    Only models in *known* have rows; None: all. A model that only an earlier master met was never
    asked about, so nobody may be told of it.
    """
    rows: dict[str, list[Mapping[str, object]]] = {INSTANCE: [], MODEL: []}
    for (kind, name), spent in sorted(total.spent.items()):
        if kind == MODEL and known is not None and name not in known:
            continue
        named = {"id" if kind == INSTANCE else "name": name}
        rows[kind].append({**named, **{k: round(v, 3) for k, v in attrs.asdict(spent).items()}})
    return {
        "from": total.begun,
        "to": at,
        "step_s": total.slot_s,
        "instances": rows[INSTANCE],
        "models": rows[MODEL],
    }


def alarm_json(alarm: Alert) -> Mapping[str, object]:
    """Return one alert, with what the table of codes says of it."""
    code = CODES[alarm.code]
    return {
        "code": alarm.code,
        "severity": str(code.severity),
        "subject": alarm.subject,
        "message": alarm.message,
        "since": alarm.since,
        "last": alarm.last,
        "count": alarm.count,
        "title": code.title,
        "meaning": code.meaning,
        "next_step": code.next_step,
        "active": alarm.active,
    }


def render_alerts(
    snapshot: Snapshot, found: tuple[Alert, ...], hidden: VisibilityFilter = NOTHING
) -> str:
    """Return the text of ``/alerts``; a line break in a message does not begin a line."""
    totals = snapshot.event_totals
    severe = sum(n for code, n in totals.items() if _severity(code) is not Severity.INFO)
    lines = [
        f"tarn_alerts_total {severe}",
        f"tarn_container_failures_total {totals.get('TARN-1105', 0)}",
        f"tarn_scaling_events_total {totals.get('TARN-1200', 0)}",
    ]
    for alarm in reversed(found[:LINES]):
        said = " ".join(hidden.text(f"{alarm.subject}: {alarm.message}").split())
        kind = CODES[alarm.code].title
        stamp = _stamp(alarm.last or alarm.since or snapshot.at)
        severity = str(_severity(alarm.code)).upper()
        lines.append(f"# [{stamp}] {severity} - {alarm.code} {kind}: {said}")
    return "".join(f"{line}\n" for line in lines)


def _severity(code: str) -> Severity:
    return CODES[code].severity if code in CODES else Severity.INFO


def _stamp(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
