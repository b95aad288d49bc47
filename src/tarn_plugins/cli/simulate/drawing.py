"""Plot runs, in HTML without further packages, or as a PNG by matplotlib.

A plot has four panels over one axis of time.
"""

import io
import math
from collections.abc import Sequence
from html import escape
from itertools import accumulate
from pathlib import Path

import attrs

from tarn.cluster.simulated import HEADS, Run
from tarn.errors import ConfigError, ProviderMissingError, TarnError

__all__ = [
    "COLOURS",
    "LOAD_COLOUR",
    "Curve",
    "Panel",
    "figure",
    "page",
    "panels",
    "plot",
    "png",
    "ticks",
]

COLOURS = ("#2563eb", "#d97706", "#8b5cf6", "#16a34a", "#dc2626", "#0891b2")
"""The colours of the runs, in their order; they differ on light and dark backgrounds."""
LOAD_COLOUR = "#8a8f98"
_POINTS = 700  # more than a screen can show add nothing; each is the maximum of its interval


@attrs.frozen
class Curve:
    """One curve."""

    name: str
    colour: str
    t_s: tuple[float, ...] = attrs.field(repr=False)
    values: tuple[float, ...] = attrs.field(repr=False)
    stepped: bool = False
    """Whether a value holds until the next point; else a straight line connects the points."""
    faint: bool = False


@attrs.frozen
class Panel:
    """One plot with its own vertical axis, which begins at zero."""

    title: str
    lines: tuple[Curve, ...]
    top: float
    """The end of the vertical axis."""


def panels(runs: Sequence[Run]) -> tuple[Panel, ...]:
    """Return the panels for load, size, queue and cost of *runs* with the same trace."""
    load = _line("load", LOAD_COLOUR, runs[0], runs[0].load)
    coloured = [(run, COLOURS[place % len(COLOURS)]) for place, run in enumerate(runs)]
    sizes = [
        line
        for run, colour in coloured
        for line in (
            _line(f"{run.policy}: desired", colour, run, run.desired, faint=True, stepped=True),
            _line(f"{run.policy}: ready", colour, run, run.ready, stepped=True),
        )
    ]
    longest_s = max((value for run in runs for value in run.queue_s), default=0.0)
    scale, unit = (1.0, "s") if longest_s >= 1 else (1000.0, "ms")
    waits = [
        _line(run.policy, colour, run, [value * scale for value in run.queue_s])
        for run, colour in coloured
    ]
    costs = []
    for run, colour in coloured:
        sums = list(accumulate(held * run.step_s / 3600 for held in run.held))
        costs.append(_line(run.policy, colour, run, sums))
    return (
        _made_panel("load, requests per second", [load]),
        _made_panel("size, instances (faint: desired, full: ready)", sizes),
        _made_panel(f"queue time of the requests that arrive, {unit}", waits),
        _made_panel("cost so far, instance-hours", costs),
    )


def ticks(top: float, most: int = 4) -> tuple[float, ...]:
    """Return round numbers from 0 to at least *top*."""
    if top <= 0:
        return (0.0, 1.0)
    rough = top / most
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= rough * 0.999)
    return tuple(step * place for place in range(math.ceil(top / step - 1e-9) + 1))


def _made_panel(title: str, lines: Sequence[Curve]) -> Panel:
    top = max((value for line in lines for value in line.values), default=0.0)
    return Panel(title, tuple(lines), ticks(top)[-1])


def _line(  # noqa: PLR0913 (a curve and its looks)
    name: str,
    colour: str,
    run: Run,
    values: Sequence[float],
    *,
    stepped: bool = False,
    faint: bool = False,
) -> Curve:
    length = max(1, math.ceil(len(values) / _POINTS))
    starts = range(0, len(values), length)
    t_s = tuple(run.t_s[start] for start in starts)
    kept = tuple(float(max(values[start : start + length])) for start in starts)
    return Curve(name, colour, t_s, kept, stepped, faint)


_WIDTH, _HEIGHT = 860, 150
_LEFT, _RIGHT, _TOP, _BOTTOM = 58, 10, 24, 20
_FONT = "system-ui,-apple-system,'Segoe UI',Roboto,sans-serif"


def page(runs: Sequence[Run]) -> str:
    """Return a complete HTML document, for light and dark backgrounds."""
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
    """Return a table of the summaries and the four panels, as a fragment of HTML."""
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


def png(runs: Sequence[Run]) -> bytes:
    """Return the four panels of *runs* as a PNG of 1200 x 1000 pixels.

    Raises:
        ProviderMissingError: matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure  # noqa: PLC0415 (heavy, and seldom needed)
    except ImportError as failed:
        error = ProviderMissingError(
            "matplotlib",
            f"a PNG needs matplotlib: {ProviderMissingError.reason('matplotlib', failed)}",
            next_step="pip install 'tarn-orchestrator[plot]', or name a file that ends in .html",
        )
        error.where = ""
        raise error from failed

    figure = Figure(figsize=(12, 10), layout="constrained")
    axes = figure.subplots(4, 1, sharex=True)
    for axis, panel in zip(axes, panels(runs), strict=True):
        for line in panel.lines:
            drawn = axis.step if line.stepped else axis.plot
            shape = {"where": "post"} if line.stepped else {}
            minutes = [t_s / 60 for t_s in line.t_s]
            alpha = 0.4 if line.faint else 1.0
            drawn(
                minutes, line.values, color=line.colour, alpha=alpha, lw=1.3, label=line.name,
                **shape,
            )  # fmt: skip
        axis.set_title(panel.title, loc="left", fontsize=10, fontweight="bold")
        axis.set_ylim(0, panel.top * 1.03)
        axis.grid(visible=True, alpha=0.25)
        axis.margins(x=0)
    axes[2].legend(loc="upper right", fontsize=9)
    axes[3].set_xlabel("minutes")
    told = "\n".join(repr(run).strip("<>") for run in runs)
    figure.suptitle(told, fontsize=9, ha="left", x=0.01, family="monospace")
    held = io.BytesIO()
    figure.savefig(held, format="png", dpi=100)
    return held.getvalue()


def plot(runs: Sequence[Run], path: Path) -> None:
    """Write a plot of *runs* to *path*, in the format of its extension.

    Raises:
        ConfigError: The extension is not .png or .html.
        ProviderMissingError: A PNG needs matplotlib.
        TarnError: The file cannot be written.
    """
    match path.suffix.lower():
        case ".html":
            content = page(runs).encode()
        case ".png":
            content = png(runs)
        case other:
            raise ConfigError(
                f"'{other}' is not a plot format" if other else "its name has no extension",
                where=str(path),
                right="Expected a name that ends in .png or .html",
            )
    try:
        path.write_bytes(content)
    except OSError as error:
        raise TarnError(f"the plot cannot be written: {error.strerror}", where=str(path)) from error
