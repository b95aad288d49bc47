"""What a family of metrics is, and how labels are written. Pure."""

import enum
from collections.abc import Callable, Iterable, Iterator, Mapping

import attrs

from tarn.control.snapshot import Snapshot
from tarn.domain.histogram import Histogram

__all__ = ["Family", "MetricType", "Sample", "flag", "histogram", "label", "labels", "one"]

_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})

Sample = tuple[str, str, float]
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
class Family:
    """One family: what is told of it, and how its samples are read off a snapshot."""

    name: str
    kind: MetricType
    text: str
    """One line: what it is, with its unit."""
    samples: Callable[[Snapshot], Iterable[Sample]] = attrs.field(repr=False, eq=False)
    """Yields only what is known; nothing: the family is left out."""
    labels: tuple[str, ...] = ()
    words: Mapping[str, str] = attrs.field(factory=dict, hash=False)
    """Every value of its last label with its meaning, where there are few; for the reference."""


def label(name: str, text: str) -> str:
    """Return one label as it is written; any text may stand in it."""
    return f'{name}="{text.translate(_ESCAPES)}"'


def labels(**values: str) -> str:
    """Return some labels as they are written, in this order."""
    return ",".join(label(name, text) for name, text in values.items())


def one(value: float | None) -> Iterator[Sample]:
    """Yield the only sample of a family without labels; none for None."""
    if value is not None:
        yield "", "", value


def flag(value: object) -> Iterator[Sample]:
    """Yield 1 where *value* is something, else 0."""
    yield "", "", float(bool(value))


def histogram(of: Histogram, given: str = "") -> Iterator[Sample]:
    """Yield the buckets, the count and the sum of one histogram, with the labels *given*."""
    comma, count = "," if given else "", 0
    for bound, more in zip((*of.bounds, float("inf")), of.counts, strict=True):
        count += more
        le = "+Inf" if bound == float("inf") else repr(float(bound))
        yield "_bucket", f"{given}{comma}{label('le', le)}", count
    yield "_count", given, count
    yield "_sum", given, of.total
