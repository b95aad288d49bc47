"""What a plot shows of runs: four panels over one axis of time. Pure; the drawing is elsewhere."""

import math
from collections.abc import Callable, Sequence

import attrs

from tarn.simulator.run import Run

__all__ = ["COLOURS", "LOAD_COLOUR", "Curve", "Panel", "panels", "ticks"]

COLOURS = ("#2563eb", "#d97706", "#8b5cf6", "#16a34a", "#dc2626", "#0891b2")
"""Of the runs, in their order; they are told apart on light and dark."""
LOAD_COLOUR = "#8a8f98"
_POINTS = 700
"""As many as a screen can show; each is the greatest value of its stretch."""


@attrs.frozen
class Curve:
    """One curve."""

    name: str
    colour: str
    t_s: tuple[float, ...] = attrs.field(repr=False)
    values: tuple[float, ...] = attrs.field(repr=False)
    stepped: bool = False
    """It holds until the next point; else it is drawn straight to it."""
    faint: bool = False


@attrs.frozen
class Panel:
    """One drawing with its own vertical axis, which begins at zero."""

    title: str
    lines: tuple[Curve, ...]
    top: float
    """Greatest value."""


def panels(runs: Sequence[Run]) -> tuple[Panel, ...]:
    """Return load, size, queue and cost of *runs*, which have one trace."""
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
    scale, unit = _span([value for run in runs for value in run.queue_s])
    waits = [
        _line(run.policy, colour, run, [value * scale for value in run.queue_s])
        for run, colour in coloured
    ]
    costs = [_line(run.policy, colour, run, _summed(run)) for run, colour in coloured]
    return (
        _panel("load, requests per second", [load]),
        _panel("size, instances (faint: desired, full: ready)", sizes),
        _panel(f"queue time of the requests that arrive, {unit}", waits),
        _panel("cost so far, instance-hours", costs),
    )


def ticks(top: float, most: int = 4) -> tuple[float, ...]:
    """Return round numbers from 0 to at least *top*."""
    if top <= 0:
        return (0.0, 1.0)
    rough = top / most
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= rough * 0.999)
    return tuple(step * place for place in range(math.ceil(top / step - 1e-9) + 1))


def _span(values: Sequence[float]) -> tuple[float, str]:
    return (1.0, "s") if max(values, default=0.0) >= 1 else (1000.0, "ms")


def _summed(run: Run) -> list[float]:
    total, sums = 0.0, []
    for held in run.held:
        total += held * run.step_s / 3600
        sums.append(total)
    return sums


def _panel(title: str, lines: Sequence[Curve]) -> Panel:
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
    t_s, kept = _thinned(run.t_s, values)
    return Curve(name, colour, t_s, kept, stepped, faint)


def _thinned(
    t_s: Sequence[float], values: Sequence[float], pick: Callable[[Sequence[float]], float] = max
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    length = max(1, math.ceil(len(values) / _POINTS))
    starts = range(0, len(values), length)
    return (
        tuple(t_s[start] for start in starts),
        tuple(float(pick(values[start : start + length])) for start in starts),
    )
