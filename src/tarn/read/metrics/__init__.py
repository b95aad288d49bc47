"""``/metrics``: one table of families, and a snapshot as text in two formats. Pure.

The order of `FAMILIES` is that of the text; the reference is generated from it.
"""

from typing import Any

from tarn.read.metrics import own
from tarn.read.metrics.exposition import (
    OPENMETRICS,
    PROMETHEUS,
    Family,
    own_text,
    series_text,
)
from tarn.read.metrics.instance_text import InstanceText
from tarn.read.metrics.series import EACH_INSTANCE, MODELS, QUEUES
from tarn.read.snapshot import Snapshot

__all__ = ["FAMILIES", "OPENMETRICS", "PROMETHEUS", "Family", "InstanceText", "render_metrics"]

FAMILIES: tuple[Family[Any, Any], ...] = (*own.FAMILIES, *QUEUES, *EACH_INSTANCE, *MODELS)


def render_metrics(
    snapshot: Snapshot, before: InstanceText | None = None, *, openmetrics: bool = False
) -> bytes:
    """Return the text of *snapshot*; what is unknown is left out.

    *before* has the text of an earlier snapshot, of which what is unchanged is used again.
    """
    parts = (
        own_text(own.FAMILIES, snapshot, openmetrics=openmetrics),
        (before or InstanceText()).render(snapshot, openmetrics=openmetrics),
        series_text(MODELS, snapshot, openmetrics=openmetrics),
    )
    return b"".join((*parts, b"# EOF\n" if openmetrics else b""))
