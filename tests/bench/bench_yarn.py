"""How fast a fleet on a real YARN comes up and repairs itself, and a bare tritonserver starts."""

import statistics
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from bench.row import Row
from bench.yarn_rounds import (
    Phases,
    bare_start,
    master_killed,
    started,
    submitted,
    triton_killed,
)
from servers.yarn import Hadoop, YarnHouse, session_sandbox

ROUNDS = 5
AGE_S = 600.0
"""At which a master's memory is read."""
HEARTBEATS_S = 3 * 1.0
"""Three words with the ResourceManager, at the default of ``runtime.options.heartbeat_s``."""
BARE = "bare tritonserver start"


def fleet_rows() -> list[Row]:
    """Measure in interleaved rounds; meanwhile another master grows old, for its memory."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        with session_sandbox(root / "sandbox") as hadoop:
            house = YarnHouse(root, hadoop)
            try:
                return _rows(house, hadoop)
            finally:
                house.clear()


def _rows(house: YarnHouse, hadoop: Hadoop) -> list[Row]:
    old = started(house, hadoop, "old")
    since_s = time.monotonic()
    mended = started(house, hadoop, "mended")
    bare_s, ups, tritons, masters, lost = [], [], [], [], 0
    for number in range(ROUNDS):
        bare_s.append(bare_start())
        ups.append(submitted(house, hadoop, f"new-{number}"))
        tritons.append(triton_killed(mended))
        phases, failed = master_killed(mended)
        masters.append(phases)
        lost += failed
    threading.Event().wait(max(0.0, since_s + AGE_S - time.monotonic()))
    rss_mib = old.rss_mib()
    return [
        *_submit_rows(ups, statistics.median(bare_s)),
        *_triton_rows(tritons, statistics.median(bare_s)),
        *_master_rows(masters, lost),
        Row(f"YARN, memory of a master after {AGE_S / 60:g} minutes", rss_mib, "MiB", 220.0),
    ]


def _submit_rows(rounds: Sequence[Phases], bare_s: float) -> list[Row]:
    name = "YARN, submit → first ready"
    ready_s = statistics.median(phases.until_s("ready") for phases in rounds)
    return [
        Row(name, ready_s, "s", bare_s + 10, BARE, bare_s),
        *_steps(name, rounds),
    ]


def _triton_rows(rounds: Sequence[Phases], bare_s: float) -> list[Row]:
    name = "YARN, Triton killed → replaced"
    whole_s = statistics.median(phases.whole_s for phases in rounds)
    aim_s = bare_s + HEARTBEATS_S + 1
    return [
        Row(name, whole_s, "s", aim_s, BARE, bare_s),
        *_steps(name, rounds),
    ]


def _master_rows(rounds: Sequence[Phases], lost: int) -> list[Row]:
    name = "YARN, master killed → control"
    whole_s = statistics.median(phases.whole_s for phases in rounds)
    return [
        Row(name, whole_s, "s", 5.0),
        *_steps(name, rounds),
        Row(f"{name}, requests lost meanwhile in all rounds", lost, "requests", 0.0),
    ]


def _steps(name: str, rounds: Sequence[Phases]) -> list[Row]:
    """Return a row for each step, which is only watched: the medians need not add up."""
    steps = [phases.steps_s() for phases in rounds]
    return [
        Row(f"{name}: {step}", statistics.median(one[step] for one in steps), "s")
        for step in steps[0]
    ]
