"""Fleets, instances, readings and facts in a line each, for tests of the pure core."""

from collections.abc import Mapping
from typing import Any

import attrs

from tarn.domain import (
    ClusterSpec,
    DiscoveryView,
    Ended,
    Endpoint,
    Epoch,
    ExitStatus,
    Fact,
    Instance,
    InstanceState,
    Known,
    Member,
    ModelState,
    Reading,
    Running,
    Sample,
    Unknown,
    Wish,
)
from tarn.domain.fleet import Fleet, Rules
from tarn.domain.fold_facts import fold_facts
from tarn.domain.fold_readings import fold_readings
from tarn.domain.spec import DrainSpec, InstanceSpec, ModelsSpec, ReplicasSpec, ScalingSpec
from tarn.domain.tick import Observation, tick

EPOCH = Epoch(1, 1)
NOW_S = 1000.0
AT = 1_700_000_000.0
READY_MODEL = (ModelState("echo", "READY"),)


def rules(*, required: tuple[str, ...] = (), ceiling: int | None = None, **parts: Any) -> Rules:
    """Return rules of a spec for 0 to 8 replicas: quiesce 2 s, drains 20 s, starts 60 s."""
    defaults: dict[str, Any] = {
        "replicas": ReplicasSpec(min=0, max=8),
        "drain": DrainSpec(timeout_s=20.0, quiesce_s=2.0),
        "instance": InstanceSpec(start_timeout_s=60.0),
        "scaling": ScalingSpec(cooldown_s=60.0),
    }
    spec = ClusterSpec("w", ModelsSpec("/models"), **(defaults | parts))
    reason = "" if ceiling is None else "the pool is full"
    return Rules(spec, "hash", frozenset(required), ceiling, reason)


def name(number: int) -> str:
    return f"w-{number:04d}"


def endpoint(number: int) -> Endpoint:
    return Endpoint("h", 3 * number, 3 * number + 1, 3 * number + 2)


def asked(number: int, **more: Any) -> Instance:
    """Return an instance that is only asked for."""
    return Instance(name(number), "hash", since_s=NOW_S, requested_s=NOW_S, **more)


def starting(number: int, **more: Any) -> Instance:
    """Return one whose process exists."""
    values: dict[str, Any] = {
        "state": InstanceState.STARTING,
        "container_id": f"c{number}",
        "node": "h",
        "endpoint": endpoint(number),
    }
    return attrs.evolve(asked(number), **(values | more))


def ready(number: int, **more: Any) -> Instance:
    """Return one that serves since 100 s, with nothing to do."""
    values = {
        "state": InstanceState.READY,
        "serving": True,
        "ready_s": NOW_S - 100.0,
        "busy": Known(0.0),
    }
    return starting(number, **(values | more))


def draining(number: int, **more: Any) -> Instance:
    """Return one that began to drain now, and was ready before."""
    return ready(number, **({"state": InstanceState.DRAINING} | more))


def fleet(*instances: Instance, desired: int | None = None, **more: Any) -> Fleet:
    """Return a fleet whose view shows who is in it."""
    members = tuple(
        Member(i.id, i.container_id or i.id, i.endpoint, i.spec_hash)
        for i in instances
        if i.in_view and i.endpoint
    )
    values: dict[str, Any] = {
        "view": DiscoveryView(EPOCH, 5, complete=True, members=members),
        "next_number": max((i.number + 1 for i in instances), default=1),
        "started_s": NOW_S - 100.0,
    }
    size = len(instances) if desired is None else desired
    return Fleet("w", EPOCH, size, instances, **(values | more))


def reading(
    number: int,
    now_s: float = NOW_S,
    *,
    busy: Sample[float] | None = None,
    models: tuple[ModelState, ...] = READY_MODEL,
    **more: Any,
) -> Reading:
    """Return what a healthy Triton answers."""
    metrics: Mapping[str, Sample[float]] = {
        "pending": Known(0.0) if busy is None else busy,
        "executing": Known(0.0),
    }
    values = {"live": Known(value=True), "models": Known(models), "metrics": metrics}
    return Reading(name(number), now_s, **(values | more))


def silent(number: int, now_s: float = NOW_S) -> Reading:
    """Return a reading of one that did not answer."""
    late = Unknown("no answer for 2 s")
    return Reading(name(number), now_s, late, models=late)


def gone(number: int, now_s: float = NOW_S) -> Reading:
    """Return a reading of one whose port is closed for certain."""
    refused = Unknown("connection refused")
    return Reading(name(number), now_s, refused, "connection refused", refused)


def readings(*some: Reading) -> dict[str, Reading]:
    return {r.instance_id: r for r in some}


def running(number: int, **more: Any) -> Running:
    return Running(name(number), "hash", f"c{number}", "h", endpoint(number), **more)


def ended(number: int, reason: str = "killed by signal 9", **more: Any) -> Ended:
    return Ended(name(number), "hash", ExitStatus(reason, **more))


def at(now_s: float) -> float:
    """Return the wall time at a monotonic moment."""
    return AT + now_s - NOW_S


def step(
    some: Fleet,
    by: Rules,
    now_s: float = NOW_S,
    facts: tuple[Fact, ...] = (),
    *read: Reading,
    wish: Sample[Wish] | None = None,
    late: bool = False,
) -> Fleet:
    """Return *some* after one tick."""
    unasked = Unknown("no policy") if wish is None else wish
    seen = Observation(now_s, at(now_s), facts, readings(*read), wish=unasked, late=late)
    return tick(some, seen, by)


def one(some: Fleet, number: int) -> Instance:
    """Return the instance with *number*, alive or over."""
    return next(i for i in (*some.instances, *some.ended) if i.id == name(number))


def codes(some: Fleet) -> list[str]:
    return [event.code for event in some.events]


RULES = rules()


def told(some: Fleet, *facts: Fact, now_s: float = NOW_S) -> Fleet:
    """Return *some* after the runtime's word."""
    return fold_facts(some, facts, now_s, AT)


def read(some: Fleet, *what: Reading, now_s: float = NOW_S, late: bool = False) -> Fleet:
    """Return *some* after the scraper's word."""
    return fold_readings(some, readings(*what), RULES, now_s, AT, late=late)


def fail(some: Fleet, instance: Instance, now_s: float = NOW_S) -> Fleet:
    """Return *some* after *instance* joined it and failed."""
    some = attrs.evolve(some, instances=(*some.instances, instance))
    others = (running(i.number) for i in some.instances[:-1])
    return told(some, *others, ended(instance.number), now_s=now_s)
