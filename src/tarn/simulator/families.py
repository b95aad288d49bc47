"""Loads to compare policies by: five families, each trace made from a seed alone.

A trace has one row a second. In every family the rate carries a slow unrest of some percent,
as real loads do; the chance of single requests is part of the queueing law, not of the trace.
"""

import math
import random
from collections.abc import Callable, Mapping
from types import MappingProxyType

from tarn.simulator.trace import Trace

__all__ = ["FAMILIES", "generated"]

HOUR_S = 3600
_MOST = 2600.0
"""Requests per second; sixteen instances of the default model are full with it."""
_STAYS = 0.25
"""The chance that a ramp is level."""


def generated(family: str, seed: int) -> Trace:
    """Return the trace of *family* (a key of `FAMILIES`) that *seed* makes; always the same one."""
    chance = random.Random(f"{family} {seed}")  # noqa: S311 (no secret)
    rates = FAMILIES[family](chance)
    unrest = _unrest(chance, len(rates))
    clean = tuple(
        max(0.0, min(_MOST, rate * (1 + restless)))
        for rate, restless in zip(rates, unrest, strict=True)
    )
    moments = tuple(float(second) for second in range(len(clean) + 1))
    return Trace(f"{family}-{seed}", moments, (*clean, clean[-1]))


def _unrest(chance: random.Random, seconds: int) -> list[float]:
    """Return a deviation for each second, of 3 % on average, that lasts about 20 s."""
    keep = math.exp(-1 / 20)
    kick = 0.03 * math.sqrt(1 - keep * keep)
    deviation, made = 0.0, []
    for _ in range(seconds):
        deviation = keep * deviation + chance.gauss(0, kick)
        made.append(deviation)
    return made


def _step(chance: random.Random) -> list[float]:
    """One hour on levels that change at once, 2 to 6 times."""
    rates: list[float] = []
    level = chance.uniform(150, 500)
    changes = sorted(chance.randrange(300, HOUR_S - 300) for _ in range(chance.randint(2, 6)))
    for until in (*changes, HOUR_S):
        rates += [level] * (until - len(rates))
        level = chance.uniform(150, 2200)
    return rates


def _ramp(chance: random.Random) -> list[float]:
    """One hour that climbs, stays and falls in straight lines, each of 3 to 20 minutes."""
    rates: list[float] = []
    level = chance.uniform(100, 400)
    while len(rates) < HOUR_S:
        seconds = chance.randint(180, 1200)
        to = level if chance.random() < _STAYS else chance.uniform(100, 2300)
        rates += [level + (to - level) * second / seconds for second in range(seconds)]
        level = to
    return rates[:HOUR_S]


def _daily(chance: random.Random) -> list[float]:
    """A day in two hours: a night, a morning peak, a higher or lower one in the afternoon."""
    seconds = 2 * HOUR_S
    night = chance.uniform(40, 200)
    peaks = [
        (chance.uniform(0.38, 0.48), chance.uniform(0.05, 0.09), chance.uniform(600, 2000)),
        (chance.uniform(0.58, 0.72), chance.uniform(0.06, 0.11), chance.uniform(600, 2000)),
    ]
    return [
        night
        + sum(
            height * math.exp(-(((second / seconds - at) / width) ** 2) / 2)
            for at, width, height in peaks
        )
        for second in range(seconds)
    ]


def _bursty(chance: random.Random) -> list[float]:
    """One hour of a quiet level, and bursts of 2 to 8 times of it that last 15 to 240 s."""
    base = chance.uniform(120, 400)
    rates = [base] * HOUR_S
    second = chance.expovariate(1 / 240)
    while second < HOUR_S:
        lasts, height = chance.uniform(15, 240), base * chance.uniform(2, 8)
        for at in range(int(second), min(HOUR_S, int(second + lasts))):
            rates[at] = max(rates[at], height)
        second += lasts + chance.expovariate(1 / 300)
    return rates


def _sparse(chance: random.Random) -> list[float]:
    """One hour with nothing most of the time, and stretches of work of 1 to 8 minutes."""
    rates = [0.0] * HOUR_S
    second = chance.uniform(60, 600)
    while second < HOUR_S:
        lasts, height = chance.uniform(60, 480), chance.uniform(5, 600)
        for at in range(int(second), min(HOUR_S, int(second + lasts))):
            rates[at] = height
        second += lasts + chance.uniform(120, 900)
    return rates


FAMILIES: Mapping[str, Callable[[random.Random], list[float]]] = MappingProxyType(
    {"step": _step, "ramp": _ramp, "daily": _daily, "bursty": _bursty, "sparse": _sparse}
)
"""Name of a family to what makes its rates, a second each."""
