"""One scrape of Triton's metrics, model by model: versions and reasons are added up. Pure."""

import functools
import math
from collections.abc import Mapping
from typing import NamedTuple

import attrs

from tarn.triton.metrics import FAILURE, PENDING, QUEUE_US, REQUEST_US, SUCCESS, Metrics, labels

__all__ = ["NAMELESS", "Row", "Rows", "rows"]

NAMELESS = ""
"""Stands for lines whose model cannot be told: without a name, or with labels too long to be."""
_LONGEST = 640
"""Bytes of labels: a model's name is that of a directory, so at most 255 bytes, escaped twice."""
_FAMILIES = (SUCCESS, FAILURE, REQUEST_US, QUEUE_US, PENDING)


class Row(NamedTuple):
    """What one Triton says of one model; all but ``pending`` only grow while it is loaded."""

    succeeded: float = 0.0
    failed: float = 0.0
    request_us: float = 0.0
    queue_us: float = 0.0
    pending: float | None = None
    """Requests that wait; None: this Triton does not say."""


@attrs.frozen(eq=False)
class Rows:
    """The rows of one scrape, and what they were read from."""

    of: Mapping[str, Row]
    """By model."""
    series: tuple[object, ...] = attrs.field(repr=False)


def rows(seen: Metrics, before: Rows | None = None) -> Rows | None:
    """Return the row of each model in *seen*; None where a line of it could not be read.

    A value that is no finite number counts as 0: nothing is added for it. Where nothing changed
    since *before*, that is returned: a Triton with thousands of models is mostly idle.
    """
    if any(family in seen.unreadable for family in _FAMILIES):
        return None
    series = tuple(seen.series.get(family) for family in _FAMILIES)
    if before is not None and before.series == series:
        return before
    return Rows(_read(seen), series)


def _read(seen: Metrics) -> dict[str, Row]:
    sums: dict[str, list[float]] = {}
    for place, family in enumerate(_FAMILIES):
        for raw, value in seen.series.get(family, ()):
            name = _model(raw) if len(raw) <= _LONGEST else NAMELESS
            sums.setdefault(name, [0.0] * len(_FAMILIES))[place] += _finite(value)
    told = PENDING in seen.series
    return {name: _row(each, told=told) for name, each in sums.items()}


def _row(sums: list[float], *, told: bool) -> Row:
    succeeded, failed, request_us, queue_us, pending = sums
    return Row(succeeded, failed, request_us, queue_us, pending if told else None)


def _finite(value: float) -> float:
    return value if math.isfinite(value) and value > 0 else 0.0


@functools.lru_cache(maxsize=32768)
def _model(raw: bytes) -> str:
    """Return the label ``model``; the same labels come every second, from every instance."""
    return labels(f"{{{raw.decode(errors='replace')}}}").get("model", NAMELESS)
