"""``/metrics``: one table of families, and a snapshot as text in two formats. Pure.

The order of `FAMILIES` is that of the text; the reference is generated from it.
"""

from tarn.control.metrics import fleet, followers, instances, models, work
from tarn.control.metrics.family import Family
from tarn.control.metrics.text import OPENMETRICS, PROMETHEUS, render

__all__ = ["FAMILIES", "OPENMETRICS", "PROMETHEUS", "Family", "render_metrics"]

FAMILIES: tuple[Family, ...] = (
    *fleet.FAMILIES,
    *instances.FAMILIES,
    *models.FAMILIES,
    *followers.FAMILIES,
    *work.FAMILIES,
)


def render_metrics(snapshot: fleet.Snapshot, *, openmetrics: bool = False) -> bytes:
    """Return the text of *snapshot*; what is unknown is left out.

    It is made line by line, so that no single call holds the interpreter for long, however large
    the fleet is.
    """
    return render(FAMILIES, snapshot, openmetrics=openmetrics)
