"""The dashboards against the model of a dashboard that Grafana's makers publish for Python."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from grafana import dashboard
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard

from tarn.cluster.monitoring import DASHBOARDS

UNMODELLED = {
    "definition",  # of a variable: what its editor shows
    "builtIn",  # of Grafana's own annotations
    # of annotations by a query to a Prometheus
    "step",
    "tagKeys",
    "textFormat",
    "titleFormat",
    "useValueForTime",
}
"""What Grafana writes itself, and its model does not have."""


@pytest.mark.parametrize("name", DASHBOARDS)
def test_grafanas_model_has_every_field(name: str) -> None:
    """Read and written by it, all is as before: no field is misspelt, none of another panel."""
    register_default_plugins()
    plain = dashboard(name)
    again = json.loads(JSONEncoder().encode(Dashboard.from_json(plain)))
    lost = [path for path in _lost(plain, again) if path.rpartition("/")[2] not in UNMODELLED]
    assert lost == []


def test_a_misspelt_field_would_be_seen() -> None:
    """The model leaves out what it does not know."""
    register_default_plugins()
    plain = dashboard("fleet.json")
    panel = next(one for one in plain["panels"] if one["type"] == "timeseries")
    panel["fieldConfig"]["defaults"]["custom"]["lineWitdh"] = 1
    again = json.loads(JSONEncoder().encode(Dashboard.from_json(plain)))
    assert any(path.endswith("/lineWitdh") for path in _lost(plain, again))


def _lost(before: Any, after: Any, path: str = "") -> Iterator[str]:
    """Yield the path of everything in *before* that *after* has not, or otherwise."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key, value in before.items():
            if key in after:
                yield from _lost(value, after[key], f"{path}/{key}")
            else:
                yield f"{path}/{key}"
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for number, (one, other) in enumerate(zip(before, after, strict=True)):
            yield from _lost(one, other, f"{path}/{number}")
    elif before != after:
        yield path
