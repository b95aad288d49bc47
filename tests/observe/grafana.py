"""What Grafana would ask a Prometheus for, by the JSON of a dashboard."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import attrs

from tarn.cluster.monitoring import shipped

__all__ = ["Query", "dashboard", "panels", "queries", "substituted"]

_VARIABLE = re.compile(r"\$\{?(\w+)(?::\w+)?\}?")


@attrs.frozen
class Query:
    """One query of one panel, as it is written there."""

    where: str
    expr: str
    instant: bool


def dashboard(name: str) -> dict[str, Any]:
    """Return a dashboard that is shipped."""
    found: dict[str, Any] = json.loads(shipped(name))
    return found


def panels(plain: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield every panel that shows something, those in a folded row too."""
    for panel in plain["panels"]:
        if panel["type"] != "row":
            yield panel
        yield from panel.get("panels", ())


def queries(plain: Mapping[str, Any]) -> Iterator[Query]:
    """Yield every query, those of annotations too."""
    for panel in panels(plain):
        for target in panel.get("targets", ()):
            where = f"{panel['title']} {target['refId']}"
            yield Query(where, target["expr"], bool(target.get("instant")))
    for note in plain["annotations"]["list"]:
        if "expr" in note:
            yield Query(note["name"], note["expr"], instant=False)


def substituted(expr: str, values: Mapping[str, str]) -> str:
    """Put the variables' values in, as Grafana does; one that has none is a failure."""
    return _VARIABLE.sub(lambda found: values[found[1]], expr)
