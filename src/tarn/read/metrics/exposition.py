"""A snapshot as text: Prometheus' format 0.0.4, or OpenMetrics 1.0. Pure.

prometheus_client writes the master's own families. For a thousand instances and more it would hold
up who scrapes (docs/reference/performance.md), so series of instances and models are written here,
line by line: no single call holds the interpreter for long, however large the fleet is.

Sources: Prometheus "Exposition formats"; the OpenMetrics specification, version 1.0. Both have the
same lines for samples; they differ in what they call a family, and in the last line.
"""

import enum
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import accumulate
from typing import Generic, TypeVar

import attrs
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
)
from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.registry import Collector

from tarn.domain.tally import Histogram
from tarn.read.snapshot import Snapshot

__all__ = [
    "OPENMETRICS",
    "PROMETHEUS",
    "Family",
    "MetricType",
    "Sample",
    "Series",
    "heading",
    "line",
    "own_text",
    "series_text",
]

PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"
"""The type of the answer in each format."""

S = TypeVar("S")
T = TypeVar("T")

Sample = tuple[tuple[str, ...], float | Histogram]
"""The value of each label of the family, and what was measured."""
Series = tuple[str, str, float]
"""What follows the family's name, the labels as the format writes them (no braces), the value."""


class MetricType(enum.StrEnum):
    """What a family's values are."""

    GAUGE = "gauge"
    COUNTER = "counter"
    """Never falls while its series lives; its name ends in ``_total``."""
    HISTOGRAM = "histogram"
    SUMMARY = "summary"
    """A sum and a count, without quantiles."""
    INFO = "info"
    """Always 1: what counts are the labels; its name ends in ``_info``."""
    UNTYPED = "untyped"
    """A gauge under an old name that a gauge must not have."""


@attrs.frozen
class Family(Generic[S, T]):
    """One family: what is told of it, and how its samples are read off a snapshot."""

    name: str
    kind: MetricType
    text: str
    """One line: what it is, with its unit."""
    samples: Callable[[S], Iterable[T]] = attrs.field(repr=False, eq=False)
    """Yields only what is known, as `Sample` or `Series`; nothing: the family is left out."""
    labels: tuple[str, ...] = ()
    words: Mapping[str, str] = attrs.field(factory=dict, hash=False)
    """Every value of its last label with its meaning, where there are few; for the reference."""


_SUFFIXES = {MetricType.COUNTER: "_total", MetricType.INFO: "_info"}
"""What a sample's name has, and in OpenMetrics the family's has not."""
_END = b"# EOF\n"


class _SnapshotCollector(Collector):
    """Hands the master's own families to prometheus_client, as they are in one snapshot."""

    def __init__(self, families: Iterable[Family[Snapshot, Sample]], snapshot: Snapshot) -> None:
        self._families, self._snapshot = families, snapshot

    def collect(self) -> Iterator[Metric]:
        """Yield each family that has a sample."""
        for family in self._families:
            metric = _metric(family, self._snapshot)
            if metric.samples:
                yield metric


def _metric(family: Family[Snapshot, Sample], snapshot: Snapshot) -> Metric:
    found = [(tuple(map(_encodable, of)), value) for of, value in family.samples(snapshot)]
    name = family.name.removesuffix(_SUFFIXES.get(family.kind, ""))
    text, names = family.text, family.labels
    if family.kind is MetricType.HISTOGRAM:
        histogram = HistogramMetricFamily(name, text, labels=names)
        for of, value in found:
            if isinstance(value, Histogram):
                histogram.add_metric(of, _buckets(value), value.total)
        return histogram
    if family.kind is MetricType.INFO:
        info = InfoMetricFamily(name, text)
        for of, _ in found:
            info.add_metric((), dict(zip(names, of, strict=True)))
        return info
    kind = CounterMetricFamily if family.kind is MetricType.COUNTER else GaugeMetricFamily
    metric = kind(name, text, labels=names)
    for of, value in found:
        if not isinstance(value, Histogram):
            metric.add_metric(of, value)
    return metric


def _encodable(text: str) -> str:
    """Return *text* without lone surrogates: one of them would spoil the whole answer."""
    return text.encode("utf-8", "replace").decode()


def _buckets(of: Histogram) -> list[tuple[str, float]]:
    bounds = [*map(repr, map(float, of.bounds)), "+Inf"]
    return list(zip(bounds, map(float, accumulate(of.counts)), strict=True))


def own_text(
    families: Iterable[Family[Snapshot, Sample]], snapshot: Snapshot, *, openmetrics: bool
) -> bytes:
    """Return the text of *families* without the end that OpenMetrics has."""
    registry = CollectorRegistry()  # of this snapshot alone; the global one has our process
    registry.register(_SnapshotCollector(families, snapshot))
    if openmetrics:
        text: bytes = generate_openmetrics(registry)  # type: ignore[no-untyped-call]
        return text.removesuffix(_END)
    return generate_latest(registry)


def series_text(families: Iterable[Family[S, Series]], of: S, *, openmetrics: bool) -> bytes:
    """Return the text of *families* as they are in *of*; one without series is left out."""
    return "".join(_lines(families, of, openmetrics=openmetrics)).encode("utf-8", "replace")


def _lines(families: Iterable[Family[S, Series]], of: S, *, openmetrics: bool) -> Iterator[str]:
    """Yield the text; series are never collected, or the collector would stop the world for it."""
    for family in families:
        first, name = True, family.name
        for series in family.samples(of):
            if first:
                yield heading(family, openmetrics=openmetrics)
                first = False
            yield line(name, series)


def line(family: str, series: Series) -> str:
    """Return the line of one series of the *family*; both formats have the same."""
    suffix, labels, value = series
    braces = f"{{{labels}}}" if labels else ""
    return f"{family}{suffix}{braces} {_value(value)}\n"


def heading(family: Family[S, Series], *, openmetrics: bool) -> str:
    """Return what stands before the series of *family*."""
    if not openmetrics:
        shown = MetricType.GAUGE if family.kind is MetricType.INFO else family.kind
        return f"# HELP {family.name} {family.text}\n# TYPE {family.name} {shown}\n"
    name = family.name.removesuffix(_SUFFIXES.get(family.kind, ""))
    kind = "unknown" if family.kind is MetricType.UNTYPED else family.kind
    return f"# TYPE {name} {kind}\n# HELP {name} {family.text}\n"


def _value(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return repr(int(value)) if float(value).is_integer() else repr(float(value))
