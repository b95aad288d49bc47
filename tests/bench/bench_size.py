"""What one master costs, and how fresh it is, with 500 to 3,000 instances."""

import statistics
import tempfile
import threading
import time
from pathlib import Path

from bench.bench_http import asked
from bench.large_master import API_TOKEN, LargeMaster
from bench.row import Row

from tarn.testing.fake_fleet import FakeFleet

SIZES = (500, 1000, 2000, 3000)
LASTS_S = 10.0
# Looks at the ages, and requests for /metrics, in that time.
AGES, RATE = 10, 10
FIRST_AIM_S, METRICS_AIM_MS, AGE_AIM_S = 5.0, 50.0, 2.5
LARGE = 2000


def whole_masters() -> list[Row]:
    """Measure a whole master over fakes at each size, one after the other."""
    return [row for size in SIZES for row in _of_size(size)]


def _of_size(size: int) -> list[Row]:
    """Measure one master: the first round, then ten quiet seconds, then ten with scrapes."""
    with (
        FakeFleet(size) as fleet,
        tempfile.TemporaryDirectory() as folder,
        LargeMaster(fleet.endpoints, size, Path(folder)) as large,
    ):
        began_s = time.monotonic()
        large.ask(f"reach {size}")
        first_s = time.monotonic() - began_s
        pause, ages = threading.Event(), list[float]()
        pause.wait(LASTS_S / 2)
        before, began_s = large.ask("cost"), time.monotonic()
        for _ in range(AGES):
            pause.wait(LASTS_S / AGES)
            ages += large.ask("ages")
        after, lasted_s = large.ask("cost"), time.monotonic() - began_s
        page = asked(
            path="/metrics",
            port=large.port,
            api_token=API_TOKEN,
            connections=2,
            seconds=LASTS_S,
            rate=RATE,
        )["took_s"]
        suspected = large.ask("suspected")
    name = f"a master of {size:,} instances"
    share = 100.0 * (after["cpu_s"] - before["cpu_s"]) / lasted_s
    first_aim = FIRST_AIM_S if size <= LARGE else None
    metrics_aim = METRICS_AIM_MS if size <= LARGE else None
    return [
        Row(f"{name}: until all serve", first_s, "s", first_aim),
        Row(f"{name}: CPU", share, "% of a core", 100.0),
        Row(f"{name}: memory", after["rss_mib"], "MiB"),
        Row(f"{name}: since the last look at one, p50", statistics.median(ages), "s"),
        Row(f"{name}: since the last look at one, p99", _p99(ages), "s", AGE_AIM_S),
        Row(f"{name}: /metrics, {RATE}/s, p50", 1e3 * statistics.median(page), "ms"),
        Row(f"{name}: /metrics, {RATE}/s, p99", 1e3 * _p99(page), "ms", metrics_aim),
        Row(f"{name}: suspected, though all answer", suspected, "instances", 0.0),
    ]


def _p99(values: list[float]) -> float:
    return statistics.quantiles(values, n=100)[98]
