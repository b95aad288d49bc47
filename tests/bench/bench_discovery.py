"""How soon HAProxy follows a fleet, what that costs, and what HAProxy itself adds to a request."""

import statistics
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bench.discovery_rounds import Crowd, cpu_percent, crowd, latencies_s
from bench.row import Row
from proxied_fleet import proxied_fleet
from proxied_load import HttpLoad

ROUNDS = 5
RATE = 200.0
REQUESTS = 500
STEADY_S = 4.0
# Its script asks YARN every 30 s, so what it asks about is 15 s old in the middle.
POLL = "Java TARN's script, the wait for its next poll by arithmetic"
POLL_S = 15.0


def fleet_rows() -> list[Row]:
    """Measure in interleaved rounds on one cluster of two fakes."""
    in_s, out_s, cpu = [], [], []
    direct: list[Sequence[float]] = []
    through: list[Sequence[float]] = []
    with tempfile.TemporaryDirectory() as folder, proxied_fleet(Path(folder), "bench") as stage:
        for number in range(ROUNDS):
            stage.two_left()
            ways = [(direct, next(iter(stage.fleet.ready()))), (through, stage.door.address)]
            for found, address in ways if number % 2 else reversed(ways):
                found.append(latencies_s(address, RATE, REQUESTS))
            cpu.append(cpu_percent(stage.agent.pid, STEADY_S))
            with HttpLoad(stage.door.address, RATE):
                in_s.append(stage.first_request())
            stage.served()
            out_s.append(stage.out_after_kill())
    return [
        Row("HAProxy, ready → first request", statistics.median(in_s), "s", 0.15, POLL, POLL_S),
        Row("HAProxy, kill -9 → out of rotation", statistics.median(out_s), "s", 1.0, POLL, POLL_S),
        Row("HAProxy, CPU of the agent, two instances", statistics.median(cpu), "% of a core"),
        *_added(direct, through),
    ]


def crowd_rows() -> list[Row]:
    """Measure a thousand instances: a HAProxy that just started gets them all."""
    with tempfile.TemporaryDirectory() as folder, crowd(Path(folder)) as thousand:
        filled = [thousand.fill() for _ in range(ROUNDS)]
        cpu = [cpu_percent(thousand.agent.pid, STEADY_S) for _ in range(ROUNDS)]
    name = f"HAProxy started → {Crowd.COUNT:,} servers"
    trips = statistics.median(one.round_trips for one in filled)
    return [
        Row(f"{name} take requests", statistics.median(o.whole_s for o in filled), "s", 3.0),
        Row(f"{name} are there", statistics.median(o.added_s for o in filled), "s"),
        Row(f"{name}, conversations with its socket", trips, "connections"),
        Row(
            f"HAProxy, CPU of the agent, {Crowd.COUNT:,} instances",
            statistics.median(cpu),
            "% of a core",
        ),
    ]


def _added(direct: Sequence[Sequence[float]], through: Sequence[Sequence[float]]) -> list[Row]:
    rows = []
    for words, part in (("p50", 0.5), ("p99", 0.99)):
        straight, proxied = ([_quantile(one, part) for one in some] for some in (direct, through))
        name = f"inference through HAProxy, {RATE:g}/s, {words}"
        rows.append(Row(name, _ms(proxied), "ms", None, "direct", _ms(straight)))
    return rows


def _quantile(values: Sequence[float], part: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))]


def _ms(seconds: Sequence[float]) -> float:
    return 1000 * statistics.median(seconds)
