"""A load that steps, what the fleet makes of it, and when."""

import bisect
import time
from collections.abc import Mapping
from typing import Any

import attrs
from house import until
from open_wave import Wave
from proxied_fleet import soon
from scaling.scene import Scene

__all__ = ["Answer", "grown", "shrunk", "stepped"]

WITHIN_S = 60.0


@attrs.frozen
class Answer:
    """What the master decided after the load had stepped; moments in Unix seconds."""

    stepped: float
    decisions: tuple[Mapping[str, Any], ...]
    """Since then, oldest first."""
    asked: tuple[float, ...]
    """When each new instance was asked for."""
    looks: tuple[float, ...]
    """At the metrics of one that served: from the last before the step to the last decision."""

    @property
    def asks_s(self) -> float:
        """From the step to the last ask."""
        return max(self.asked) - self.stepped

    @property
    def new_looks(self) -> int:
        """Looks that could see the new load, until the last decision."""
        return len(self.looks) - 1

    def offered(self, load: Wave, takes_s: float) -> float:
        """Return how many requests would execute at once of those sent between the last looks."""
        begin, end = self.looks[-2:]
        return load.sent_between(begin, end) / (end - begin) * takes_s


def stepped(scene: Scene, load: Wave, rate: float, *, aligned: bool = True) -> float:
    """Set another rate, if *aligned* right after a look at the metrics; return when.

    The first look after it sees a whole interval of the new load then, not a part of one.
    """
    if aligned:
        looked = len(scene.scrapes())
        soon(lambda: len(scene.scrapes()) > looked, WITHIN_S, "a look at the metrics")
    load.rate = rate
    return time.time()


def answer(scene: Scene, began: float) -> Answer:
    """Return what was decided and asked for since *began*."""
    decisions = tuple(one for one in scene.fleet.api.decisions() if one["at"] > began)
    last = max((one["at"] for one in decisions), default=float("inf"))
    events = scene.fleet.api.events()
    asked = tuple(e["first"] for e in events if e["code"] == "TARN-1100" and e["first"] > began)
    looks = [at for at in scene.scrapes(began) if at < last]
    new = bisect.bisect(looks, began)
    return Answer(began, decisions, asked, tuple(looks[max(0, new - 1) :]))


def grown(scene: Scene, began: float) -> float:
    """Wait until all that is wanted serves; return how long after *began* that is."""

    def whole() -> bool:
        status = scene.fleet.api.status()
        return bool(status["ready"] == status["desired"] > 1)

    until(whole, WITHIN_S, "every instance that is wanted")
    ready = [e["first"] for e in scene.fleet.api.events() if e["code"] == "TARN-1102"]
    return max(ready) - began


def shrunk(scene: Scene, size: int) -> None:
    """Wait until the fleet has *size* instances, and those that left have ended."""
    until(lambda: len(scene.fleet.all()) == size, WITHIN_S, f"{size} left")
