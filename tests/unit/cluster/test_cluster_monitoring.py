"""The dashboards and alert rules by themselves: complete, and about metrics that there are."""

import json
import re
from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import Any

import pytest
import yaml

from tarn.cli.verbs import VERBS
from tarn.cluster.monitoring import DASHBOARDS, RULES, shipped
from tarn.read.metrics import FAMILIES

UNITS = {"short", "percentunit", "reqps", "s", "bytes"}
KINDS = {"row", "stat", "timeseries", "table"}
METRIC = re.compile(r"\b(?:tarn|nv)_[a-z0-9_]+")
PARTS = {"histogram": ("_bucket", "_sum", "_count"), "summary": ("_sum", "_count")}
LABELS_EVERYWHERE = {"cluster", "job", "instance", "alertname", "alertstate", "le", "severity"}

Json = Mapping[str, Any]


@pytest.fixture(params=DASHBOARDS)
def dashboard(request: pytest.FixtureRequest) -> Json:
    """Each of them."""
    return json.loads(shipped(request.param))


def expressions(dashboard: Json) -> Iterator[str]:
    """Yield every query of a dashboard."""
    for panel in dashboard["panels"]:
        for target in panel.get("targets", ()):
            yield target["expr"]
    yield from (one["expr"] for one in dashboard["annotations"]["list"] if "expr" in one)


def rules() -> Iterator[Json]:
    """Yield every rule."""
    for name in RULES:
        for group in yaml.safe_load(shipped(name))["groups"]:
            yield from group["rules"]


def names() -> dict[str, set[str]]:
    """Return every name that a master gives, with its labels."""
    found = {}
    for family in FAMILIES:
        for part in PARTS.get(str(family.kind), ("",)):
            found[family.name + part] = set(family.labels)
    return found


def test_a_dashboard_can_be_imported_anywhere(dashboard: Json) -> None:
    """It asks for its Prometheus, brings no number of another Grafana's, and says what it needs."""
    assert "id" not in dashboard
    assert re.fullmatch(r"[a-zA-Z0-9_-]{1,40}", dashboard["uid"])
    assert dashboard["schemaVersion"] >= 36
    first, *others = dashboard["templating"]["list"]
    assert (first["type"], first["query"], first["name"]) == (
        "datasource",
        "prometheus",
        "datasource",
    )
    asked = [one["datasource"] for one in others]
    asked += [p["datasource"] for p in dashboard["panels"] if p["type"] != "row"]
    asked += [t["datasource"] for p in dashboard["panels"] for t in p.get("targets", ())]
    assert all(one == {"type": "prometheus", "uid": "${datasource}"} for one in asked)


def test_each_panel_is_whole(dashboard: Json) -> None:
    """A number of its own, a title, words that say what it means, queries, and a known unit."""
    panels = dashboard["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    for panel in panels:
        assert panel["type"] in KINDS
        assert panel["title"]
        if panel["type"] == "row":
            continue
        assert panel["description"].endswith("."), panel["title"]
        assert panel["fieldConfig"]["defaults"]["unit"] in UNITS, panel["title"]
        assert panel["targets"], panel["title"]
        letters = [target["refId"] for target in panel["targets"]]
        assert letters == sorted(set(letters)), panel["title"]
        assert all(target["expr"].strip() for target in panel["targets"]), panel["title"]
        assert all(bool(t.get("instant")) != bool(t.get("range")) for t in panel["targets"])


def test_no_panel_lies_on_another(dashboard: Json) -> None:
    """And none is wider than the page, which is 24."""
    places = [panel["gridPos"] for panel in dashboard["panels"]]
    assert all(place["x"] + place["w"] <= 24 for place in places)
    for one, other in combinations(places, 2):
        beside = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        below = one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
        assert beside or below, (one, other)


def test_every_query_is_about_the_chosen_cluster(dashboard: Json) -> None:
    """Every metric in it is held to the variable; else it would add up what is not asked for."""
    multi = dashboard["templating"]["list"][1]["multi"]
    held = 'cluster=~"$cluster"' if multi else 'cluster="$cluster"'
    for expr in expressions(dashboard):
        metrics = re.findall(r"\b(?:(?:tarn|nv)_[a-z0-9_]+|up|ALERTS)\b(?=\{|\[| |\)|$)", expr)
        assert len(metrics) == expr.count(held) > 0, expr


def test_every_metric_is_one_that_a_master_gives(dashboard: Json) -> None:
    """Those of Triton itself begin with `nv_`."""
    for expr in expressions(dashboard):
        _known(expr)


def test_legends_name_labels_that_the_query_keeps(dashboard: Json) -> None:
    """A legend of another label would be empty."""
    for panel in dashboard["panels"]:
        for target in panel.get("targets", ()):
            for label in re.findall(r"\{\{(\w+)\}\}", target.get("legendFormat", "")):
                assert label in _labels(target["expr"]), (panel["title"], target["expr"])


def test_variables_of_links_are_there() -> None:
    """From the row of a cluster to its own dashboard."""
    farm, fleet = (json.loads(shipped(name)) for name in ("farm.json", "fleet.json"))
    assert f"/d/{fleet['uid']}?var-cluster=" in shipped("farm.json")
    assert fleet["links"][0]["url"] == f"/d/{farm['uid']}"


@pytest.mark.parametrize("rule", tuple(rules()), ids=lambda rule: rule["alert"])
def test_a_rule_says_what_is_wrong_and_what_to_do(rule: Json) -> None:
    """Its cluster's name stands in it, and the commands that it names exist."""
    assert rule["alert"].startswith("Tarn")
    assert rule["labels"]["severity"] in {"critical", "warning"}
    words = rule["annotations"]
    assert set(words) == {"summary", "description", "next_step"}
    assert "{{ $labels.cluster }}" in " ".join(words.values())
    for text in words.values():
        for verb in re.findall(r"`tarn (\w+)", text):
            assert verb in VERBS, text
        for label in re.findall(r"\$labels\.(\w+)", text):
            assert label in _labels(rule["expr"]), (label, rule["expr"])


@pytest.mark.parametrize("rule", tuple(rules()), ids=lambda rule: rule["alert"])
def test_a_rule_is_about_metrics_that_a_master_gives(rule: Json) -> None:
    """Else it would never fire."""
    _known(rule["expr"])


def test_each_alert_has_a_name_of_its_own() -> None:
    """Silences and routes are by name."""
    given = [rule["alert"] for rule in rules()]
    assert len(set(given)) == len(given)


def _known(expr: str) -> None:
    for metric in METRIC.findall(expr):
        assert metric.startswith("nv_") or metric in names(), expr


def _labels(expr: str) -> set[str]:
    """Return the labels that the result of *expr* may have."""
    grouped = re.findall(r"\bby \(([^)]*)\)", expr)
    if grouped:
        return {label.strip() for label in grouped[0].split(",")}
    known = names()
    of_metrics = [known[metric] for metric in METRIC.findall(expr) if metric in known]
    return set.union(LABELS_EVERYWHERE, *of_metrics)
