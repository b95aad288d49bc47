"""How fast metrics are read, and what a thousand instances cost of which 200 hang."""

import random
import statistics
import threading
import time
from collections.abc import Callable, Mapping
from typing import Self

from bench.row import Row
from prometheus_client.parser import text_string_to_metric_families

from tarn.control.scrape import ProbeTarget, Scraper
from tarn.domain import Known, Reading
from tarn.testing.fake_fleet import FakeFleet
from tarn.triton.metrics import parse

ROUNDS = 5
FAKES = 1000
HANGING = 200
DEADLINE_S = 20.0

_FAMILIES = (
    "nv_inference_request_success",
    "nv_inference_request_failure",
    "nv_inference_count",
    "nv_inference_exec_count",
    "nv_inference_request_duration_us",
    "nv_inference_queue_duration_us",
    "nv_inference_compute_input_duration_us",
    "nv_inference_compute_infer_duration_us",
    "nv_inference_compute_output_duration_us",
    "nv_inference_pending_request_count",
)


class SystemClock:
    """The real time."""

    def now_s(self) -> float:
        """Return monotonic seconds."""
        return time.monotonic()

    def at(self) -> float:
        """Return wall time."""
        return time.time()


def metrics_of_size(size: int) -> bytes:
    """Return at least *size* bytes of a Triton with thousands of models; the same each time."""
    chance = random.Random(1)
    models = size // 950
    lines = []
    for family in _FAMILIES:
        lines.append(f"# HELP {family} Text\n# TYPE {family} counter\n")
        for model in range(models):
            reasons = ("REJECTED", "CANCELED", "BACKEND", "OTHER") if "failure" in family else ("",)
            for reason in reasons:
                label = f'reason="{reason}",' if reason else ""
                value = chance.randrange(10**8)
                lines.append(f'{family}{{model="model-{model}",{label}version="1"}} {value}\n')
    return "".join(lines).encode()


class Ticker:
    """Wakes each millisecond on its own thread, and keeps the longest lateness: a held GIL."""

    def __init__(self) -> None:
        self.longest_s = 0.0
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="ticker")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join(5.0)

    def _run(self) -> None:
        before = time.perf_counter()
        while not self._end.wait(0.001):
            now = time.perf_counter()
            self.longest_s = max(self.longest_s, now - before - 0.001)
            before = now


def parse_5mb() -> list[Row]:
    """Read 5 MB of metrics, eight of ten lines wanted."""
    text = metrics_of_size(5 * 1024 * 1024)
    walls, holds = [], []
    for _ in range(ROUNDS):
        walls.append(_seconds(lambda: parse(text)))
        with Ticker() as ticker:
            parse(text)
        holds.append(ticker.longest_s)
    string = text.decode()
    baseline_s = _seconds(lambda: list(text_string_to_metric_families(string)))
    name = "prometheus_client's parser"
    return [
        Row("5 MB of metrics parsed", _ms(walls), "ms", 100.0, name, baseline_s * 1e3),
        Row("5 MB of metrics parsed: longest GIL hold", _ms(holds), "ms", 10.0),
    ]


def scrape_1000() -> list[Row]:
    """Look at 1,000 fakes of which 200 hang: the first look at all, and a second of steady work."""
    walls, cpus, steady = [], [], []
    with FakeFleet(FAKES) as fleet:
        fleet.hang(range(0, FAKES, FAKES // HANGING))
        targets = {f"i-{n:04}": ProbeTarget(e) for n, e in enumerate(fleet.endpoints)}
        for _ in range(ROUNDS):
            wall_s, cpu_s, steady_s = _scrape(targets)
            walls.append(wall_s)
            cpus.append(cpu_s)
            steady.append(steady_s)
    name = "the same with httpx, by 0.86 ms a question"
    httpx_s = 0.86e-3 * (3 * (FAKES - HANGING) + 2 * HANGING)
    return [
        Row("1,000 instances, 200 hanging: first round", statistics.median(walls), "s", 0.7),
        Row(
            "1,000 instances, 200 hanging: CPU of a first round",
            statistics.median(cpus),
            "s",
            0.4,
            name,
            httpx_s,
        ),
        Row(
            "1,000 instances, 200 hanging: CPU a second, each looked at once",
            statistics.median(steady),
            "s",
            0.4,
            name,
            httpx_s,
        ),
    ]


def _scrape(targets: Mapping[str, ProbeTarget]) -> tuple[float, float, float]:
    """Return (wall of the first round, its CPU, CPU of one later second)."""
    scraper = Scraper(SystemClock(), 1.0, 2.0, lambda: None)
    scraper.start()
    pause = threading.Event()
    try:
        began_s, began_cpu_s = time.perf_counter(), time.process_time()
        scraper.watch(targets)
        while sum(map(_whole, scraper.readings().values())) < FAKES - HANGING:
            if time.perf_counter() - began_s > DEADLINE_S:
                raise TimeoutError("the fakes did not answer")
            pause.wait(0.02)
        wall_s, cpu_s = time.perf_counter() - began_s, time.process_time() - began_cpu_s
        pause.wait(2.0)
        steady_s = time.process_time()
        pause.wait(3.0)
        return wall_s, cpu_s, (time.process_time() - steady_s) / 3.0
    finally:
        scraper.close()


def _whole(reading: Reading) -> bool:
    return isinstance(reading.models, Known) and "pending" in reading.metrics


def _seconds(work: Callable[[], object]) -> float:
    began_s = time.perf_counter()
    work()
    return time.perf_counter() - began_s


def _ms(seconds: list[float]) -> float:
    return statistics.median(seconds) * 1e3
