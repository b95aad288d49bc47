"""One scrape of Triton's metrics, model by model: versions and reasons are added up. Pure."""

import functools
import math
from collections.abc import Mapping
from typing import NamedTuple

import attrs

from tarn.domain.outcomes import RequestCounts
from tarn.triton.metrics import (
    COMPUTE_US,
    EXECUTIONS,
    FAILURE,
    INFERENCES,
    PENDING,
    QUEUE_US,
    REQUEST_US,
    SUCCESS,
    TritonMetrics,
    labels,
)

__all__ = ["NAMELESS", "ModelCounters", "Rows", "rows"]

NAMELESS = ""
"""Stands for lines whose model cannot be told: without a name, or with labels too long to be."""
_LONGEST = 640
"""Bytes of labels: a model's name is that of a directory, so at most 255 bytes, escaped twice."""
_COUNTED = (SUCCESS, FAILURE, REQUEST_US, QUEUE_US, PENDING)
_COMPUTED = (COMPUTE_US, INFERENCES, EXECUTIONS)
"""Of models that are counted only."""
_FAMILIES = (*_COUNTED, *_COMPUTED)
_CALLERS = frozenset({"REJECTED", "CANCELED"})
"""Reasons of a failure that are not the model's or the server's: its queue was full, or the caller
went away."""


class ModelCounters(NamedTuple):
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

    of: Mapping[str, ModelCounters]
    """By model."""
    series: tuple[object, ...] = attrs.field(repr=False)
    outcomes: Mapping[str, RequestCounts] = attrs.field(factory=dict)
    """By model, too: whether it serves its callers."""


def rows(seen: TritonMetrics, before: Rows | None = None) -> Rows | None:
    """Return the row of each model in *seen*; None where a line of it could not be read.

    A value that is not a finite number counts as 0: nothing is added for it. Where nothing changed
    since *before*, that is returned: a Triton with thousands of models is mostly idle.
    """
    if any(family in seen.unreadable for family in _FAMILIES):
        return None
    series = tuple(seen.series.get(family) for family in _FAMILIES)
    if before is not None and before.series == series:
        return before
    read, outcomes = _read(seen)
    return Rows(read, series, outcomes)


def _read(seen: TritonMetrics) -> tuple[dict[str, ModelCounters], dict[str, RequestCounts]]:
    own = _own_failures(seen)
    told = PENDING in seen.series
    rows: dict[str, ModelCounters] = {}
    outcomes: dict[str, RequestCounts] = {}
    for name, each in _sums(seen).items():
        succeeded, failed, request_us, queue_us, waits, *computed = each
        pending = waits if told else None
        rows[name] = ModelCounters(succeeded, failed, request_us, queue_us, pending)
        if name != NAMELESS:
            outcomes[name] = RequestCounts(succeeded, own.get(name, 0.0), pending, None, *computed)
    return rows, outcomes


def _sums(seen: TritonMetrics) -> dict[str, list[float]]:
    """Return the sum of each of `_FAMILIES`, by model."""
    sums: dict[str, list[float]] = {}
    for place, family in enumerate(_COUNTED):
        for raw, value in seen.series.get(family, ()):
            sums.setdefault(_name(raw), [0.0] * len(_FAMILIES))[place] += _finite(value)
    if sums:
        for place, family in enumerate(_COMPUTED, len(_COUNTED)):
            for raw, value in seen.series.get(family, ()):
                if (each := sums.get(_name(raw))) is not None:
                    each[place] += _finite(value)
    return sums


def _own_failures(seen: TritonMetrics) -> dict[str, float]:
    """Return how many requests failed by the model's or the server's fault, by model."""
    own: dict[str, float] = {}
    for raw, value in seen.series.get(FAILURE, ()):
        number = _finite(value)
        if number and not _is_callers(raw):
            own[_name(raw)] = own.get(_name(raw), 0.0) + number
    return own


def _name(raw: bytes) -> str:
    return _model(raw) if len(raw) <= _LONGEST else NAMELESS


def _finite(value: float) -> float:
    return value if math.isfinite(value) and value > 0 else 0.0


@functools.lru_cache(maxsize=32768)
def _is_callers(raw: bytes) -> bool:
    """Say whether the label ``reason`` says that it is not the server's failure."""
    if len(raw) > 2 * _LONGEST:
        return False
    return labels(f"{{{raw.decode(errors='replace')}}}").get("reason", "") in _CALLERS


@functools.lru_cache(maxsize=32768)
def _model(raw: bytes) -> str:
    """Return the label ``model``; the same labels come every second, from every instance."""
    return labels(f"{{{raw.decode(errors='replace')}}}").get("model", NAMELESS)
