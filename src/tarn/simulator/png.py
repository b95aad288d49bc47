"""Runs as a PNG: the only place that knows matplotlib."""

import io
from collections.abc import Sequence

from tarn.errors import ProviderMissingError
from tarn.simulator.panels import panels
from tarn.simulator.run import Run

__all__ = ["png"]


def png(runs: Sequence[Run]) -> bytes:
    """Return the four panels of *runs*, 1200 x 1000 points.

    Raises:
        ProviderMissingError: matplotlib is not installed; a page in HTML needs nothing.
    """
    try:
        from matplotlib.figure import Figure  # noqa: PLC0415 (heavy, and only for who asks for it)
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
    figure.suptitle("\n".join(map(_told, runs)), fontsize=9, ha="left", x=0.01, family="monospace")
    held = io.BytesIO()
    figure.savefig(held, format="png", dpi=100)
    return held.getvalue()


def _told(run: Run) -> str:
    return repr(run).strip("<>")
