"""The metrics of one cluster, asked of its master."""

import math
from collections.abc import Iterator, Mapping
from typing import Any

from tarn.cluster.link import Link
from tarn.errors import UnreachableError
from tarn.plain.exposition import rows

__all__ = ["metrics_rows", "metrics_text"]


def metrics_text(link: Link) -> str:
    """Return the text of ``/metrics``, as Prometheus gets it.

    Raises:
        TarnError: There is no such cluster, or its master does not answer or let us in.
    """
    return link.ask(lambda api: api.text("/metrics"))


def metrics_rows(text: str) -> Iterator[Mapping[str, Any]]:
    """Yield ``{name, type, labels, value}`` for each sample of *text*.

    A value that is not a finite number is a string, as Prometheus writes it (``NaN``, ``+Inf``):
    JSON knows none.

    Raises:
        UnreachableError: The text is not one of metrics: nobody answered who is a master.
    """
    try:
        for row in rows(text):
            value = row.value if math.isfinite(row.value) else _no_number(row.value)
            yield {"name": row.name, "type": row.type, "labels": dict(row.labels), "value": value}
    except ValueError as error:
        raise UnreachableError(f"its metrics cannot be read: {error}") from error


def _no_number(value: float) -> str:
    return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"
