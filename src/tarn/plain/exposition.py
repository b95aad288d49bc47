"""The text of ``/metrics`` as rows. Pure.

Source: Prometheus "Exposition formats", text version 0.0.4.
"""

import re
from collections.abc import Iterator, Mapping

import attrs

from tarn.plain.problem import shown

__all__ = ["MetricSample", "rows"]

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
    """Of its family: ``gauge``, ``counter``, ``histogram``, ``summary`` or ``untyped``."""
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
    """Return the type of the family that the sample *name* belongs to."""
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
