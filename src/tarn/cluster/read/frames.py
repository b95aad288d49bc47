"""Rows as a pandas frame, and a history as a drawing by matplotlib.

Both libraries are optional and slow to import, so they are imported when first used.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from tarn.errors import ProviderMissingError

if TYPE_CHECKING:
    import pandas as pd
import io
from pathlib import Path

import attrs

__all__ = ["Frame", "Plot", "PlotPanel", "PlotSeries", "frame", "missing", "plot"]

Frame: TypeAlias = "pd.DataFrame"


def frame(
    rows: Iterable[Mapping[str, Any]], columns: Sequence[str], times: Collection[str] = ()
) -> Frame:
    """Return *rows* as a frame with exactly *columns*, in this order.

    Args:
        rows: Mappings with plain values; a missing one becomes None.
        columns: The keys, also if there are no rows.
        times: Columns of wall seconds, which become UTC times.

    Raises:
        ProviderMissingError: pandas is not installed.
    """
    try:
        import pandas as pd  # noqa: PLC0415 (optional and slow)
    except ImportError as error:
        raise missing("pandas", "a frame", "notebook", error) from error

    made = pd.DataFrame([[row.get(name) for name in columns] for row in rows], columns=columns)
    for name in times:
        # Numbers first: pandas cannot convert a column of Nones to times.
        made[name] = pd.to_datetime(pd.to_numeric(made[name]), unit="s", utc=True)
    return made


def missing(module: str, what: str, extra: str, failed: ImportError) -> ProviderMissingError:
    """Return the error that *what* needs *module*, which tarn's *extra* installs."""
    error = ProviderMissingError(
        module,
        f"{what} needs {module}: {ProviderMissingError.reason(module, failed)}",
        next_step=f"pip install 'tarn-orchestrator[{extra}]'",
    )
    error.where = ""
    return error


@attrs.frozen
class PlotSeries:
    """One line of a panel."""

    name: str
    points: Sequence[float | None]
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
    """The least upper end of the scale."""
    whole: bool = False
    """Whether its values are whole numbers."""


@attrs.frozen(eq=False)
class Plot:
    """A drawing, which a notebook shows."""

    figure: Any
    """A ``matplotlib.figure.Figure``."""

    def save(self, path: str | Path) -> Path:
        """Write the drawing in the format of *path*'s suffix (png, svg, pdf); return *path*."""
        self.figure.savefig(path)
        return Path(path)

    def _repr_png_(self) -> bytes:
        held = io.BytesIO()
        self.figure.savefig(held, format="png", dpi=100)
        return held.getvalue()

    def __repr__(self) -> str:
        return "<a drawing: a notebook shows it, .save('fleet.png') writes it>"


def plot(title: str, moments: Sequence[Any], panels: Sequence[PlotPanel]) -> Plot:
    """Return *panels* one below the other, over *moments* (UTC times). Any thread may call it.

    Raises:
        ProviderMissingError: matplotlib is not installed.
    """
    try:
        from matplotlib import dates  # noqa: PLC0415 (optional and slow)
        from matplotlib.figure import Figure  # noqa: PLC0415 (as above)
    except ImportError as error:
        raise missing("matplotlib", "a drawing", "plot", error) from error

    typeless: Any = dates  # it is not typed, which a strict checker reports at each call
    # Not by pyplot, whose global state needs a screen and the main thread.
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
        values = [float("nan") if value is None else value for value in line.points]
        style = "steps-post" if line.stepped else "default"
        axis.plot(moments, values, color=line.colour, lw=1.5, label=line.name, drawstyle=style)
        if line.filled:
            step = "post" if line.stepped else None
            axis.fill_between(moments, values, 0, color=line.colour, alpha=0.15, step=step, lw=0)
    known = [value for line in panel.lines for value in line.points if value is not None]
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
