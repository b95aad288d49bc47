"""Families as text: Prometheus' format 0.0.4, or OpenMetrics 1.0. Pure.

Sources: Prometheus "Exposition formats"; the OpenMetrics specification, version 1.0. Both have the
same lines for samples; they differ in what they call a family, and in the last line.
"""

import math
from collections.abc import Callable, Iterable, Iterator

from tarn.control.metrics.family import Family, MetricType
from tarn.control.snapshot import Snapshot

__all__ = ["OPENMETRICS", "PROMETHEUS", "render"]

PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"
"""The type of the answer in each format."""

_SUFFIXES = {MetricType.COUNTER: "_total", MetricType.INFO: "_info"}
"""What a sample's name has, and in OpenMetrics the family's has not."""


def render(families: Iterable[Family], snapshot: Snapshot, *, openmetrics: bool) -> bytes:
    """Return the text of *families* as they are in *snapshot*; one without samples is left out."""
    heading = _open_heading if openmetrics else _heading
    end = "# EOF\n" if openmetrics else ""
    return "".join((*_lines(families, snapshot, heading), end)).encode("utf-8", "replace")


def _lines(
    families: Iterable[Family], snapshot: Snapshot, heading: Callable[[Family], str]
) -> Iterator[str]:
    """Yield the text; samples are never collected, or the collector would stop the world for it."""
    for family in families:
        first, name = True, family.name
        for suffix, labels, value in family.samples(snapshot):
            if first:
                yield heading(family)
                first = False
            braces = f"{{{labels}}}" if labels else ""
            yield f"{name}{suffix}{braces} {_value(value)}\n"


def _heading(family: Family) -> str:
    kind = MetricType.GAUGE if family.kind is MetricType.INFO else family.kind
    return f"# HELP {family.name} {family.text}\n# TYPE {family.name} {kind}\n"


def _open_heading(family: Family) -> str:
    name = family.name.removesuffix(_SUFFIXES.get(family.kind, ""))
    kind = "unknown" if family.kind is MetricType.UNTYPED else family.kind
    return f"# TYPE {name} {kind}\n# HELP {name} {family.text}\n"


def _value(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return repr(int(value)) if float(value).is_integer() else repr(float(value))
