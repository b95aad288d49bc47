"""``/metrics`` and ``/instances`` as bytes."""

import re
import time
from collections import Counter

import attrs
from fake_master import instance, reading, snapshot
from prometheus_client.parser import text_string_to_metric_families

from tarn.domain import Endpoint, Instance, InstanceState
from tarn.read.metrics import render_metrics
from tarn.read.snapshot import Snapshot, render_instances


def _samples(picture: Snapshot) -> dict[str, list[tuple[dict[str, str], float]]]:
    found: dict[str, list[tuple[dict[str, str], float]]] = {}
    for family in text_string_to_metric_families(render_metrics(picture).decode()):
        for sample in family.samples:
            found.setdefault(sample.name, []).append((sample.labels, sample.value))
    return found


def _three() -> Snapshot:
    gpu = {
        'gpu_utilization{gpu="GPU-1"}': 0.95,
        'gpu_utilization{gpu="GPU-2"}': 0.05,
        'gpu_memory_used_bytes{gpu="GPU-1"}': 8e9,
        "gpu_utilization": 0.5,
    }
    return attrs.evolve(
        snapshot(instance(1), instance(2), instance(3, InstanceState.DRAINING)),
        readings={
            "llama-0001": reading(1, pending=4.0, **gpu),
            "llama-0002": reading(2, pending=160.0),
            "llama-0003": reading(3),
        },
        event_totals={"TARN-1102": 3, "TARN-1105": 1},
    )


def test_the_seed_names_are_there_with_their_labels() -> None:
    """Dashboards of the Java TARN find what they ask for, and the ``_bytes`` twins."""
    samples = _samples(_three())
    one = {"container_id": "40001", "host": "127.0.0.1"}
    two = {"container_id": "40002", "host": "127.0.0.1"}
    assert samples["tarn_target_containers"] == [({}, 3.0)]
    assert samples["tarn_running_containers"] == [({}, 3.0)]
    assert samples["tarn_container_load"] == [(one, 0.5), (two, 1.0)]
    assert samples["tarn_container_queue_depth"] == [(one, 4.0), (two, 160.0)]
    assert samples["tarn_queue_depth_total"] == [({}, 164.0)]
    assert samples["tarn_gpu_utilization"] == [
        ({**one, "gpu": "GPU-1"}, 0.95),
        ({**one, "gpu": "GPU-2"}, 0.05),
    ]
    memory = [({**one, "gpu": "GPU-1"}, 8e9)]
    assert samples["tarn_gpu_memory_used"] == samples["tarn_gpu_memory_used_bytes"] == memory
    assert ({"state": "draining"}, 1.0) in samples["tarn_instances"]
    assert samples["tarn_container_startup_seconds"][0] == ({"container_id": "40001"}, 20.0)
    assert [one for one in samples["tarn_events_total"] if one[1]] == [
        ({"code": "TARN-1102", "severity": "info"}, 3.0),
        ({"code": "TARN-1105", "severity": "warning"}, 1.0),
    ]
    never = ({"code": "TARN-1112", "severity": "alert"}, 0.0)
    assert never in samples["tarn_events_total"]  # its first one will be seen to grow


def test_one_number_for_all_gpus_is_labelled_so() -> None:
    """Where a scrape tells no GPUs apart, ``gpu`` is ``all``; else the sum is left out."""
    picture = attrs.evolve(
        snapshot(instance(1)),
        readings={"llama-0001": reading(1, gpu_utilization=0.5, gpu_memory_used_bytes=8e9)},
    )
    labels = {"container_id": "40001", "host": "127.0.0.1", "gpu": "all"}
    assert _samples(picture)["tarn_gpu_utilization"] == [(labels, 0.5)]
    assert _samples(picture)["tarn_gpu_memory_used"] == [(labels, 8e9)]
    assert len(_samples(_three())["tarn_gpu_utilization"]) == 2


def test_each_family_is_declared_once() -> None:
    """Promtool refuses a second HELP or TYPE, and a TYPE after its samples."""
    lines = render_metrics(_three()).decode().splitlines()
    declared = Counter(line.split()[2] for line in lines if line.startswith("# TYPE"))
    assert set(declared.values()) == {1}
    seen = ""
    for line in lines:
        if line.startswith("# TYPE"):
            seen = line.split()[2]
        elif not line.startswith("#"):
            name = line.partition("{")[0].split()[0]
            assert re.fullmatch(f"{seen}(_bucket|_count|_sum)?", name)


def test_a_gauge_named_total_is_declared_without_a_type() -> None:
    """``tarn_queue_depth_total`` falls; its name is only kept for old dashboards."""
    assert "# TYPE tarn_queue_depth_total untyped\n" in render_metrics(_three()).decode()


def test_what_is_unknown_is_left_out() -> None:
    """No reading is no line, never 0."""
    samples = _samples(snapshot(instance(1)))
    for name in ("tarn_container_queue_depth", "tarn_container_load", "tarn_queue_depth_total"):
        assert name not in samples


def test_the_queue_of_a_lost_instance_is_gone() -> None:
    """With no instance left nothing can wait: that is a known 0."""
    lost = snapshot(desired=1, readings={"llama-0001": reading(1, pending=50.0)})
    assert _samples(lost)["tarn_queue_depth_total"] == [({}, 0.0)]


def test_labels_with_quotes_and_other_alphabets_come_back_whole() -> None:
    """Escapes as the format wants them, text in UTF-8."""
    odd = 'a"b\\c\nd été 模型'
    picture = attrs.evolve(
        snapshot(instance(1, container_id=odd)), readings={"llama-0001": reading(1, pending=1)}
    )
    assert _samples(picture)["tarn_container_queue_depth"][0][0]["container_id"] == odd


def test_only_members_of_the_view_are_in_the_text() -> None:
    """Cold, draining and suspect instances get no traffic."""
    picture = snapshot(
        instance(1),
        instance(2, InstanceState.DRAINING),
        instance(3, InstanceState.STARTING),
        instance(4, suspect="silent"),
        instance(5, endpoint=Endpoint("nm-12", 8000, 8001, 8002)),
    )
    assert render_instances(picture) == b"127.0.0.1:8010\nnm-12:8000\n"


def test_nobody_ready_is_an_empty_text() -> None:
    """Zero bytes, not an empty line."""
    assert render_instances(snapshot(Instance("a", "b"))) == b""


def test_ten_thousand_instances_are_rendered_in_seconds_at_most() -> None:
    """About five megabytes; three times looser than what was measured."""
    gpus = {f'gpu_utilization{{gpu="GPU-{n}"}}': 0.5 for n in range(4)}
    fleet = [instance(n) for n in range(10_000)]
    picture = attrs.evolve(
        snapshot(), instances=tuple(fleet), readings={i.id: reading(1, **gpus) for i in fleet}
    )
    start_s = time.thread_time()  # others may be at work on this machine
    text = render_metrics(picture)
    assert len(text) > 3_000_000
    assert time.thread_time() - start_s < 3.0
