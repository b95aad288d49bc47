"""A load over time: read from a CSV file or a frame, or generated from a seed.

The rate of every generated load varies slowly by some percent, as real loads do. The randomness of
single requests is part of the queueing law, and not of the trace.
"""

import csv
import math
import random
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Any

import attrs

from tarn.errors import ConfigError

__all__ = ["COLUMNS", "FAMILIES", "Trace", "generated"]

COLUMNS = ("t_s", "requests_per_s")
_RIGHT = "Expected a line like '60,125.5': seconds since the first line, requests per second"
_HEADER = "Expected the first line 't_s,requests_per_s'"


def _ascending(_trace: "Trace", _field: object, moments: tuple[float, ...]) -> None:
    if len(moments) < 2:  # noqa: PLR2004 (a span has two ends)
        raise ValueError("a trace needs at least two moments: the last one says when it ends")
    if any(later <= earlier for earlier, later in pairwise(moments)):
        raise ValueError("the moments of a trace must grow")


@attrs.frozen
class Trace:
    """Arrivals per second; each rate holds until the next moment, the last of which is the end."""

    name: str
    moments_s: tuple[float, ...] = attrs.field(validator=_ascending, repr=False)
    """Ascending seconds; the first may be any number."""
    rates: tuple[float, ...] = attrs.field(repr=False)
    """Requests per second from each moment on; the last one is not used."""

    @property
    def duration_s(self) -> float:
        """Seconds from the first moment to the last."""
        return self.moments_s[-1] - self.moments_s[0]

    def steps(self, step_s: float) -> Iterator[float]:
        """Yield the mean rate of each whole step of *step_s* seconds."""
        # differences of sums, so that no request is lost or counted twice between the steps
        first = self.moments_s[0]
        before = 0.0
        for number in range(1, math.floor(self.duration_s / step_s + 1e-9) + 1):
            until = self._requests(first + number * step_s)
            yield (until - before) / step_s
            before = until

    def _requests(self, moment_s: float) -> float:
        """Return how many requests arrive before *moment_s*."""
        sums = self._sums
        place = min(bisect_right(self.moments_s, moment_s), len(self.moments_s) - 1) - 1
        return sums[place] + self.rates[place] * (moment_s - self.moments_s[place])

    _sums: tuple[float, ...] = attrs.field(init=False, repr=False, eq=False)

    @_sums.default
    def _summed(self) -> tuple[float, ...]:
        sums = [0.0]
        for (earlier, later), rate in zip(pairwise(self.moments_s), self.rates, strict=False):
            sums.append(sums[-1] + rate * (later - earlier))
        return tuple(sums)

    @classmethod
    def read(cls, path: Path) -> "Trace":
        """Read a CSV file with the header ``t_s,requests_per_s``.

        Raises:
            ConfigError: It cannot be read, or a line is not valid; the message has the line's
                number.
        """
        try:
            with path.open(newline="", encoding="utf-8-sig") as file:
                return cls._of_rows(path.stem, str(path), csv.reader(file))
        except (OSError, UnicodeDecodeError, csv.Error) as error:
            raise ConfigError(
                f"the trace cannot be read: {error}",
                where=str(path),
                right="Expected a CSV file with the columns t_s and requests_per_s",
            ) from error

    @classmethod
    def of(cls, source: Any, name: str = "trace") -> "Trace":
        """Return the trace of *source*: a path, a frame, or a mapping of two sequences.

        A frame is anything that returns a column for ``frame["t_s"]`` and
        ``frame["requests_per_s"]``, as those of pandas and polars do.

        Raises:
            ConfigError: It is none of these, or a row is not valid.
        """
        if isinstance(source, Trace):
            return source
        if isinstance(source, str | Path):
            return cls.read(Path(source))
        try:
            columns = [list(source[column]) for column in COLUMNS]
        except (KeyError, TypeError, IndexError, ValueError) as error:
            raise ConfigError(
                f"a {type(source).__name__} without the columns {' and '.join(COLUMNS)}",
                where=name,
                right="Expected {'t_s': [0, 60], 'requests_per_s': [10, 0]}, a frame with these "
                "columns, or the path of a CSV file",
            ) from error
        if len(columns[0]) != len(columns[1]):
            raise ConfigError(
                f"{len(columns[0])} moments and {len(columns[1])} rates",
                where=name,
                right="Both columns must be of one length",
            )
        rows = (
            _numbers(row, f"{name}, row {n}") for n, row in enumerate(zip(*columns, strict=True))
        )
        return cls._made(name, name, rows)

    @classmethod
    def _of_rows(cls, name: str, where: str, rows: Iterator[list[str]]) -> "Trace":
        header = [word.strip() for word in next(rows, [])]
        missing = [column for column in COLUMNS if column not in header]
        if missing:
            found = f"no column {' and '.join(missing)} in the header {','.join(header)!r}"
            raise ConfigError(found, where=f"{where}, line 1", right=_HEADER)
        places = [header.index(column) for column in COLUMNS]
        return cls._made(name, where, _parsed(rows, places, where))

    @classmethod
    def _made(cls, name: str, where: str, rows: Iterable[tuple[float, float]]) -> "Trace":
        read = list(_growing(rows, where))
        if len(read) < 2:  # noqa: PLR2004 (a span has two ends)
            raise ConfigError(
                f"{len(read)} rows of numbers",
                where=where,
                right="At least two are needed: each rate holds until the next row's t_s, and the "
                "last row ends the trace",
            )
        moments, rates = zip(*read, strict=True)
        return cls(name, moments, rates)

    def plain(self) -> Mapping[str, list[float]]:
        """Return the columns, as `of` accepts them."""
        return {"t_s": list(self.moments_s), "requests_per_s": list(self.rates)}


def _parsed(
    rows: Iterator[list[str]], places: list[int], where: str
) -> Iterator[tuple[float, float]]:
    for number, row in enumerate(rows, start=2):
        if not any(word.strip() for word in row):
            continue
        if len(row) <= max(places):
            found = f"{len(row)} of {max(places) + 1} values: {','.join(row)!r}"
            raise ConfigError(found, where=f"{where}, line {number}", right=_RIGHT)
        yield _numbers([row[place] for place in places], f"{where}, line {number}")


def _numbers(row: Iterable[Any], where: str) -> tuple[float, float]:
    numbers = []
    for column, value in zip(COLUMNS, row, strict=True):
        try:
            number = float(value)
        except (TypeError, ValueError) as error:
            found = f"{column} = {value!r} is not a number"
            raise ConfigError(found, where=where, right=_RIGHT) from error
        if not math.isfinite(number):
            raise ConfigError(f"{column} = {value!r} is not finite", where=where, right=_RIGHT)
        numbers.append(number)
    if numbers[1] < 0:
        found = f"requests_per_s = {numbers[1]:g} is below 0"
        raise ConfigError(found, where=where, right=_RIGHT)
    return numbers[0], numbers[1]


def _growing(rows: Iterable[tuple[float, float]], where: str) -> Iterator[tuple[float, float]]:
    before = -math.inf
    for place, (moment_s, rate) in enumerate(rows):
        if moment_s <= before:
            raise ConfigError(
                f"t_s = {moment_s:g} comes after t_s = {before:g}",
                where=f"{where}, row {place + 1} of numbers",
                right="Expected moments that grow from row to row",
            )
        before = moment_s
        yield moment_s, rate


HOUR_S = 3600
_MOST = 2600.0  # requests per second; they fill sixteen instances of the default model
_STAYS = 0.25  # the probability that a ramp is level


def generated(family: str, seed: int) -> Trace:
    """Return the trace of *family*, a key of `FAMILIES`, for *seed*; it is always the same."""
    chance = random.Random(f"{family} {seed}")  # noqa: S311 (no secret)
    rates = FAMILIES[family](chance)
    # a random deviation with a standard deviation of 3 % that lasts about 20 s
    keep = math.exp(-1 / 20)
    kick = 0.03 * math.sqrt(1 - keep * keep)
    deviation, made = 0.0, list[float]()
    for rate in rates:
        deviation = keep * deviation + chance.gauss(0, kick)
        made.append(max(0.0, min(_MOST, rate * (1 + deviation))))
    moments = tuple(float(second) for second in range(len(made) + 1))
    return Trace(f"{family}-{seed}", moments, (*made, made[-1]))


def _step(chance: random.Random) -> list[float]:
    """One hour of constant levels that change abruptly, 2 to 6 times."""
    rates: list[float] = []
    level = chance.uniform(150, 500)
    changes = sorted(chance.randrange(300, HOUR_S - 300) for _ in range(chance.randint(2, 6)))
    for until in (*changes, HOUR_S):
        rates += [level] * (until - len(rates))
        level = chance.uniform(150, 2200)
    return rates


def _ramp(chance: random.Random) -> list[float]:
    """One hour of straight lines up, level or down, each of 3 to 20 minutes."""
    rates: list[float] = []
    level = chance.uniform(100, 400)
    while len(rates) < HOUR_S:
        seconds = chance.randint(180, 1200)
        to = level if chance.random() < _STAYS else chance.uniform(100, 2300)
        rates += [level + (to - level) * second / seconds for second in range(seconds)]
        level = to
    return rates[:HOUR_S]


def _daily(chance: random.Random) -> list[float]:
    """A day compressed into two hours: a night, and peaks in the morning and the afternoon."""
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
    """One hour of a quiet level, with bursts of 2 to 8 times that level for 15 to 240 s."""
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
    """One hour without load for most of the time, with periods of work of 1 to 8 minutes."""
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
"""Name of a family to the function that makes its rates, one for each second."""
