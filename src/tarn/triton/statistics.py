"""Triton's statistics (``GET /v2/models/stats``) as the same counters that its metrics have. Pure.

They come over the HTTP port, so they are there where the metrics are switched off or cannot be
reached. They lack the pending requests and the GPUs.

Source: Triton ``docs/protocol/extension_statistics.md``; answers of Triton 2.51.
"""

import json
from collections.abc import Iterator, Mapping

from tarn.triton.metrics import (
    COMPUTE_US,
    EXECUTIONS,
    FAILURE,
    INFERENCES,
    QUEUE_US,
    REQUEST_US,
    SUCCESS,
    TritonMetrics,
)

__all__ = ["parse_statistics"]

_NS_IN_US = 1000


def parse_statistics(body: bytes) -> TritonMetrics:
    """Return the counters of each model and version.

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
    return TritonMetrics({family: tuple(rows) for family, rows in series.items()})


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


def _number(part: object, key: str) -> float:
    """Return a counter; Triton leaves out what is 0."""
    value = part.get(key, 0) if isinstance(part, Mapping) else 0
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise ValueError(f"{key} is not a number")  # noqa: TRY004 (bad data)
    return float(value)


def _labels(model: object) -> bytes:
    """Return the labels as Triton's metrics write them."""
    name = model.get("name") if isinstance(model, Mapping) else None
    if not isinstance(model, Mapping) or not isinstance(name, str):
        raise ValueError("an entry without a name")  # noqa: TRY004 (bad data)
    version = str(model.get("version") or "")
    return f'model="{_escaped(name)}",version="{_escaped(version)}"'.encode()


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
