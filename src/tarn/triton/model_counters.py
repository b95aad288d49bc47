"""The counters of each version of each model in one scrape. Pure."""

import functools
import json
from collections.abc import Iterator, Mapping

import attrs

from tarn.domain.counters import CounterSet, Line
from tarn.domain.outcomes import RequestCounts
from tarn.triton.metrics import (
    CACHE_HIT_US,
    CACHE_HITS,
    CACHE_MISS_US,
    CACHE_MISSES,
    COMPUTE_US,
    EXECUTIONS,
    FAILURE,
    FIRST_RESPONSE_MS,
    FIRST_RESPONSES,
    INFERENCES,
    PENDING,
    QUEUE_US,
    REQUEST_US,
    SUCCESS,
    TritonMetrics,
    labels,
)

__all__ = ["NAMELESS", "Rows", "outcomes", "parse_statistics", "rows"]

NAMELESS = ""
"""The model of lines without a name, or with labels that are too long."""
# Bytes of labels: a model's name is that of a directory, at most 255 bytes, which escaping doubles.
_LONGEST = 640
_PLACES = {name: place for place, name in enumerate(CounterSet._fields)}
_COUNTED = {
    SUCCESS: _PLACES["completed"],
    FAILURE: _PLACES["failed"],
    REQUEST_US: _PLACES["request_us"],
    QUEUE_US: _PLACES["queue_us"],
}
# Read only for lines that one of the other families has.
_COMPUTED = {
    COMPUTE_US: _PLACES["compute_us"],
    INFERENCES: _PLACES["inferences"],
    EXECUTIONS: _PLACES["executions"],
    CACHE_HITS: _PLACES["cache_hits"],
    CACHE_MISSES: _PLACES["cache_misses"],
    CACHE_HIT_US: _PLACES["cache_hit_us"],
    CACHE_MISS_US: _PLACES["cache_miss_us"],
    FIRST_RESPONSES: _PLACES["first_responses"],
    FIRST_RESPONSE_MS: _PLACES["first_response_us"],
}
# Triton gives these in milliseconds.
_IN_MS = frozenset({FIRST_RESPONSE_MS})
_US_IN_MS = 1000.0
_REJECTED = _PLACES["rejected"]
_FAMILIES = (*_COUNTED, PENDING, *_COMPUTED)
_CALLERS = frozenset({"REJECTED", "CANCELED"})


@attrs.frozen(eq=False)
class Rows:
    """The counters of each line in one scrape."""

    of: Mapping[Line, CounterSet]
    pending: Mapping[str, float]
    """Waiting requests by model; empty if this Triton has no such gauge."""
    source: str
    series: tuple[object, ...] = attrs.field(repr=False)
    """What they were read from."""


def rows(seen: TritonMetrics, before: Rows | None = None) -> Rows | None:
    """Return the counters in *seen*; None if one of them cannot be read or is not valid."""
    if any(family in seen.unreadable for family in _FAMILIES):
        return None
    series = tuple(seen.series.get(family) for family in _FAMILIES)
    # A Triton with thousands of models is mostly idle, so most scrapes change nothing.
    if before is not None and (before.source, before.series) == (seen.source, series):
        return before
    read = {line: CounterSet._make(counted) for line, counted in _read(seen).items()}
    gauge = seen.series.get(PENDING, ())
    pending = dict.fromkeys((model for model, _ in read), 0.0) if gauge else {}
    for raw, value in gauge:
        pending[_line(raw)[0]] += value
    if all(one.countable for one in (*read.values(), *map(CounterSet, pending.values()))):
        return Rows(read, pending, seen.source, series)
    return None


def _read(seen: TritonMetrics) -> dict[Line, list[float]]:
    """Return the counters of each line, in the order of `CounterSet`."""
    read: dict[Line, list[float]] = {}
    for family, place in _COUNTED.items():
        for raw, value in seen.series.get(family, ()):
            one = read.setdefault(_line(raw), [0.0] * len(_PLACES))
            one[place] += value
            if value and family == FAILURE and _is_callers(raw):
                one[_REJECTED] += value
    for raw, _ in seen.series.get(PENDING, ()):
        read.setdefault(_line(raw), [0.0] * len(_PLACES))
    for family, place in _COMPUTED.items():
        unit_us = _US_IN_MS if family in _IN_MS else 1.0
        for raw, value in seen.series.get(family, ()):
            if (found := read.get(_line(raw))) is not None:
                found[place] += value * unit_us
    return read


def outcomes(
    counted: Mapping[str, CounterSet], pending: Mapping[str, float]
) -> dict[str, RequestCounts]:
    """Return the counts of requests of each model that has a name."""
    return {
        model: RequestCounts(
            one._replace(failed=one.failed - one.rejected, rejected=0.0), pending.get(model)
        )
        for model, one in counted.items()
        if model != NAMELESS
    }


@functools.lru_cache(maxsize=32768)
def _is_callers(raw: bytes) -> bool:
    """Return whether the label ``reason`` means that the failure is not the server's."""
    if len(raw) > 2 * _LONGEST:
        return False
    text = raw.decode(errors="replace")
    return labels("{" + text + "}").get("reason", "") in _CALLERS


def _line(raw: bytes) -> Line:
    return _kept_line(raw) if len(raw) <= _LONGEST else (NAMELESS, "")


@functools.lru_cache(maxsize=32768)
def _kept_line(raw: bytes) -> Line:
    # Cached: the same labels come every second from every instance.
    found = labels(f"{{{raw.decode(errors='replace')}}}")
    return found.get("model", NAMELESS), found.get("version", "")


_NS_IN_US = 1000


# Triton's statistics (``GET /v2/models/stats``) use the HTTP port, so they can be read if the
# metrics are switched off or cannot be reached. They lack pending requests and GPUs.
# Source: Triton ``docs/protocol/extension_statistics.md``; answers of Triton 2.51.
def parse_statistics(body: bytes) -> TritonMetrics:
    """Return the counters in statistics in the form of the metrics.

    Raises:
        ValueError: *body* is not such statistics.
    """
    try:
        said = json.loads(body)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    models = said.get("model_stats") if isinstance(said, Mapping) else None
    if not isinstance(models, list):
        raise ValueError("no model_stats")  # noqa: TRY004 (bad data, not a bad argument)
    series: dict[str, list[tuple[bytes, float]]] = {}
    for model in models:
        labels = _labels(model)
        for family, value in _counters(model):
            series.setdefault(family, []).append((labels, value))
    found = {family: tuple(rows) for family, rows in series.items()}
    return TritonMetrics(found, source="statistics")


def _counters(model: Mapping[str, object]) -> Iterator[tuple[str, float]]:
    stats = model.get("inference_stats")
    parts = stats if isinstance(stats, Mapping) else {}
    yield SUCCESS, _number(parts.get("success"), "count")
    yield FAILURE, _number(parts.get("fail"), "count")
    yield REQUEST_US, _number(parts.get("success"), "ns") / _NS_IN_US
    yield QUEUE_US, _number(parts.get("queue"), "ns") / _NS_IN_US
    yield COMPUTE_US, _number(parts.get("compute_infer"), "ns") / _NS_IN_US
    yield INFERENCES, _number(model, "inference_count")
    yield EXECUTIONS, _number(model, "execution_count")
    # Triton has these for every model; without a cache they are 0.
    hit, miss = parts.get("cache_hit"), parts.get("cache_miss")
    if _number(hit, "count") or _number(miss, "count"):
        yield CACHE_HITS, _number(hit, "count")
        yield CACHE_MISSES, _number(miss, "count")
        yield CACHE_HIT_US, _number(hit, "ns") / _NS_IN_US
        yield CACHE_MISS_US, _number(miss, "ns") / _NS_IN_US


def _number(part: object, key: str) -> float:
    # Triton leaves counters of 0 out.
    value = part.get(key, 0) if isinstance(part, Mapping) else 0
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise ValueError(f"{key} is not a number")  # noqa: TRY004 (bad data)
    return float(value)


def _labels(model: object) -> bytes:
    """Return the labels in the form of the metrics."""
    name = model.get("name") if isinstance(model, Mapping) else None
    if not isinstance(model, Mapping) or not isinstance(name, str):
        raise ValueError("an entry without a name")  # noqa: TRY004 (bad data)
    version = str(model.get("version") or "")
    return f'model="{_escaped(name)}",version="{_escaped(version)}"'.encode()


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
