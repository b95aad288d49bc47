"""How fast ``/instances`` is answered while the control thread is busy."""

import contextlib
import json
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Self

import attrs
from bench.row import Row
from fake_master import TOKEN, FakeMaster, instance, reading, snapshot

from tarn.http.rights import Sources
from tarn.read.metrics import render_metrics

ROUNDS = 5
INSTANCES = 100
RATE, PACE = 200, 150
JAVA = "Java TARN"
JAVA_P50_MS, JAVA_RATE = 44.0, 179.0
# The 44 ms are those of a closed loop; at fixed moments, over eight kept connections, it has these.
JAVA_PACED_P50_MS, JAVA_PACED_P99_MS = 0.63, 4.36
SHIPPED: int = attrs.fields(Sources).rate_limit.default
RAISED = 1_000_000


class BusyControl:
    """A control thread that burns 20 ms of each 100 ms, and publishes as a real one does."""

    def __init__(self, master: FakeMaster) -> None:
        self._master = master
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="busy-control")
        self._interval_s = sys.getswitchinterval()

    def __enter__(self) -> Self:
        sys.setswitchinterval(0.0005)
        self._thread.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self._end.set()
        self._thread.join(timeout=5)
        sys.setswitchinterval(self._interval_s)

    def _run(self) -> None:
        while not self._end.wait(0.08):
            start_s = time.perf_counter()
            self._master.publish(at=time.time())
            while time.perf_counter() - start_s < 0.02:
                pass


def instances_rows() -> list[Row]:
    """Measure ``/instances`` with the rate limit as shipped: closed loop, and at fixed rates."""
    with busy_master(SHIPPED) as master:
        rows = _closed(master, 8, f"api.rate_limit {SHIPPED:,}/s as shipped")
        for connections in (1, 8):
            rows += _opened(master, connections, RATE)
        return rows + _paced(master)


def saturated_rows() -> list[Row]:
    """Measure what the server can do: closed loops with the rate limit raised."""
    with busy_master(RAISED) as master:
        return [
            row
            for connections in (1, 8)
            for row in _closed(master, connections, "api.rate_limit raised")
        ]


@contextlib.contextmanager
def busy_master(rate_limit: int) -> Iterator[FakeMaster]:
    """Serve a hundred instances next to a `BusyControl`."""
    fleet = tuple(instance(number) for number in range(INSTANCES))
    readings = {i.id: reading(1, pending=1.0) for i in fleet}
    picture = attrs.evolve(snapshot(*fleet), readings=readings)
    with FakeMaster(picture, rate_limit=rate_limit) as master, BusyControl(master):
        yield master


def render_rows() -> list[Row]:
    """Measure ``/metrics`` of a hundred instances, made once per tick on the control thread."""
    fleet = tuple(instance(number) for number in range(INSTANCES))
    readings = {i.id: reading(1, pending=1.0, gpu_utilization=0.5) for i in fleet}
    picture = attrs.evolve(snapshot(*fleet), readings=readings)
    took_s = []
    for _ in range(ROUNDS):
        start_s = time.perf_counter()
        render_metrics(picture)
        took_s.append(time.perf_counter() - start_s)
    return [Row(f"/metrics of {INSTANCES} instances made", _ms(took_s), "ms", aim=10.0)]


def _closed(master: FakeMaster, connections: int, limit: str) -> list[Row]:
    seconds = 1.0
    each = [_round(master, connections, seconds)["took_s"] for _ in range(ROUNDS)]
    name = f"/instances, {connections} connection(s), closed loop, {limit}"
    # What is known of the Java TARN is a closed loop over eight connections.
    known = connections == 8
    rate = statistics.median(len(took_s) / seconds for took_s in each)
    # Eight connections in a closed loop keep the server saturated: watched, without an aim.
    aims = (5.0, 20.0) if connections == 1 else (None, None)
    return [
        *percentiles(name, each, aims, (JAVA, JAVA_P50_MS) if known else ("", None)),
        Row(f"{name}, let in", rate, "requests/s", None, *(JAVA, JAVA_RATE) if known else ()),
    ]


def _opened(master: FakeMaster, connections: int, rate: int) -> list[Row]:
    each = rounds(master, "/instances", connections, rate)
    name = f"/instances, {connections} connection(s), {rate}/s"
    late_s = [_quantile(one["late_s"], 0.99) for one in each]
    return [
        *percentiles(name, [one["took_s"] for one in each], (5.0, 20.0)),
        Row(f"{name}, lateness of the generator p99", _ms(late_s), "ms"),
    ]


def _paced(master: FakeMaster) -> list[Row]:
    """Return what a load balancer's poll sees, compared with the Java TARN."""
    p50, p99, late = _opened(master, 8, PACE)
    return [
        attrs.evolve(p50, baseline_name=JAVA, baseline_value=JAVA_PACED_P50_MS),
        attrs.evolve(p99, baseline_name=JAVA, baseline_value=JAVA_PACED_P99_MS),
        late,
    ]


def rounds(
    master: FakeMaster, path: str, connections: int, rate: int
) -> list[Mapping[str, list[float]]]:
    """Ask *master* for *path* at *rate* a second, five times for two seconds each."""
    return [_round(master, connections, 2.0, rate, path) for _ in range(ROUNDS)]


def percentiles(
    name: str,
    each: list[list[float]],
    aims: tuple[float | None, float | None],
    than: tuple[str, float | None] = ("", None),
) -> list[Row]:
    """Return the median of the rounds' p50 and p99, with what the p50 is compared with."""
    p50_s = [_quantile(took_s, 0.5) for took_s in each]
    p99_s = [_quantile(took_s, 0.99) for took_s in each]
    return [
        Row(f"{name}, p50", _ms(p50_s), "ms", aims[0], *than),
        Row(f"{name}, p99", _ms(p99_s), "ms", aims[1]),
    ]


def _round(
    master: FakeMaster,
    connections: int,
    seconds: float,
    rate: int | None = None,
    path: str = "/instances",
) -> Mapping[str, list[float]]:
    return asked(
        path=path,
        port=master.server.port,
        api_token=TOKEN.decode(),
        connections=connections,
        seconds=seconds,
        rate=rate,
    )


def asked(*, seconds: float, **order: object) -> Mapping[str, list[float]]:
    """Ask from a process of its own, as *order* of load_http says; return its figures, seconds."""
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("load_http.py"))],
        input=json.dumps({**order, "seconds": seconds}),
        capture_output=True,
        text=True,
        timeout=seconds + 30,
        check=True,
    )
    answer: Mapping[str, list[float]] = json.loads(done.stdout)
    return answer


def _quantile(values: list[float], part: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))]


def _ms(seconds: list[float]) -> float:
    return statistics.median(seconds) * 1e3


if __name__ == "__main__":
    for row in (*instances_rows(), *saturated_rows(), *render_rows()):
        sys.stdout.write(f"{row.name}: {row.value:.2f} {row.unit} (aim {row.aim})\n")
