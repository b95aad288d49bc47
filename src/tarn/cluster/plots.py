"""The hours of a cluster as a drawing: with `tarn.simulator.png`, who knows matplotlib."""

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs

from tarn.cluster.frames import missing

__all__ = ["Plot", "PlotPanel", "PlotSeries", "plot"]


@attrs.frozen
class PlotSeries:
    """One line of a panel."""

    name: str
    values: Sequence[float | None]
    """One for each moment; None leaves a gap."""
    colour: str
    stepped: bool = False
    filled: bool = False


@attrs.frozen
class PlotPanel:
    """Lines over one scale."""

    title: str
    lines: tuple[PlotSeries, ...]
    top: float = 1.0
    """The scale reaches at least so far."""
    whole: bool = False
    """What it shows comes in whole numbers."""


@attrs.frozen(eq=False)
class Plot:
    """A drawing; a notebook shows it, ``figure`` changes it, ``save`` writes it."""

    figure: Any
    """A ``matplotlib.figure.Figure``."""

    def save(self, path: str | Path) -> Path:
        """Write it in the format that the name of *path* ends in (png, svg, pdf); return it."""
        self.figure.savefig(path)
        return Path(path)

    def _repr_png_(self) -> bytes:
        held = io.BytesIO()
        self.figure.savefig(held, format="png", dpi=100)
        return held.getvalue()

    def __repr__(self) -> str:
        return "<a drawing: a notebook shows it, .save('fleet.png') writes it>"


def plot(title: str, moments: Sequence[Any], panels: Sequence[PlotPanel]) -> Plot:
    """Return *panels* one under the other over *moments* (UTC times).

    It touches no global state of matplotlib, so it works on any thread and without a screen.

    Raises:
        ProviderMissingError: matplotlib is not installed.
    """
    try:
        from matplotlib import dates  # noqa: PLC0415 (heavy, and only for who asks for it)
        from matplotlib.figure import Figure  # noqa: PLC0415 (as above)
    except ImportError as error:
        raise missing("matplotlib", "a drawing", "plot", error) from error

    typeless: Any = dates  # it has no types, and a strict checker would say so at each call
    figure = Figure(figsize=(9, 0.6 + 1.7 * len(panels)), layout="constrained")
    axes = figure.subplots(len(panels), 1, sharex=True, squeeze=False)[:, 0]
    for axis, panel in zip(axes, panels, strict=True):
        _draw(axis, panel, moments)
    locator = typeless.AutoDateLocator(minticks=3, maxticks=8)
    axes[-1].xaxis.set_major_locator(locator)
    axes[-1].xaxis.set_major_formatter(typeless.ConciseDateFormatter(locator))
    axes[-1].set_xlabel("UTC")
    figure.suptitle(title, x=0.01, ha="left", fontsize=11, fontweight="bold")
    return Plot(figure)


def _draw(axis: Any, panel: PlotPanel, moments: Sequence[Any]) -> None:
    for line in panel.lines:
        values = [float("nan") if value is None else value for value in line.values]
        style = "steps-post" if line.stepped else "default"
        axis.plot(moments, values, color=line.colour, lw=1.5, label=line.name, drawstyle=style)
        if line.filled:
            step = "post" if line.stepped else None
            axis.fill_between(moments, values, 0, color=line.colour, alpha=0.15, step=step, lw=0)
    known = [value for line in panel.lines for value in line.values if value is not None]
    axis.set_ylim(0, 1.08 * max([panel.top, *known]))
    axis.set_title(panel.title, loc="left", fontsize=9)
    axis.grid(visible=True, alpha=0.25)
    axis.margins(x=0)
    axis.spines[["top", "right"]].set_visible(False)
    if len(panel.lines) > 1:
        axis.legend(
            loc="lower right",
            bbox_to_anchor=(1.0, 1.0),
            borderaxespad=0.2,
            fontsize=8,
            frameon=False,
            ncols=len(panel.lines),
        )
    if panel.whole:
        axis.yaxis.get_major_locator().set_params(integer=True)
