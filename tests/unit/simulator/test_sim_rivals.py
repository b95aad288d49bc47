"""The rules of others, held against their own documentation."""

from typing import Any

import pytest

from tarn.domain import FleetView, Instance, InstanceState, Known, Limits, Unknown
from tarn_plugins.cli.simulate.rivals import RIVALS


def view(
    ready: int,
    *,
    coming: int = 0,
    now_s: float = 100.0,
    desired: int | None = None,
    waiting: int = 0,
    low: int = 0,
    **signals: float,
) -> FleetView:
    states = [InstanceState.READY] * ready + [InstanceState.STARTING] * coming
    there = tuple(Instance(f"r-{n:04d}", "h", state) for n, state in enumerate(states, 1))
    told: dict[str, Any] = {name: ((now_s, Known(value)),) for name, value in signals.items()}
    size = ready + coming if desired is None else desired
    return FleetView(now_s, size, Limits(low, 100), there, told, waiting=waiting)


def policy(name: str, **options: object) -> Any:
    factory = RIVALS[name].factory
    return factory.create(factory.settings(**options), None)


@pytest.mark.parametrize(
    ("ready", "coming", "utilization", "size"),
    [
        (4, 0, 0.80, 4),
        (4, 0, 0.87, 4),  # within the tolerance of 0.1
        (4, 0, 0.89, 5),  # ceil(4 x 1.1125)
        (4, 0, 0.40, 2),
        (4, 0, 0.73, 4),
        (4, 4, 1.00, 8),  # 5 are needed, 8 are on their way: never fewer while it would grow
        (4, 1, 1.00, 5),  # diluted by the one that starts: exactly on target
        (4, 1, 0.40, 2),  # those that start do not count when it would shrink
        (1, 0, 1.00, 2),
        (3, 0, 0.0, 1),  # it never goes to zero
    ],
)
def test_hpa_by_the_replica_calculator(
    ready: int, coming: int, utilization: float, size: int
) -> None:
    """Ratio, tolerance, and pods that are not ready yet."""
    wish = policy("hpa").wanted(view(ready, coming=coming, gpu_utilization=utilization))
    assert wish.replicas == size


def test_hpa_grows_by_the_greater_of_doubling_and_four() -> None:
    """In one sync of 15 s."""
    hpa = policy("hpa", target=0.05)
    assert hpa.wanted(view(1, gpu_utilization=1.0)).replicas == 5
    assert hpa.wanted(view(10, gpu_utilization=1.0)).replicas == 20
    unknown = view(3)
    unknown.signals["gpu_utilization"] = ((100.0, Unknown("not said")),)
    assert hpa.wanted(unknown).replicas == 3


def knative_sizes(loads: list[float], ready: int, **options: object) -> list[int | None]:
    kpa = policy("knative", **options)
    return [
        kpa.wanted(view(ready, now_s=2.0 * n, in_flight=load)).replicas
        for n, load in enumerate(loads)
    ]


def test_knative_follows_the_stable_window() -> None:
    """The mean of 60 s over 11.2 requests a pod."""
    assert knative_sizes([22.4] * 5, 2) == [2] * 5
    assert knative_sizes([22.4] * 29 + [11.2], 2)[-1] == 2
    assert knative_sizes([22.4] + [11.2] * 31, 2)[-1] == 1


def test_knative_panics_at_twice_its_pods_and_then_never_shrinks() -> None:
    """Six seconds are enough; it calms down a stable window after the last alarm."""
    sizes = knative_sizes([11.2] * 30 + [112.0] * 6 + [11.2] * 40, 1)
    assert sizes[29] == 1
    assert sizes[32] == 10
    assert sizes[33:62] == [10] * 29
    assert sizes[-1] == 1


def test_knative_shrinks_by_half_at_most() -> None:
    """``max-scale-down-rate`` counts from the ready pods."""
    assert knative_sizes([1.0] * 32, 10)[-1] == 5


def test_knative_begins_in_panic_where_there_are_pods() -> None:
    """Without a history it must not shrink: a stable window passes first."""
    assert knative_sizes([0.0] * 31, 4) == [4] * 31
    assert knative_sizes([11.2] * 3, 1) == [1] * 3


def test_knative_keeps_the_last_pod_for_the_grace_period() -> None:
    """A stable window without a request, and 30 s more; who waits at the activator counts."""
    sizes = knative_sizes([5.0] + [0.0] * 50, 1)
    assert sizes.index(0) * 2 == 60 + 30
    kpa = policy("knative")
    assert kpa.wanted(view(0, waiting=23)).replicas == 3


@pytest.mark.parametrize(
    ("ready", "busy", "queue", "size"),
    [
        (2, 0.71, 0, 3),
        (2, 0.70, 0, 2),
        (2, 0.10, 23, 3),  # 23 of 32 queued
        (2, 0.10, 3, 1),
        (2, 0.30, 3, 2),
        (1, 0.0, 0, 1),  # its minimum
        (2, 0.0, 100000, 3),  # one step, however long the queue
    ],
)
def test_java_steps_by_one(ready: int, busy: float, queue: float, size: int) -> None:
    """The greater of utilization and queue, between two thresholds."""
    wish = policy("java").wanted(view(ready, gpu_utilization=busy, pending=queue, low=1))
    assert wish.replicas == size


def test_java_without_instances_looks_at_who_waits() -> None:
    """Load 1 when somebody does."""
    assert policy("java").wanted(view(0, waiting=3)).replicas == 1
    assert policy("java").wanted(view(0)).replicas == 0


def test_each_brings_the_guard_of_its_documentation() -> None:
    """Sync period, stabilization, cooldown."""
    guards = {
        name: (r.guard.interval_s, r.guard.up.window_s, r.guard.down.window_s, r.guard.cooldown_s)
        for name, r in RIVALS.items()
    }
    assert guards == {
        "hpa": (15.0, 0.0, 300.0, 0.0),
        "knative": (2.0, 0.0, 0.0, 0.0),
        "java": (15.0, 0.0, 0.0, 60.0),
    }
