"""What an instance costs that is well by its own word and fails its users."""

import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path

from bench.row import Row
from gray_fleet import FaultOutcome, staged

ROUNDS = 5
AIMS_S = {"killed": 2.0, "exits": 2.0, "raises": 2.0, "hangs": 12.0, "stopped": 12.0}
"""Until an instance gets its last request."""
WORDS = {
    "killed": "stub killed",
    "exits": "stub exits in `execute`",
    "raises": "every request raises",
    "hangs": "`execute` hangs",
    "stopped": "Triton is stopped (SIGSTOP)",
}
ENVOY = "five bad answers in a row alone"


def one_of_three() -> list[Row]:
    """Strike one of three instances, with each fault in turn, under two loads."""
    seen: dict[str, list[FaultOutcome]] = {how: [] for how in AIMS_S}
    for _ in range(ROUNDS):
        for how, found in seen.items():
            with tempfile.TemporaryDirectory() as folder, staged(Path(folder), {}) as gray:
                found.append(gray.strike(how, 120.0))
    return [row for how, found in seen.items() for row in _rows(how, found)]


def _rows(how: str, found: list[FaultOutcome]) -> list[Row]:
    def median(read: Callable[[FaultOutcome], float | None]) -> float:
        return statistics.median(read(one) or 0.0 for one in found)

    outs = [one.envoy.out_s for one in found if one.envoy is not None]
    known = [out_s for out_s in outs if out_s is not None]
    sooner = 2 * len(known) > len(found)
    alone = statistics.median(one.envoy.lost for one in found if one.envoy is not None)
    losses = ENVOY if sooner else f"{ENVOY} had not come to it in this trace, and had lost"
    what = WORDS[how]
    return [
        Row(
            f"{what} → HAProxy sends it the last request",
            median(lambda one: one.last_sent_s),
            "s",
            AIMS_S[how],
            ENVOY if sooner else "",
            statistics.median(known) if sooner else None,
        ),
        Row(f"{what} → out of the view", median(lambda one: one.out_s), "s"),
        Row(f"{what} → replaced", median(lambda one: one.replaced_s), "s"),
        Row(
            f"{what}: lost through HAProxy",
            median(lambda one: one.lost["HAProxy"]),
            "requests",
            None,
            losses,
            alone,
        ),
        Row(
            f"{what}: lost by `cluster.client()`",
            median(lambda one: one.lost["client"]),
            "requests",
        ),
    ]
