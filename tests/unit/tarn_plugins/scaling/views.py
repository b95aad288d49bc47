"""Views of a fleet, for tests of policies: what serves, what comes, and what is measured."""

import attrs

from tarn.domain import FleetView, Instance, InstanceState, Known, Limits, Sample

NOW_S = 1000.0


def view(
    desired: int,
    ready: int | None = None,
    *,
    waiting: int = 0,
    limits: Limits = Limits(0, 100),  # noqa: B008 (frozen)
    asked_s: float = NOW_S - 5,
    **signals: float | Sample[float],
) -> FleetView:
    """Return a fleet of *desired*, of which *ready* serve (None: all) and the others start.

    The ready ones took 20 s to start; those that start were asked for at *asked_s*.
    """
    ready = desired if ready is None else ready
    there = [instance(n, InstanceState.READY, 0.0) for n in range(1, ready + 1)]
    coming = [instance(n, InstanceState.STARTING, asked_s) for n in range(ready + 1, desired + 1)]
    return FleetView(
        NOW_S,
        desired,
        limits,
        (*there, *coming),
        {name: ((NOW_S, sample(value)),) for name, value in signals.items()},
        waiting=waiting,
    )


def instance(number: int, state: InstanceState, requested_s: float) -> Instance:
    """Return one of the fleet."""
    ready_s = requested_s + 20 if state is InstanceState.READY else None
    return Instance(
        f"w-{number:04d}", "aaaaaaaaaaaa", state, requested_s=requested_s, ready_s=ready_s
    )


def sample(value: float | Sample[float]) -> Sample[float]:
    """Return a number as what was just read."""
    return Known(float(value)) if isinstance(value, int | float) else value


def history(fleet: FleetView, **signals: tuple[float, ...]) -> FleetView:
    """Return *fleet* with the values of each signal, a second apart, the last one now."""
    timed = {
        name: tuple(
            (NOW_S - len(values) + 1 + place, Known(value)) for place, value in enumerate(values)
        )
        for name, values in signals.items()
    }
    return attrs.evolve(fleet, signals={**fleet.signals, **timed})
