"""A cluster as HTML for a notebook: inline styles, colours for light and dark, no assets.

Every value is escaped, since names and messages come from models and other users.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any
from urllib.parse import urlsplit

from tarn.cluster.explain import causes
from tarn.cluster.read.table import (
    age,
    first_words,
    instance_reason,
    instance_state,
    limits_words,
    moment,
    read_off,
    settings_words,
)
from tarn.domain import CODES, Issue

__all__ = [
    "alerts",
    "anchor",
    "cluster",
    "decisions",
    "events",
    "instances",
    "line",
    "message",
    "rows",
    "sizes",
    "state",
]

Row = Mapping[str, Any]

# Rows of a table that are shown: a notebook keeps its output in its file.
MOST_ROWS = 50
_COLOURS = {
    "ready": "#16a34a",
    "requested": "#3b82f6",
    "submitted": "#3b82f6",
    "starting": "#3b82f6",
    "degraded": "#d97706",
    "suspect": "#d97706",
    "draining": "#8b5cf6",
    "stopping": "#8b5cf6",
    "stopped": "#8a8f98",
    "failed": "#dc2626",
    "info": "#3b82f6",
    "warning": "#d97706",
    "alert": "#dc2626",
}
_PLAIN = "#8a8f98"
_LINE = "1px solid rgba(128,128,128,.28)"
_BACKQUOTED = re.compile(r"`([^`]+)`")
_FONT = "system-ui,-apple-system,'Segoe UI',Roboto,sans-serif"
_BOX = (
    "display:inline-block;box-sizing:border-box;min-width:24em;max-width:100%;overflow-x:auto;"
    f"border:{_LINE};border-radius:10px;padding:12px 16px;margin:4px 0;color:inherit;"
    f"font:13px/1.5 {_FONT}"
)
_DIM = "opacity:.68"
_CODE = "font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;font-size:12px"


class _Html(str):
    """Text that is HTML already, and must not be escaped again."""

    __slots__ = ()


def cluster(status: Row, api: str | None = None) -> str:
    """Return the card of one cluster: state, sizes, API, instances, and causes.

    Args:
        status: The answer of ``GET /api/v1/status``.
        api: Address of the master's API; None: do not show it.
    """
    facts = [str(status.get("runtime", "")), limits_words(status)]
    if status.get("epoch"):
        facts.append(f"epoch {status['epoch']}")
    said = " · ".join(escape(fact) for fact in facts if fact)
    if api:
        said += f" · API <span style='{_CODE}'>{escape(api)}</span>"
        said += f" · {anchor(api.rstrip('/') + '/dashboard', 'dashboard')}"
    parts = [
        _head(status),
        _bar(status),
        _div(_DIM, said),
        instances(status.get("instances", ())),
        _list(causes(status)),
    ]
    return _div(_BOX, "".join(parts))


def message(name: str, text: str, api: str | None = None) -> str:
    """Return a card with *text* in place of a status."""
    title = f"<b style='font-size:15px'>{escape(name)}</b>"
    where = _div(_DIM, f"API <span style='{_CODE}'>{escape(api)}</span>") if api else ""
    return _div(_BOX, _div("", title) + where + _div("margin-top:4px", _marked(text)))


def instances(items: Iterable[Row]) -> str:
    """Return a table of instances, or '' without any."""
    return rows(
        ("instance", "state", "age", "HTTP", "gRPC", "busy", "node", ""),
        [
            (
                _code(item["id"]),
                state(instance_state(item)),
                age(item.get("age_s")),
                _code(item.get("http")),
                _code(item.get("grpc")),
                "" if item.get("busy") is None else f"{item['busy']:g}",
                item.get("node"),
                instance_reason(item),
            )
            for item in items
        ],
    )


def events(items: Iterable[Row]) -> str:
    """Return a table of events, the newest last."""
    return rows(
        ("last", "code", "", "subject", "count", "message"),
        [
            (
                moment(item.get("last")),
                state(item.get("severity") or "info", item["code"]),
                CODES[item["code"]].title if item["code"] in CODES else "",
                _code(item["subject"]),
                item.get("count", 1),
                first_words(item["message"]),
            )
            for item in items
        ],
    )


def alerts(items: Iterable[Row]) -> str:
    """Return a table of alerts, with past ones in grey."""
    found = list(items)
    if not found:
        return line("nothing is wrong", "ready")
    return rows(
        ("since", "code", "", "subject", "message", "what to do"),
        [
            (
                moment(item.get("since")),
                state(item["severity"] if item["active"] else "over", item["code"]),
                item["title"] if item["active"] else f"{item['title']} (over)",
                _code(item["subject"]),
                first_words(item["message"]),
                _Html(_marked(item["next_step"])) if item["active"] else "",
            )
            for item in found
        ],
    )


def sizes(answer: Row) -> str:
    """Return a card of why the size is so, from the answer of ``GET /api/v1/scaling``."""
    title = f"<b style='font-size:15px'>{escape(str(answer['name']))}</b>"
    parts = [
        _div("", title),
        _div("margin:4px 0", _marked(answer["sentence"])),
        _div(_DIM, escape(settings_words(answer))),
        rows(
            ("signal", "value", "unit", "age", "source", "why unknown"),
            [read_off(signal) for signal in answer["signals"]],
        ),
        decisions(answer["decisions"]),
    ]
    return _div(_BOX, "".join(parts))


def decisions(items: Iterable[Row]) -> str:
    """Return a table of decisions about the size, the newest last."""
    return rows(
        ("at", "by", "wanted", "desired", "reason", "held back"),
        [
            (
                moment(item.get("at")),
                item["by"],
                item.get("wanted"),
                item["desired"],
                first_words(item.get("reason") or ""),
                item.get("held_back"),
            )
            for item in items
        ],
    )


def rows(heads: Sequence[str], table: Sequence[Sequence[object]]) -> str:
    """Return an HTML table without the columns that are empty in every row."""
    if not table:
        return ""
    kept = [i for i in range(len(heads)) if any(row[i] not in (None, "") for row in table)]
    shown = table[-MOST_ROWS:] if len(table) > MOST_ROWS else table
    th = f"text-align:left;padding:3px 14px 3px 0;font-weight:600;{_DIM};border-bottom:{_LINE}"
    td = "text-align:left;vertical-align:baseline;padding:3px 14px 3px 0;white-space:nowrap"
    head = "".join(f"<th style='{th}'>{escape(heads[i])}</th>" for i in kept)
    wide = td.replace("nowrap", "normal")
    body = "".join(
        "<tr style='background:transparent'>"
        + "".join(f"<td style='{wide if i == kept[-1] else td}'>{_cell(row[i])}</td>" for i in kept)
        + "</tr>"
        for row in shown
    )
    left = len(table) - len(shown)
    more = _div(_DIM, f"{left} earlier ones are not shown") if left else ""
    look = "border-collapse:collapse;border:none;margin:10px 0 0 0;color:inherit"
    whole = f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody>"
    return f'{more}<table style="{look};font:13px/1.5 {_FONT}">{whole}</table>'


def line(text: str, word: str) -> str:
    """Return one line of *text* behind a dot in the colour of the state *word*."""
    return f'<div style="font:13px/1.5 {_FONT};color:inherit">{state(word, text)}</div>'


def _head(status: Row) -> str:
    said = str(status["state"]) + (" (stale)" if status.get("stale") else "")
    ready = f"{status.get('ready', 0)} of {status.get('desired', 0)} ready"
    colour = _COLOURS.get(str(status["state"]), _PLAIN)
    pill = (
        f"color:{colour};border:1px solid {colour};border-radius:999px;padding:0 9px;"
        "font-size:12px;font-weight:600;margin:0 10px;vertical-align:1px"
    )
    name = f"<b style='font-size:15px'>{escape(str(status['name']))}</b>"
    return _div("", f"{name}<span style='{pill}'>{escape(said)}</span>{escape(ready)}")


def _bar(status: Row) -> str:
    """Return a bar whose length is the ready share of the desired size."""
    ready, desired = status.get("ready") or 0, status.get("desired") or 0
    if not desired:
        return ""
    percent = min(100, round(100 * ready / desired))
    colour = _COLOURS["ready"] if ready >= desired else _COLOURS["degraded"]
    inner = f"height:3px;border-radius:2px;width:{percent}%;background:{colour}"
    outer = "background:rgba(128,128,128,.25);border-radius:2px;margin:8px 0"
    return _div(outer, _div(inner, ""))


def _list(found: Sequence[Issue]) -> str:
    if not found:
        return ""
    style = f"margin:10px 0 0 0;padding:8px 0 0 0;border-top:{_LINE};list-style:none"
    items = []
    for issue in found:
        text = _marked(issue.found)
        if issue.step:
            text = f"{_marked(issue.found.rstrip('.'))}. "
            text += f"<span style='{_DIM}'>{_marked(issue.step)}</span>"
        items.append(f"<li style='margin:0 0 2px 0'>{text}</li>")
    return f"<ul style='{style}'>{''.join(items)}</ul>"


def _marked(text: str) -> str:
    """Return *text* escaped, with text in backquotes as code."""
    return _BACKQUOTED.sub(rf"<span style='{_CODE}'>\1</span>", escape(text))


def _div(style: str, inner: str) -> str:
    return f'<div style="{style}">{inner}</div>'


def state(word: str, said: str = "") -> _Html:
    """Return a cell for `rows`: *said* behind a dot in the colour of the state *word*."""
    dot = f"<span style='color:{_COLOURS.get(word, _PLAIN)}'>●</span>"
    return _Html(f"{dot} {escape(said or word)}")


def _code(value: object) -> object:
    return value and _Html(f"<span style='{_CODE}'>{escape(str(value))}</span>")


def _cell(value: object) -> str:
    if isinstance(value, _Html):
        return value
    return "" if value is None else escape(str(value))


def anchor(url: str, words: str) -> str:
    """Return a link to *url* as HTML; only *words* if it is not a web address."""
    if urlsplit(url).scheme not in ("http", "https"):
        return escape(words)
    to, said = escape(url, quote=True), escape(words)
    return f"<a href='{to}' target='_blank' rel='noopener noreferrer'>{said}</a>"
