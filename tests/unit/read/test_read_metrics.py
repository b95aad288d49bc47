"""``/metrics`` in both formats: what each parser reads, and what stands in it."""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest
from fake_master import event, instance, reading, snapshot
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import (
    text_string_to_metric_families as open_families,
)
from prometheus_client.parser import text_string_to_metric_families as families

from tarn.domain import Epoch, InstanceState, Known, Limits, Pause, Unknown
from tarn.domain.counters import CounterSet
from tarn.domain.fleet import DemandReport
from tarn.domain.model_totals import MOST_MODELS, OTHER, ModelTotals, ModelTotalsHistory
from tarn.domain.tally import Tally
from tarn.read.metrics import FAMILIES, Family, render_metrics
from tarn.read.metrics.exposition import MetricType
from tarn.read.snapshot import Follower, SignalStatus, Snapshot

ODD = 'a"b\\c\nd\r\x00 été 模型{}, model="x"'


def full() -> Snapshot:
    """A picture in which each family has samples."""
    gpu = {f'{name}{{gpu="GPU-1"}}': 0.5 for name in ("gpu_utilization",)}
    memory = ("gpu_memory_used_bytes", "gpu_memory_total_bytes")
    gpu |= {f'{name}{{gpu="GPU-1"}}': 8e9 for name in memory}
    models = (("echo", "READY", ""), (ODD, "UNAVAILABLE", "no such file"))
    before = {"echo": ModelTotals(CounterSet(1.0)), ODD: ModelTotals()}
    cached = {"cache_hits": 6.0, "cache_misses": 2.0, "cache_hit_us": 600.0, "cache_miss_us": 4e4}
    timed = {"first_responses": 4.0, "first_response_us": 2e6}
    after = {
        "echo": ModelTotals(CounterSet(9.0, 2.0, 8e6, 1e5, **cached, **timed), 3.0, 1),
        ODD: ModelTotals(CounterSet(1.0)),
    }
    tally = Tally(1.7e9, decisions={("policy", "up"): 2}).ticked(0.004).was_late()
    return attrs.evolve(
        snapshot(
            instance(1, models=models),
            instance(2, InstanceState.DRAINING),
            instance(3, container_id=ODD, suspect="silent"),
        ),
        readings={
            "llama-0001": reading(1, pending=3.0, executing=1.5, **gpu),
            "llama-0003": reading(3, pending=1.0),
        },
        limits=Limits(1, 8, 4),
        pause=Pause(1.8e9, "load test"),
        demand=DemandReport("lb1", 3, 990.0),
        followers=(
            Follower("lb1", True, 2, 1.5, behind_s=4.0, sessions=7, error="no quorum"),
            Follower("zk", True, -1, None),
        ),
        signals=(
            SignalStatus("queue_time", Known(0.25), 1.0, "s", "metrics", True),
            SignalStatus("request_time", Unknown("no"), 1.0, "s", "metrics", True),
            SignalStatus('brought{model="payroll"}', Known(1.0), 1.0, "", "a plugin", True),
        ),
        event_totals={"TARN-1100": 3, "TARN-1105": 1, "TARN-0000": 1},
        events=(event("x"),),
        models=ModelTotalsHistory(((0.0, before), (5.0, after)), 4),
        tally=tally,
    )


def samples(picture: Snapshot) -> Iterator[tuple[str, dict[str, str], float]]:
    """Yield what both parsers read; they must agree."""
    plain = families(render_metrics(picture).decode())
    opened = open_families(render_metrics(picture, openmetrics=True).decode())
    one = [(s.name, s.labels, s.value) for family in plain for s in family.samples]
    other = [(s.name, s.labels, s.value) for family in opened for s in family.samples]
    assert one == other
    yield from one


def of(picture: Snapshot, name: str) -> list[tuple[dict[str, str], float]]:
    return [(labels, value) for found, labels, value in samples(picture) if found == name]


def test_both_formats_say_the_same_of_every_family() -> None:
    """Read by the reference's parsers; in OpenMetrics a counter's family has no suffix."""
    picture = full()
    named = {name for name, _, _ in samples(picture)}
    for family in FAMILIES:
        assert any(name.startswith(family.name) for name in named), family.name
    plain = render_metrics(picture).decode()
    opened = render_metrics(picture, openmetrics=True).decode()
    assert "# EOF" not in plain
    assert opened.endswith("\n# EOF\n")
    assert "# TYPE tarn_events counter\n" in opened
    assert "# TYPE tarn_queue_depth_total unknown\n" in opened
    assert "# TYPE tarn_cluster info\n" in opened


def test_names_types_and_labels_are_those_that_dashboards_know() -> None:
    """Whoever writes a family: what stood in the text before prometheus_client wrote a part."""
    rows = {
        f"{sample.name} {family.type} {','.join(sorted(sample.labels))}".strip()
        for family in families(render_metrics(full()).decode())
        for sample in family.samples
    }
    golden = Path(__file__).parents[2] / "data" / "metrics_of_a_master.txt"
    assert sorted(rows) == golden.read_text("utf-8").splitlines()


def test_text_that_utf_8_cannot_hold_spoils_nothing() -> None:
    """A lone surrogate, as a name of bytes that are none of its letters brings one."""
    odd = "a\udc80b"
    some = attrs.evolve(full(), name=odd, followers=(Follower(odd, True, 2, 1.5),))
    assert of(some, "tarn_cluster_info")[0][0]["name"] == "a?b"
    assert of(some, "tarn_follower_lost") == [({"follower": "a?b", "required": "true"}, 0.0)]


@pytest.mark.skipif(shutil.which("promtool") is None, reason="no promtool here")
def test_promtool_finds_nothing() -> None:
    """Its exit code is 3 where it would have a name otherwise."""
    done = subprocess.run(
        ["promtool", "check", "metrics"],
        input=render_metrics(full()),
        capture_output=True,
        check=False,
        timeout=30,
    )
    assert (done.returncode, (done.stdout + done.stderr).decode()) == (0, "")


def test_the_table_keeps_the_rules_of_names() -> None:
    """Each name once; only a counter ends in ``_total``, but for the one without a type."""
    names = [family.name for family in FAMILIES]
    assert len(names) == len(set(names))
    for family in FAMILIES:
        total = family.name.endswith("_total")
        assert total is (family.kind is MetricType.COUNTER) or family.kind is MetricType.UNTYPED, (
            family
        )
        assert family.text.endswith(".")
        assert "\n" not in family.text


def test_the_labels_of_the_table_are_those_of_the_samples() -> None:
    """The reference, which is made of the table, tells the truth."""
    table: dict[str, Family] = {family.name: family for family in FAMILIES}
    for name, labels, _ in samples(full()):
        family = table.get(name) or table[name.rpartition("_")[0]]
        assert labels.keys() - {"le"} == set(family.labels), name
        if family.words:
            assert labels[family.labels[-1]] in family.words, name


def test_models_have_requests_times_and_states() -> None:
    """Sums and counts as Triton gives them, no quantile made up."""
    picture = full()
    echo = {"model": "echo"}
    requests = of(picture, "tarn_inference_requests_total")
    assert ({**echo, "status": "success"}, 9.0) in requests
    assert ({**echo, "status": "error"}, 2.0) in requests
    assert (echo, 8.0) in of(picture, "tarn_inference_latency_seconds_sum")
    assert (echo, 0.1) in of(picture, "tarn_inference_queue_seconds_sum")
    assert of(picture, "tarn_model_queue_depth") == [(echo, 3.0)]
    assert (echo, 0.2) in of(picture, "tarn_model_error_rate")
    assert ({**echo, "state": "READY"}, 3.0) in of(picture, "tarn_model_instances")
    assert ({"model": ODD, "state": "UNAVAILABLE"}, 1.0) in of(picture, "tarn_model_instances")
    assert of(picture, "tarn_models_other") == [({}, 4.0)]


def test_many_models_are_few_series() -> None:
    """Beyond the bound, and with names that cannot be one, they are summed."""
    names = [f"m{number:05d}" for number in range(MOST_MODELS + 20)] + ["x" * 300, OTHER]
    models = tuple((name, "READY", "") for name in names)
    picture = snapshot(instance(1, models=models))
    rows = of(picture, "tarn_model_instances")
    assert len({labels["model"] for labels, _ in rows}) == MOST_MODELS + 1
    assert ({"model": OTHER, "state": "READY"}, 22.0) in rows
    assert of(picture, "tarn_models_other") == [({}, 22.0)]


def test_followers_show_how_far_they_are_behind() -> None:
    """One that never came has no revision and no age, only that it is not lost."""
    picture = full()
    lb = {"follower": "lb1", "required": "true"}
    assert of(picture, "tarn_follower_lag_revisions") == [(lb, 1.0)]
    assert of(picture, "tarn_follower_lag_seconds") == [(lb, 4.0)]
    assert of(picture, "tarn_follower_sessions") == [(lb, 7.0)]
    assert of(picture, "tarn_follower_failing")[0] == (lb, 1.0)
    assert len(of(picture, "tarn_follower_lost")) == 2


def test_signals_of_plugins_are_left_out_and_unknown_ones_too() -> None:
    """Their names may hold models; a number is made of neither."""
    assert of(full(), "tarn_signal") == [({"signal": "queue_time"}, 0.25)]
    assert b"payroll" not in render_metrics(full())


def test_histograms_have_every_bucket_and_end_in_infinity() -> None:
    """As ``histogram_quantile`` needs them: rising, and the last is the count."""
    buckets = of(full(), "tarn_tick_duration_seconds_bucket")
    counts = [value for _, value in buckets]
    assert counts == sorted(counts)
    assert buckets[-1] == ({"le": "+Inf"}, 1.0)
    assert of(full(), "tarn_tick_duration_seconds_count") == [({}, 1.0)]


def test_the_dead_leave_no_series() -> None:
    """An instance that ended stands in ``ended`` and in old readings, and in no line."""
    dead = instance(7, InstanceState.FAILED)
    picture = attrs.evolve(
        full(), ended=(dead,), readings={**full().readings, dead.id: reading(7, pending=5.0)}
    )
    text = render_metrics(picture).decode()
    assert dead.container_id not in text
    assert dead.id not in text


def test_caches_and_first_responses_are_told_where_a_model_has_them() -> None:
    """Hits and misses are one family, so that a share needs no join; ODD has neither."""
    picture = full()
    echo = {"model": "echo"}
    assert of(picture, "tarn_cache_lookups_total") == [
        (echo | {"result": "hit"}, 6.0),
        (echo | {"result": "miss"}, 2.0),
    ]
    assert of(picture, "tarn_cache_lookup_seconds_total") == [
        (echo | {"result": "hit"}, 0.0006),
        (echo | {"result": "miss"}, 0.04),
    ]
    assert of(picture, "tarn_inference_first_response_seconds_count") == [(echo, 4.0)]
    assert of(picture, "tarn_inference_first_response_seconds_sum") == [(echo, 2.0)]


TEXT = st.text(st.characters(codec="utf-8"), max_size=12)


@settings(max_examples=60, deadline=None)
@given(name=TEXT, model=TEXT.filter(lambda t: t != OTHER), host=TEXT, epoch=st.integers(0, 9))
def test_any_text_in_a_label_comes_back_whole_in_both_formats(
    name: str, model: str, host: str, epoch: int
) -> None:
    """Quotes, backslashes, braces, line ends of every kind, any alphabet."""
    picture = attrs.evolve(
        snapshot(instance(1, container_id=name or "c", models=((model, "READY", ""),))),
        name=name,
        epoch=Epoch(epoch, 1),
        readings={"llama-0001": reading(1, pending=1.0)},
        models=ModelTotalsHistory(((0.0, {model: ModelTotals(CounterSet(1.0))}),)),
        followers=(Follower(host, False, 1, 1.0),),
    )
    assert of(picture, "tarn_cluster_info")[0][0]["name"] == name
    assert of(picture, "tarn_container_queue_depth")[0][0]["container_id"] == (name or "c")
    assert of(picture, "tarn_inference_latency_seconds_count") == [({"model": model}, 1.0)]
    assert of(picture, "tarn_model_instances")[0][0]["model"] == model
    assert of(picture, "tarn_follower_lost")[0][0]["follower"] == host
