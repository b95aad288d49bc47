"""The assumptions about instances and their machines, and the law by which requests wait."""

import math
import random
from bisect import bisect_right

import attrs
from attrs.validators import ge, gt, in_, optional

__all__ = ["Queueing", "WorldModel", "waiting"]

_DAWN = 1_767_571_200.0  # 2026-01-05T00:00:00Z, a Monday


@attrs.frozen
class WorldModel:
    """Everything that a simulation assumes besides the spec and the trace."""

    slots: int = attrs.field(default=16, validator=ge(1))
    """Requests that one instance executes at once."""
    service_s: float = attrs.field(default=0.1, validator=gt(0))
    """Seconds that a request executes, independent of the others."""
    clients: int = attrs.field(default=0, validator=ge(0))
    """Clients that each send the next request when the last one was answered, besides the load of
    the trace. At most one a step, so ``step`` should not be longer than ``service``."""
    start_s: float = attrs.field(default=30.0, validator=ge(0))
    """Seconds from the grant of a container until the instance serves."""
    start_spread: float = attrs.field(default=0.0, validator=ge(0))
    """Fraction of ``start_s`` by which a start may take longer; each draws its own time."""
    grants_per_second: float | None = attrs.field(default=None, validator=optional(gt(0)))
    """Containers that the runtime grants in a second; None: all at once."""
    room: int | None = attrs.field(default=None, validator=optional(ge(0)))
    """Instances for which the nodes have room, including draining ones; None: no limit."""
    failures_per_hour: float = attrs.field(default=0.0, validator=ge(0))
    """Failures of one serving instance; its requests are lost then."""
    fail_at_s: tuple[float, ...] = ()
    """Moments at which the oldest serving instance fails."""
    sick_at_s: tuple[float, ...] = ()
    """Moments at which the oldest healthy instance becomes ill, but still reports that it is
    ready."""
    sickness: str = attrs.field(default="failing", validator=in_(("failing", "stalled")))
    """``failing``: an ill instance fails each request at once; ``stalled``: it accepts requests and
    never answers."""
    patience_s: float = attrs.field(default=30.0, validator=gt(0))
    """Seconds without an instance after which a request is lost; the default of TARN's client."""
    step_s: float = attrs.field(default=1.0, validator=ge(0.1))
    """Seconds of one step."""
    seed: int = 0
    """Seed of the starts' times and of the failures."""
    begins_at: float = _DAWN
    """Wall time of the trace's first second (Unix seconds), for policies with a calendar; by
    default midnight of a Monday, UTC."""
    begins: str = attrs.field(default="serving", validator=in_(("serving", "empty")))
    """``serving``: the first instances serve already; ``empty``: they have yet to start."""

    def starting_s(self, number: int) -> float:
        """Return how long the start of the *number*-th instance takes."""
        if not self.start_spread:
            return self.start_s
        drawn = random.Random(f"start {self.seed} {number}").random()  # noqa: S311 (no secret)
        return self.start_s * (1 + self.start_spread * drawn)

    def living_s(self, number: int) -> float:
        """Return how long the *number*-th instance serves until it fails."""
        if not self.failures_per_hour:
            return float("inf")
        drawn = random.Random(f"life {self.seed} {number}")  # noqa: S311 (no secret)
        return drawn.expovariate(self.failures_per_hour / 3600)


# How long requests wait at an instance: a smooth law of averages, without a single request.
#
# An instance is a queue in front of ``slots`` equal servers. In a steady state at utilization rho
# it holds, on average,
#
#     L(rho) = slots x rho + rho ^ sqrt(2 (slots + 1)) / (1 - rho)
#
# requests: those that execute, and those that wait (Sakasegawa's approximation for M/M/c; with
# Poisson arrivals and exponential service times the factor of Allen and Cunneen is 1). Between
# steady states the number x moves by ``dx/dt = arrivals - capacity x rho(x)``, where rho(x) is the
# utilization at which L is x: the pointwise stationary fluid flow approximation. Far below
# saturation this is the steady state, and beyond it the plain fluid backlog that is cleared at full
# capacity.
#
# Sources: H. Sakasegawa, "An approximation formula Lq = a rho^b / (1 - rho)", Annals of the
# Institute of Statistical Mathematics 29 (1977); A. O. Allen, "Probability, Statistics and Queueing
# Theory" (1990), for Allen-Cunneen; W.-P. Wang, D. Tipper, S. Banerjee, "A simple approximation for
# modeling nonstationary queues", IEEE INFOCOM 1996.
_FULLEST = 1 - 1e-5  # an instance counts as saturated from here on: a queue of 100,000
_POINTS = 4000  # of the table, which is interpolated by straight lines


def waiting(slots: int, utilization: float) -> float:
    """Return the mean number of waiting requests in a steady state, by Sakasegawa."""
    if utilization <= 0:
        return 0.0
    return float(utilization ** math.sqrt(2 * (slots + 1)) / (1 - utilization))


class Queueing:
    """The queueing law of one kind of instance, as a table.

    Args:
        slots: Requests that execute at once.
        service_s: Seconds that one executes.
        step_s: Length of a step.
    """

    def __init__(self, slots: int, service_s: float, step_s: float) -> None:
        self._slots = slots
        self._service_s = service_s
        self.served_at_most = slots / service_s * step_s
        """Requests that an instance can finish in one step."""
        # the closer to saturation, the denser are the points
        rhos = [_FULLEST * (1 - (1 - point / _POINTS) ** 3) for point in range(_POINTS + 1)]
        held = [slots * rho + waiting(slots, rho) for rho in rhos]
        self._rhos = rhos
        self._sums = [x + self.served_at_most * rho for x, rho in zip(held, rhos, strict=True)]

    def step(self, held: float, arrived: float) -> tuple[float, float]:
        """Return (requests held after one step, utilization during it)."""
        # The step is implicit: it uses the utilization at its end, so it is stable for any service
        # time. held + arrived - served is exact to the last digit.
        total = held + arrived
        if total <= 0:
            return 0.0, 0.0
        sums, rhos = self._sums, self._rhos
        place = bisect_right(sums, total)
        if place >= len(sums):
            rho = 1.0
        else:
            low, high = sums[place - 1], sums[place]
            share = (total - low) / (high - low)
            rho = rhos[place - 1] + share * (rhos[place] - rhos[place - 1])
        served = min(total, self.served_at_most * rho)
        return total - served, rho

    def executing(self, held: float, utilization: float) -> float:
        """Return how many of *held* requests execute; the others wait."""
        return min(held, self._slots * utilization)

    def wait_s(self, held: float, utilization: float) -> float:
        """Return how long a request that arrives now waits, by Little's law."""
        if utilization <= 0:
            return 0.0
        pending = held - self.executing(held, utilization)
        return pending * self._service_s / (self._slots * utilization)
