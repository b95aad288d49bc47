"""How fast ``/metrics`` of many instances is written, by us and by prometheus_client."""

import statistics
import time
from collections.abc import Callable, Iterable, Iterator

import attrs
from bench.row import Row
from fake_master import instance, reading, snapshot
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from tarn.domain.counters import CounterSet
from tarn.domain.model_totals import ModelTotals, ModelTotalsHistory
from tarn.read.metrics import own, render_metrics
from tarn.read.metrics.exposition import own_text
from tarn.read.metrics.instance_text import InstanceText
from tarn.read.snapshot import Snapshot

ROUNDS = 15
INSTANCES = 1000


class ReadyFamilies(Collector):
    """Families that are made already: what is measured is how they are written, and no more."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = tuple(families)

    def collect(self) -> Iterator[Metric]:
        """Yield all of them."""
        yield from self._families


def exposition_rows() -> list[Row]:
    """Measure ``/metrics`` of a thousand instances with a GPU each: CPU time of one thread.

    Interleaved: the first time; again, with new readings that say the same; again, with another
    queue in each; all of it by prometheus_client, which gets families that are made already, so
    that it is measured at its best; and the master's own families alone.
    """
    some, kept = thousand(), InstanceText()
    same, other = thousand(), thousand(pending=2.0)
    render_metrics(some, kept)
    ready = CollectorRegistry()
    ready.register(ReadyFamilies(text_string_to_metric_families(render_metrics(some).decode())))
    work: dict[str, Callable[[], object]] = {
        "whole": lambda: render_metrics(some),
        "theirs": lambda: generate_latest(ready),
        "own": lambda: own_text(own.FAMILIES, some, openmetrics=False),
        "other": lambda: render_metrics(other, kept),
        "one": lambda: render_metrics(some, kept),
        "same": lambda: render_metrics(same, kept),
    }
    took_s: dict[str, list[float]] = {name: [] for name in work}
    for _ in range(ROUNDS):
        for name, make in work.items():
            begun_s = time.thread_time()
            make()
            took_s[name].append(time.thread_time() - begun_s)
    ms = {name: statistics.median(each) * 1e3 for name, each in took_s.items()}
    lines = render_metrics(some).count(b"\n")
    title = f"/metrics of {INSTANCES:,} instances"
    than = "prometheus_client, from families that are made already"
    return [
        Row(
            f"{title}, {lines:,} lines, the first time, CPU",
            ms["whole"],
            "ms",
            20.0,
            than,
            ms["theirs"],
        ),
        Row(f"{title}, again, each with another queue, CPU", ms["other"], "ms"),
        Row(f"{title}, again, each read again and unchanged, CPU", ms["same"], "ms"),
        Row(f"{title}: the master's own families, by prometheus_client", ms["own"], "ms"),
    ]


def thousand(pending: float = 1.0) -> Snapshot:
    """Return a picture of a thousand instances with five models."""
    fleet = tuple(instance(number) for number in range(INSTANCES))
    gpu = {f'{name}{{gpu="GPU-1"}}': 8e9 for name in ("gpu_memory_used_bytes", "gpu_utilization")}
    readings = {i.id: reading(1, pending=pending, executing=1.0, **gpu) for i in fleet}
    totals = {f"m{n}": ModelTotals(CounterSet(9.0, 2.0, 8e6, 1e5), 3.0, 1) for n in range(5)}
    models = ModelTotalsHistory(((0.0, totals), (5.0, totals)))
    return attrs.evolve(snapshot(*fleet), readings=readings, models=models)
