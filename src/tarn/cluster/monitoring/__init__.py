"""The metrics of one cluster, and the configuration of Prometheus and Grafana for them.

The alert rules and the dashboards are data files next to this module.
"""

import math
import re
from collections.abc import Iterator, Mapping
from importlib import resources
from typing import Any

import attrs

from tarn.cluster.link import Link
from tarn.cluster.monitoring.scrape import (
    Scrape,
    TargetFiles,
    follow_targets,
    scrape_config,
    scrape_of,
)
from tarn.errors import UnreachableError
from tarn.plain.problem import shown

__all__ = [
    "DASHBOARDS",
    "RULES",
    "MetricSample",
    "Scrape",
    "TargetFiles",
    "follow_targets",
    "metrics_rows",
    "metrics_text",
    "rows",
    "scrape_config",
    "scrape_of",
    "shipped",
]

_NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
_TYPED = re.compile(rf"# TYPE ({_NAME}) (\w+)")
_SAMPLE = re.compile(rf'({_NAME})(?:\{{((?:[^"}}]|"(?:[^"\\]|\\.)*+")*+)\}})? (\S+)(?: -?\d+)?')
_LABEL = re.compile(rf'\s*({_NAME})="((?:[^"\\]|\\.)*+)"\s*(?:,|\Z)')
_ESCAPE = re.compile(r"\\(.)")
_ESCAPED = {"n": "\n"}
_PARTS = ("_bucket", "_sum", "_count")


@attrs.frozen
class MetricSample:
    """One sample."""

    name: str
    type: str
    """The family's type: ``gauge``, ``counter``, ``histogram``, ``summary`` or ``untyped``."""
    labels: Mapping[str, str] = attrs.field(hash=False)
    value: float


def rows(text: str) -> Iterator[MetricSample]:
    """Yield each sample of *text*, in its order.

    Raises:
        ValueError: A line is neither a sample nor a comment.
    """
    types: dict[str, str] = {}
    for line in text.split("\n"):
        if line.startswith("#") or not line.strip():
            if (typed := _TYPED.fullmatch(line.strip())) is not None:
                types[typed[1]] = typed[2]
            continue
        found = _SAMPLE.fullmatch(line.strip())
        if found is None:
            raise ValueError(f"{shown(line, '')} is not a sample")
        name = found[1]
        yield MetricSample(name, _type(name, types), _labels(found[2] or ""), float(found[3]))


def _type(name: str, types: Mapping[str, str]) -> str:
    """Return the type of the sample's family, whose name may lack a suffix such as _sum."""
    if name in types:
        return types[name]
    for part in _PARTS:
        whole = name.removesuffix(part)
        if whole != name and types.get(whole) in {"histogram", "summary"}:
            return types[whole]
    return "untyped"


def _labels(text: str) -> dict[str, str]:
    labels, at = {}, 0
    while at < len(text):
        found = _LABEL.match(text, at)
        if found is None:
            raise ValueError(f"{shown(text, '')} is not a list of labels")
        labels[found[1]] = _ESCAPE.sub(lambda one: _ESCAPED.get(one[1], one[1]), found[2])
        at = found.end()
    return labels


# Alert rules of Prometheus.
RULES = ("tarn-alerts.yaml",)
# Dashboards of Grafana: for one cluster, and for all clusters of one Prometheus.
DASHBOARDS = ("fleet.json", "farm.json")
# JSON has no such numbers: they become strings, spelled as Prometheus does.
_NO_NUMBERS = {"nan": "NaN", "inf": "+Inf", "-inf": "-Inf"}


def shipped(name: str) -> str:
    """Return the text of the data file *name*."""
    return resources.files(__name__).joinpath(name).read_text("utf-8")


def metrics_text(link: Link) -> str:
    """Return the text of ``/metrics``, as Prometheus gets it.

    Raises:
        TarnError: There is no such cluster, or its master does not answer, or denies access.
    """
    return link.ask(lambda api: api.text("/metrics"))


def metrics_rows(text: str) -> Iterator[Mapping[str, Any]]:
    """Yield ``{name, type, labels, value}`` for each sample of *text*.

    A value that is not a finite number is a string, as Prometheus writes it (``NaN``, ``+Inf``).

    Raises:
        UnreachableError: *text* is not in Prometheus' format, so no master answered.
    """
    try:
        for row in rows(text):
            value = row.value if math.isfinite(row.value) else _NO_NUMBERS[str(row.value)]
            yield {"name": row.name, "type": row.type, "labels": dict(row.labels), "value": value}
    except ValueError as error:
        raise UnreachableError(f"its metrics cannot be read: {error}") from error
