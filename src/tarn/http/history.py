"""The routes over past hours: history, usage and alerts, with the page ``/alerts``."""

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache

import attrs
from starlette.requests import Request
from starlette.responses import Response

from tarn.domain import CODES, Severity
from tarn.domain.history import COLUMNS, Grain, Row
from tarn.domain.usage import INSTANCE, MODEL, UsageTotal
from tarn.errors import ConfigError
from tarn.http.answers import Endpoints, json_answer, text_answer
from tarn.http.render import encode
from tarn.http.request import principal_of
from tarn.http.rights import Rights, Sources
from tarn.http.visibility import NOTHING, VisibilityFilter
from tarn.read.alerts import Alert, alerts
from tarn.read.snapshot import Snapshot

__all__ = ["PastPages", "alarm_json", "render_alerts", "render_history", "usage_json"]

# The span of history and usage by default: what the dashboard shows first.
SHOWN_S = 10800.0
LONGEST_S = 366 * 86400.0
# Alerts on ``/alerts``; the contract's number.
LINES = 100


@attrs.frozen(eq=False)
class PastPages:
    """The routes; they wait only for the authorizer."""

    sources: Sources
    rights: Rights

    def routes(self) -> Endpoints:
        """Return what answers each path."""
        return {
            "/alerts": self.page,
            "/api/v1/alerts": self.alerts,
            "/api/v1/history": self.history,
            "/api/v1/usage": self.usage,
        }

    async def history(self, request: Request) -> Response:
        """Answer the last ``since_s`` seconds in the finest steps that reach so far back."""
        # The rows are numbers of the whole fleet, so there is nothing to hide in them.
        since_s = span_s(request.query_params.get("since_s"))
        now = self.sources.board.current
        grain = self.sources.past().history.grain(since_s)
        return json_answer(render_history(grain, now.at - since_s))

    async def alerts(self, request: Request) -> Response:
        """Answer present problems, newest first, then past ones, each with its next step."""
        now = self.sources.board.current
        hidden = await self.rights.hidden(principal_of(request), now)
        found = self._alarms(now)
        return json_answer({"alerts": [hidden.row(alarm_json(alarm)) for alarm in found]})

    async def page(self, request: Request) -> Response:
        """Answer the text of the contract: three counters, then alerts, the newest last."""
        now = self.sources.board.current
        hidden = await self.rights.hidden(principal_of(request), now)
        return text_answer(render_alerts(now, self._alarms(now), hidden))

    async def usage(self, request: Request) -> Response:
        """Answer the usage of each instance and model in the last ``since_s`` seconds."""
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
    """Return the steps of *grain* since *at*, wall seconds, as JSON."""
    # Every open dashboard asks for it, so each row is encoded once and then cached.
    head = encode({"step_s": grain.step_s, "columns": COLUMNS})[:-1]
    rows = ", ".join(map(_encoded, grain.since(at)))
    return f'{head}, "rows": [{rows}]}}\n'.encode()


@lru_cache(maxsize=4096)
def _encoded(row: Row) -> str:
    return encode(row)


def span_s(given: str | None) -> float:
    """Return the seconds in *given*, by default `SHOWN_S`.

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
    """Return the usage until *at*, wall seconds: a row for each instance and each model.

    Only models in *known* have rows; None: all.
    """
    rows: dict[str, list[Mapping[str, object]]] = {INSTANCE: [], MODEL: []}
    for (kind, name), spent in sorted(total.spent.items()):
        # The authorizer was never asked about a model that only an earlier master knew.
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
    """Return one alert, with the title, meaning and next step of its code."""
    code = CODES[alarm.code]
    return {
        "code": alarm.code,
        "severity": str(code.severity),
        "subject": alarm.subject,
        "message": alarm.message,
        "models": list(alarm.models),
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
    """Return the text of ``/alerts``, one line for each alert."""
    totals = snapshot.event_totals
    severe = sum(n for code, n in totals.items() if _severity(code) is not Severity.INFO)
    lines = [
        f"tarn_alerts_total {severe}",
        f"tarn_container_failures_total {totals.get('TARN-1105', 0)}",
        f"tarn_scaling_events_total {totals.get('TARN-1200', 0)}",
    ]
    for alarm in reversed(found[:LINES]):
        row = hidden.row(alarm_json(alarm))
        said = " ".join(f"{row['subject']}: {row['message']}".split())  # without line breaks
        kind = CODES[alarm.code].title
        at = datetime.fromtimestamp(alarm.last or alarm.since or snapshot.at, UTC)
        severity = str(_severity(alarm.code)).upper()
        lines.append(f"# [{at:%Y-%m-%dT%H:%M:%SZ}] {severity} - {alarm.code} {kind}: {said}")
    return "".join(f"{line}\n" for line in lines)


def _severity(code: str) -> Severity:
    return CODES[code].severity if code in CODES else Severity.INFO
