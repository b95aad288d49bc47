"""1: the Java TARN's scaling waited for itself: with a queue of 400 its target fell from 4 to 3."""

import time
from itertools import pairwise
from pathlib import Path

from house import until
from scaling.scene import fakes, up

SLACK = 3
"""A busy machine may take so many times what is right."""
INTERVAL_S, TICK_S = 0.2, 1.0


def test_a_queue_of_a_hundred_each_grows_the_target_within_one_tick(tmp_path: Path) -> None:
    """Four fakes say so; the target follows the look that saw it, and no tick takes a second."""
    keys = {
        **fakes(tmp_path, 0.0),
        "replicas": {"min": 4, "max": 8, "initial": 4},
        "scaling": {"use": "threshold", "interval": f"{INTERVAL_S}s", "cooldown": "1s"},
        "drain": {"timeout": "1s", "quiesce": "0s"},
    }
    ticks: list[float] = []
    with up(tmp_path, "w", **keys) as scene:
        began = time.time()
        scene.queue(100)

        def grown() -> bool:
            status = scene.fleet.api.status()
            ticks.append(status["at"])
            return bool(status["desired"] == 8)

        until(grown, 30, "8 wanted")
        decisions = scene.fleet.api.decisions()
        first = next(one for one in decisions if one["at"] > began)
        seen = next(at for at in scene.scrapes() if at > began)
    assert first["desired"] > 4
    assert first["by"] == "policy threshold"
    assert first["at"] - seen < SLACK * (INTERVAL_S + TICK_S)
    assert max(b - a for a, b in pairwise(ticks)) < SLACK * TICK_S
    assert min(one["desired"] for one in decisions) == 4
