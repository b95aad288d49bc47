"""TARN beside the Java TARN on one YARN, at the sandbox's heartbeat of the nodes and at YARN's own.

With ``--against JAR`` both are measured, interleaved, and what the Java TARN did is recorded in
``java_recorded.json``; without a jar the table compares with what was recorded, and says when. With
neither, it compares with nothing.
"""

import datetime as dt
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
from bench.row import Row

HERE = Path(__file__).parent
RECORDED = HERE / "java_recorded.json"
AGAINST = "TARN_BENCH_AGAINST"
"""Names the jar for this program's own processes."""
ROUNDS = 5
HEARTBEATS_MS = (250, 1000)
UNTIL_S = 3600
Medians = Mapping[str, float]


@attrs.frozen
class _Compared:
    """What is said about one of the figures."""

    name: str
    unit: str
    aim: float | None = None
    """No more than so many times the Java TARN's; None: only watched."""


ROWS: Mapping[str, _Compared] = {
    "submit": _Compared("submit → ready", "s", 0.65),
    "replaced": _Compared("Triton killed → replaced", "s"),
    "answers": _Compared("master killed → its API answers", "s", 1.0),
    "serves": _Compared("master killed → its API names a ready Triton", "s"),
    "p50_ms": _Compared("/instances, 8 connections, 150/s, p50", "ms", 1.0),
    "p99_ms": _Compared("/instances, 8 connections, 150/s, p99", "ms", 1.0),
    "closed_rate": _Compared("/instances, 8 connections, closed loop", "requests/s"),
    "rss_mib": _Compared("memory of a master that is new", "MiB", 1.1),
}
BARE_AND_S = 1.2
"""A killed Triton is replaced within a bare start and this, at a heartbeat of 250 ms."""


def compared_rows() -> list[Row]:
    """Measure at each heartbeat; both fleets are asked the same, from outside."""
    if os.geteuid() != 0:
        sys.stdout.write("  left out: only root may make a network namespace\n")
        return []
    jar = os.environ.get(AGAINST, "")  # noqa: TID251 (of this program)
    recorded = json.loads(RECORDED.read_text("utf-8")) if RECORDED.exists() else {}
    rows, new = [], {}
    for heartbeat_ms in HEARTBEATS_MS:
        found = _measured(jar, heartbeat_ms)
        java = _medians(found["java"]) if jar else recorded.get(str(heartbeat_ms), {})
        new[str(heartbeat_ms)] = java
        name = "Java TARN" if jar else f"Java TARN, recorded on {recorded.get('on', '')}"
        rows += _rows(f"heartbeat {heartbeat_ms} ms", found, java, name)
    if jar:
        new["on"] = f"{dt.datetime.now(dt.UTC):%Y-%m-%d}"
        RECORDED.write_text(json.dumps(new, indent=2) + "\n", "utf-8")
    return rows


def _rows(where: str, found: Mapping[str, Any], java: Medians, name: str) -> list[Row]:
    ours, bare_s = _medians(found["ours"]), statistics.median(found["bare"])
    rows = []
    for key, one in ROWS.items():
        than = java.get(key)
        aim = None if one.aim is None or than is None else one.aim * than
        if key == "replaced" and where.endswith(" 250 ms"):
            aim = bare_s + BARE_AND_S
        rows.append(Row(f"{where}: {one.name}", ours[key], one.unit, aim, name, than))
    low, high = found["load"]
    return [
        *rows,
        Row(f"{where}: a bare tritonserver starts", bare_s, "s"),
        Row(
            f"{where}: of 1,000 requests to a Triton whose master is killed, lost",
            ours["lost_of_1000"],
            "requests",
            0.0,
            name,
            java.get("lost_of_1000"),
        ),
        Row(f"{where}: load average, least", low, "runnable"),
        Row(f"{where}: load average, most", high, "runnable"),
        Row(f"{where}: rounds that were repeated", found["repeated"], "rounds"),
    ]


def _medians(one: Mapping[str, Sequence[float]]) -> dict[str, float]:
    """Return the median of each figure; requests count as a whole."""
    medians = {name: statistics.median(one[name]) for name in ROWS}
    return {**medians, "lost_of_1000": 1000 * sum(one["lost"]) / sum(one["asked"])}


def _measured(jar: str, heartbeat_ms: int) -> Mapping[str, Any]:
    """Measure in a network namespace of its own: see `java_rounds`."""
    words = [
        *("unshare", "--net", "--mount", "--propagation", "private"),
        *(sys.executable, "-m", "bench.java_rounds"),
        *("--heartbeat-ms", str(heartbeat_ms), "--rounds", str(ROUNDS)),
        *(("--against", jar) if jar else ()),
    ]
    done = subprocess.run(words, check=True, stdout=subprocess.PIPE, timeout=UNTIL_S)
    answer: Mapping[str, Any] = json.loads(done.stdout)
    return answer
