"""How soon a fleet follows a load that steps, and what that costs its requests."""

import contextlib
import statistics
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.row import Row
from house import until
from open_wave import Wave
from proxied_fleet import soon
from scaling.load_step import answer, grown, shrunk, stepped
from scaling.scene import Scene, fakes, real, up

ROUNDS = 5
FAKE_TAKES_S, REAL_TAKES_S = 0.25, 0.05
DRAINS = 3
MOST = 10
"""Replicas that a load of 20 requests at once needs; a machine that is held up sends some less."""
JAVA = "Java TARN's rule, by arithmetic"
JAVA_LOOKS_S, JAVA_ONE_MORE_S = 15.0, 60.0
"""It looks so often, and grows by one in so long."""


def fake_rows() -> list[Row]:
    """Measure a load of twenty times, and a drain under it, in turn, on one fleet of fakes."""
    asked_s, looks, drained_s, asks = [], [], [], []
    tritons = {"options": {"target": 2}}
    with _scene(20, tritons, lambda root: fakes(root, FAKE_TAKES_S, at_once=4)) as scene:
        with Wave(scene.balanced, 0.95 / FAKE_TAKES_S) as load:
            for _ in range(ROUNDS):
                load.pass_(8)
                began = stepped(scene, load, 20 * load.rate, aligned=False)
                until(lambda: scene.fleet.api.status()["desired"] >= MOST - 1, 60, "the size")
                said = answer(scene, began)
                grown(scene, began)
                asked_s.append(said.asks_s)
                looks.append(float(said.new_looks))
                asks.append(len(said.asked))
                drained_s.append(_drained_s(scene))
                load.rate /= 20
                shrunk(scene, 1)
    lost = float(len(load.missed))
    java_s = _java_s(round(statistics.median(asks)))
    return [
        Row("load x 20, fakes: until the last ask", *_median_s(asked_s), 3, JAVA, java_s),
        Row("load x 20, fakes: looks until the decision", statistics.median(looks), "looks", 2),
        Row(
            "one fewer under that load: from its drain until it has stopped",
            *_median_s(drained_s),
            4,
        ),
        Row(f"requests lost of {load.report.sent:,} in all of this", lost, "requests", 0),
    ]


def real_rows() -> list[Row]:
    """Measure a load of four times on real Tritons, up and down again."""
    ready_s = []
    with _scene(6, {"options": {"target": 0.55}}, lambda root: real(root, REAL_TAKES_S)) as scene:
        with Wave(scene.balanced, 0.45 / REAL_TAKES_S) as load:
            for _ in range(ROUNDS):
                load.pass_(8)
                began = stepped(scene, load, 4 * load.rate, aligned=False)
                until(lambda: scene.fleet.api.status()["desired"] == 4, 60, "the right size")
                ready_s.append(grown(scene, began))
                load.rate /= 4
                shrunk(scene, 1)
    lost = float(len(load.missed))
    java = (f"{JAVA}, only the asks", _java_s(3))
    return [
        Row("load x 4, real Tritons: until all four serve", *_median_s(ready_s), None, *java),
        Row(f"requests lost of {load.report.sent:,} in all of this", lost, "requests", 0),
    ]


@contextlib.contextmanager
def _scene(most: int, scaling: dict[str, Any], tritons: Any) -> Iterator[Scene]:
    """Bring up a fleet of one under the policy ``target``; it shrinks soon."""
    soon_down = {"down": {"window": "3s"}, "cooldown": "1s", "interval": "1s"}
    with tempfile.TemporaryDirectory() as folder:
        keys = {
            **tritons(Path(folder)),
            "replicas": {"min": 1, "max": most, "initial": 1},
            "drain": {"timeout": "60s", "quiesce": "2s"},
            "scaling": {"use": "target", **soon_down, **scaling},
        }
        with up(Path(folder), "bench", **keys) as scene:
            yield scene


def _drained_s(scene: Scene) -> float:
    """Take one away under load; return the seconds from its drain until it has stopped."""
    api = scene.fleet.api
    before = {event["subject"] for event in api.events() if event["code"] == "TARN-1114"}
    api.scale(int(api.status()["desired"]) - 1)

    def stopped() -> dict[str, float]:
        events = api.events()
        ended = {e["subject"] for e in events if e["code"] == "TARN-1114"} - before
        return {e["code"]: e["first"] for e in events if e["subject"] in ended}

    moments = soon(stopped, 60, "the end of one")
    api.scale(None)
    return moments["TARN-1114"] - moments["TARN-1103"]


def _median_s(values: list[float]) -> tuple[float, str]:
    return statistics.median(values), "s"


def _java_s(more: int) -> float:
    """Return how long *more* asks take: half an interval, then one in each cooldown."""
    return JAVA_LOOKS_S / 2 + (more - 1) * JAVA_ONE_MORE_S
