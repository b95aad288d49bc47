"""Models by row, targets for Prometheus, and the format that ``Accept`` asks for."""

import threading
from collections.abc import Iterator

import attrs
import httpx
import pytest
from fake_master import (
    FakeMaster,
    PolicyAuthorizer,
    instance,
    reading,
    snapshot,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from tarn.domain import Endpoint, InstanceState
from tarn.domain.counters import CounterSet
from tarn.domain.model_totals import OTHER, ModelTotals, ModelTotalsHistory
from tarn.http import pages
from tarn.http.answers import wants_openmetrics
from tarn.http.blocking_pool import DirectAuthorizer
from tarn.http.render_details import models_json, sd_json
from tarn.http.visibility import NOTHING, VisibilityFilter
from tarn.read.metrics import OPENMETRICS, PROMETHEUS, render_metrics

BY_PROMETHEUS = (
    "application/openmetrics-text;version=1.0.0,"
    "application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
)
"""What Prometheus 2.42 sends."""
SEEN = ModelTotalsHistory(
    (
        (0.0, {"echo": ModelTotals(CounterSet(1.0)), "payroll": ModelTotals()}),
        (
            4.0,
            {
                "echo": ModelTotals(CounterSet(9.0, 2.0, 8e6, 1e5), 3.0, 1),
                "payroll": ModelTotals(CounterSet(7.0)),
            },
        ),
    )
)


@pytest.fixture(scope="module")
def master() -> Iterator[FakeMaster]:
    with FakeMaster(snapshot(instance(1), models=SEEN), api_token=None) as one:
        yield one


@pytest.fixture(scope="module")
def web(master: FakeMaster) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=master.url, trust_env=False) as client:
        yield client


@pytest.mark.parametrize(
    ("accept", "openmetrics"),
    [
        ("", False),
        ("*/*", False),
        ("text/plain", False),
        (BY_PROMETHEUS, True),
        ("application/openmetrics-text;q=0.4, text/plain;q=0.5", False),
        ("application/openmetrics-text;q=0", False),
        ("APPLICATION/OpenMetrics-Text", True),
    ],
)
def test_the_accept_header_chooses_the_format(accept: str, openmetrics: bool) -> None:
    """OpenMetrics only for who asks for it, and not less than for the other."""
    assert wants_openmetrics(accept) is openmetrics


def test_prometheus_gets_openmetrics_and_everybody_else_the_text(web: httpx.Client) -> None:
    """Each with its type; a cache on the way must know that there are two."""
    plain = web.get("/metrics")
    opened = web.get("/metrics", headers={"Accept": BY_PROMETHEUS})
    assert (plain.headers["content-type"], opened.headers["content-type"]) == (
        PROMETHEUS,
        OPENMETRICS,
    )
    assert "accept" in opened.headers["vary"].lower()
    assert opened.text.endswith("# EOF\n")
    assert list(text_string_to_metric_families(opened.text))
    assert "tarn_target_containers 1.0\n" in plain.text


def test_the_text_is_made_once_of_each_picture(
    master: FakeMaster, web: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many ask, also at once; and never on the thread that answers."""
    made: list[str] = []
    lock = threading.Lock()

    def counted(*given: object, **more: object) -> bytes:
        with lock:
            made.append(threading.current_thread().name)
        return render_metrics(*given, **more)

    monkeypatch.setattr(pages, "render_metrics", counted)
    master.publish(desired=5)
    askers = [threading.Thread(target=web.get, args=("/metrics",)) for _ in range(8)]
    for asker in askers:
        asker.start()
    for asker in askers:
        asker.join()
    assert "tarn_target_containers 5.0\n" in web.get("/metrics").text
    assert len(made) == 1
    assert "http" not in made[0]
    master.publish(desired=1)
    assert "tarn_target_containers 1.0\n" in web.get("/metrics").text


def test_models_are_rows_with_their_states_and_rates(web: httpx.Client) -> None:
    """Means of the last seconds; null where nothing is known."""
    (row,) = web.get("/api/v1/models").json()["models"]
    assert row == {
        "name": "echo",
        "state": "READY",
        "instances": [{"id": "llama-0001", "state": "READY", "reason": ""}],
        "requests_per_s": 2.0,
        "failures_per_s": 0.5,
        "latency_ms": 1000.0,
        "queue_ms": 12.5,
        "busy": pytest.approx(3.0 + 1.975),
        "first_response_ms": None,
        "cache_hit_share": None,
    }


def test_a_model_is_as_good_as_where_it_is_worst() -> None:
    """A word of Triton's that nobody knows is shown before all others."""
    states = ["READY", "LOADING", "UNAVAILABLE", "ODD"]
    for place, state in enumerate(states):
        models = [(("echo", each, ""),) for each in states[: place + 1]]
        some = (instance(n, models=m) for n, m in enumerate(models))
        (row,) = models_json(snapshot(*some))
        assert row["state"] == state
        assert row["requests_per_s"] is None


def test_every_instance_with_an_address_is_a_target(web: httpx.Client) -> None:
    """In the shape of Prometheus' HTTP service discovery: labels are texts, IPv6 in brackets."""
    answer = web.get("/api/v1/sd")
    assert answer.headers["content-type"] == "application/json"
    (target,) = answer.json()
    assert target["targets"] == ["127.0.0.1:8012"]
    assert target["labels"]["__meta_tarn_instance"] == "llama-0001"
    fleet = (
        instance(1, InstanceState.STARTING, endpoint=Endpoint("fd00::1", 8000, 8001, 8002)),
        instance(2, InstanceState.REQUESTED, endpoint=None, container_id=None, node=None),
    )
    (only,) = sd_json(snapshot(*fleet))
    assert only["targets"] == ["[fd00::1]:8002"]
    assert all(isinstance(text, str) for text in only["labels"].values())
    assert only["labels"]["__meta_tarn_state"] == "starting"


def test_hidden_models_stand_neither_in_rows_nor_in_series_nor_in_the_rest() -> None:
    """Also one that Triton counts and no instance's index names; and not within ``_other``."""
    rights = {("anonymous", "view", ""), ("anonymous", "list", "echo")}
    rights |= {("anonymous", "metadata", "echo")}
    looks = attrs.evolve(
        SEEN,
        looks=((0.0, {}), (1.0, {**SEEN.newest, OTHER: ModelTotals(CounterSet(5.0))})),
        others=3,
    )
    gate = DirectAuthorizer(PolicyAuthorizer(rights=rights))
    some = snapshot(instance(1), readings={"llama-0001": reading(1, pending=1.0)}, models=looks)
    with FakeMaster(some, api_token=None, gate=gate) as master:
        answers = [
            httpx.get(f"{master.url}{path}", trust_env=False, headers={"Accept": accept}).text
            for path in ("/metrics", "/api/v1/models", "/api/v1/sd")
            for accept in ("*/*", BY_PROMETHEUS)
        ]
    for text in answers:
        assert "payroll" not in text
        assert f'"{OTHER}"' not in text
    assert 'tarn_inference_requests_total{model="echo",status="success"} 9\n' in answers[0]
    assert "\ntarn_models_other " not in answers[0]
    assert answers[1].endswith("# EOF\n")


NAMES = st.text(st.characters(codec="utf-8"), min_size=1, max_size=8)


@settings(max_examples=60, deadline=None)
@given(names=st.sets(NAMES, min_size=1, max_size=4), data=st.data())
def test_whatever_a_hidden_model_is_called_its_series_are_left_out(
    names: set[str], data: st.DataObject
) -> None:
    """And those of every other model stay, in both formats; nothing is half left out."""
    hidden = data.draw(st.sets(st.sampled_from(sorted(names)), min_size=1))
    shown = names - hidden - {OTHER}
    looks = ModelTotalsHistory(((0.0, {name: ModelTotals(CounterSet(1.0)) for name in names}),))
    models = tuple((name, "READY", "") for name in sorted(names))
    picture = snapshot(instance(1, models=models), models=looks)
    text = render_metrics(picture, openmetrics=True)
    seen = VisibilityFilter(frozenset(hidden)).metrics(text)
    found = {
        sample.labels["model"]
        for family in text_string_to_metric_families(seen.decode())
        for sample in family.samples
        if "model" in sample.labels
    }
    assert found == shown
    assert NOTHING.metrics(text) is text
