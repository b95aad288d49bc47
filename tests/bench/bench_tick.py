"""How long one decision takes for a fleet of ten thousand instances."""

import statistics
import time
from collections.abc import Mapping

import attrs
from bench.row import Row

from tarn.domain import (
    ClusterSpec,
    Endpoint,
    Epoch,
    Instance,
    InstanceState,
    Known,
    ModelState,
    Reading,
    Running,
)
from tarn.domain.fleet import Fleet, Rules
from tarn.domain.signals import Signals
from tarn.domain.spec import ModelsSpec, ReplicasSpec
from tarn.domain.tick import Observation, tick

ROUNDS = 7
SIZE = 10_000
GROW_BY = 500
LISTED = (ModelState("embed", "READY"), ModelState("llama", "READY"))
RULES = Rules(
    ClusterSpec("big", ModelsSpec("/models"), replicas=ReplicasSpec(min=0, max=20_000)), "hash"
)


def decide_10000() -> list[Row]:
    """Decide with every busy value changed, with none changed, and with 500 more to launch."""
    fleet = _fleet()
    calm, busy, grown, looks = [], [], [], []
    signals = Signals()
    for turn in range(ROUNDS):
        now_s = 1000.0 + turn
        seen = _seen(now_s, _readings(now_s, busy=turn))
        busy_s, fleet = _timed(fleet, seen)
        busy.append(busy_s)
        calm.append(_timed(fleet, attrs.evolve(seen, now_s=now_s + 0.5))[0])
        began_s = time.perf_counter()
        signals = signals.looked(fleet.instances, seen.readings, now_s, oldest_s=7.0)
        looks.append(time.perf_counter() - began_s)
        larger = attrs.evolve(fleet, manual=SIZE + GROW_BY)
        grown_s, after = _timed(larger, attrs.evolve(seen, now_s=now_s + 0.5))
        assert len(after.instances) == SIZE + GROW_BY
        grown.append(grown_s)
    return [
        Row("decision for 10,000 instances, every busy value changed", _ms(busy), "ms", 100.0),
        Row("decision for 10,000 instances, nothing changed", _ms(calm), "ms", 100.0),
        Row("decision for 10,000 instances that launches 500 more", _ms(grown), "ms", 100.0),
        Row("the signals of 10,000 instances, every value read again", _ms(looks), "ms", 100.0),
    ]


def _fleet() -> Fleet:
    instances = tuple(
        Instance(
            f"big-{number:04d}",
            "hash",
            InstanceState.READY,
            container_id=f"c{number}",
            node="node",
            endpoint=_endpoint(number),
            serving=True,
            ready_s=10.0,
        )
        for number in range(1, SIZE + 1)
    )
    fleet = Fleet("big", Epoch(1, 1), SIZE, instances, next_number=SIZE + 1, manual=SIZE)
    return tick(fleet, _seen(900.0, _readings(900.0, busy=1000)), RULES)


def _endpoint(number: int) -> Endpoint:
    return Endpoint("10.0.0.1", number, number + 1, number + 2)


_FACTS = tuple(
    Running(f"big-{number:04d}", "hash", f"c{number}", "node", _endpoint(number))
    for number in range(1, SIZE + 1)
)


def _readings(now_s: float, *, busy: int) -> dict[str, Reading]:
    return {
        fact.instance_id: Reading(
            fact.instance_id,
            now_s,
            live=Known(value=True),
            models=Known(LISTED),
            metrics={
                "pending": Known(float(busy)),
                "executing": Known(1.0),
                "requests_total": Known(10.0 * now_s),
            },
        )
        for fact in _FACTS
    }


def _seen(now_s: float, readings: Mapping[str, Reading]) -> Observation:
    return Observation(now_s, now_s, _FACTS, readings)


def _timed(fleet: Fleet, seen: Observation) -> tuple[float, Fleet]:
    began_s = time.perf_counter()
    after = tick(fleet, seen, RULES)
    return time.perf_counter() - began_s, after


def _ms(seconds: list[float]) -> float:
    return statistics.median(seconds) * 1e3
