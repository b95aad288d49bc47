"""How long requests wait at an instance: a smooth law of averages, without a single request.

An instance is a queue in front of ``slots`` equal servers. In a steady state at utilization rho it
holds, on average,

    L(rho) = slots x rho + rho ^ sqrt(2 (slots + 1)) / (1 - rho)

requests: those that execute, and those that wait (Sakasegawa's approximation for M/M/c; with
Poisson arrivals and exponential service times the factor of Allen and Cunneen is 1). Between steady
states the number x moves by ``dx/dt = arrivals - capacity x rho(x)``, where rho(x) is the
utilization at which L is x: the pointwise stationary fluid flow approximation. Far below saturation
this is the steady state, and beyond it the plain fluid backlog that is cleared at full capacity.

Sources: H. Sakasegawa, "An approximation formula Lq = a rho^b / (1 - rho)", Annals of the Institute
of Statistical Mathematics 29 (1977); A. O. Allen, "Probability, Statistics and Queueing Theory"
(1990), for Allen-Cunneen; W.-P. Wang, D. Tipper, S. Banerjee, "A simple approximation for modeling
nonstationary queues", IEEE INFOCOM 1996.
"""

import math
from bisect import bisect_right

__all__ = ["Queueing", "waiting"]

_FULLEST = 1 - 1e-5
"""Beyond this utilization an instance counts as saturated: a queue of 100,000."""
_POINTS = 4000
"""Of the table that is looked up; between two points it is a straight line."""


def waiting(slots: int, utilization: float) -> float:
    """Return the mean number of requests that wait in a steady state, by Sakasegawa."""
    if utilization <= 0:
        return 0.0
    return float(utilization ** math.sqrt(2 * (slots + 1)) / (1 - utilization))


class Queueing:
    """The law of one kind of instance, as a table.

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
        rhos = [_utilization(point / _POINTS) for point in range(_POINTS + 1)]
        held = [slots * rho + waiting(slots, rho) for rho in rhos]
        self._rhos = rhos
        self._sums = [x + self.served_at_most * rho for x, rho in zip(held, rhos, strict=True)]

    def step(self, held: float, arrived: float) -> tuple[float, float]:
        """Return (requests held after one step, utilization during it).

        The step is implicit (it uses the utilization at its end), so it is stable however short
        the service; held + arrived - served is kept to the last digit.
        """
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
        """Return how long a request waits that arrives now, by Little's law."""
        if utilization <= 0:
            return 0.0
        pending = held - self.executing(held, utilization)
        return pending * self._service_s / (self._slots * utilization)


def _utilization(share: float) -> float:
    """Return the place of a point of the table: the closer to saturation, the denser."""
    return _FULLEST * (1 - (1 - share) ** 3)
