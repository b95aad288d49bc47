"""Runs as HTML with drawings in it: for a notebook, or as one file that needs nothing else."""

from collections.abc import Sequence
from html import escape

from tarn.simulator.panels import LOAD_COLOUR, Curve, Panel, panels, ticks
from tarn.simulator.run import HEADS, Run

__all__ = ["figure", "page"]

_WIDTH, _HEIGHT = 860, 150
_LEFT, _RIGHT, _TOP, _BOTTOM = 58, 10, 24, 20
_FONT = "system-ui,-apple-system,'Segoe UI',Roboto,sans-serif"


def page(runs: Sequence[Run]) -> str:
    """Return one whole document; it fits light and dark."""
    title = f"{', '.join(run.policy for run in runs)} under {runs[0].trace}"
    style = (
        f":root{{color-scheme:light dark}}body{{margin:24px;max-width:920px;font:14px/1.5 {_FONT}}}"
    )
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}'
        f"</title><style>{style}</style></head><body><h1 style='font-size:18px'>{escape(title)}"
        f"</h1>{figure(runs)}</body></html>\n"
    )


def figure(runs: Sequence[Run]) -> str:
    """Return a table of the summaries, and the four panels, as a piece of HTML."""
    drawn = "".join(_panel(panel, runs[0].t_s[-1]) for panel in panels(runs) if runs[0].load)
    box = f"max-width:{_WIDTH}px;color:inherit;font:13px/1.5 {_FONT}"
    return f'<div style="{box}">{_table(runs)}{drawn}</div>'


def _table(runs: Sequence[Run]) -> str:
    cell = "text-align:right;padding:2px 0 2px 16px;white-space:nowrap"
    first = "text-align:left;padding:2px 0;white-space:nowrap"
    head = "".join(
        f"<th style='{cell if place else first};font-weight:600;opacity:.68'>{word}</th>"
        for place, word in enumerate(HEADS)
    )
    names = {line.name: line.colour for line in panels(runs)[3].lines}
    body = "".join(
        f"<tr style='background:transparent'><td style='{first}'>"
        f"<span style='color:{names[run.policy]}'>&#9644;</span> {escape(run.policy)}</td>"
        + "".join(f"<td style='{cell}'>{word}</td>" for word in run.words()[1:])
        + "</tr>"
        for run in runs
    )
    look = "border-collapse:collapse;border:none;margin:6px 0 12px;color:inherit;font:inherit"
    return f"<table style='{look}'><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _panel(panel: Panel, end_s: float) -> str:
    wide, high = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM
    parts = [f'<text x="{_LEFT}" y="14" font-weight="600">{escape(panel.title)}</text>']
    for value in ticks(panel.top):
        y = _TOP + high * (1 - value / panel.top)
        place = f'x="{_LEFT - 6}" y="{y + 4:.1f}"'
        parts += [
            f'<path d="M{_LEFT} {y:.1f}h{wide}" stroke="currentColor" stroke-opacity=".16"/>',
            f'<text {place} text-anchor="end" opacity=".7">{value:g}</text>',
        ]
    for minutes in ticks(end_s / 60, 8):
        x = _LEFT + wide * minutes * 60 / max(end_s, 1e-9)
        if x <= _WIDTH - _RIGHT + 1:
            anchor = "end" if x > _WIDTH - _LEFT / 2 else "middle"  # the last one stays inside
            parts.append(
                f'<text x="{x:.1f}" y="{_HEIGHT - 4}" text-anchor="{anchor}" opacity=".7">'
                f"{minutes:g} min</text>"
            )
    parts += [_curve(line, panel.top, end_s) for line in panel.lines]
    return (
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(panel.title)}" '
        f'style="width:100%;height:auto;display:block" fill="currentColor" font-size="11" '
        f'font-family="{escape(_FONT)}">{"".join(parts)}</svg>'
    )


def _curve(line: Curve, top: float, end_s: float) -> str:
    wide, high = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM
    points = [
        (_LEFT + wide * t_s / max(end_s, 1e-9), _TOP + high * (1 - value / top))
        for t_s, value in zip(line.t_s, line.values, strict=True)
    ]
    path = f"M{points[0][0]:.1f} {points[0][1]:.1f}"
    for x, y in points[1:]:
        path += f"H{x:.1f}V{y:.1f}" if line.stepped else f"L{x:.1f} {y:.1f}"
    faint = ' stroke-opacity=".4"' if line.faint else ""
    filled = f'fill="{line.colour}" fill-opacity=".18"' if line.colour == LOAD_COLOUR else ""
    if filled:
        foot = _TOP + high
        path = f"{path}V{foot}H{points[0][0]:.1f}Z"
    return (
        f'<path d="{path}" {filled or "fill=" + chr(34) + "none" + chr(34)} stroke="{line.colour}" '
        f'stroke-width="1.4" stroke-linejoin="round"{faint}><title>{escape(line.name)}</title>'
        "</path>"
    )
