"""A load over time: read from a CSV file or a frame, refused in words where it cannot be meant."""

import csv
import math
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import attrs

from tarn.errors import ConfigError

__all__ = ["COLUMNS", "Trace"]

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
    """Arrivals per second; each rate holds until the next moment, the last one ends the trace."""

    name: str
    moments_s: tuple[float, ...] = attrs.field(validator=_ascending, repr=False)
    """Seconds, growing; the first may be any."""
    rates: tuple[float, ...] = attrs.field(repr=False)
    """Requests per second from each moment on; the last one is not used."""

    @property
    def duration_s(self) -> float:
        """Seconds from the first moment to the last."""
        return self.moments_s[-1] - self.moments_s[0]

    def steps(self, step_s: float) -> Iterator[float]:
        """Yield the mean rate of each step of *step_s* seconds; a last part of a step is left out.

        No request is lost or made by it, however the moments lie between the steps.
        """
        first = self.moments_s[0]
        before = 0.0
        for number in range(1, math.floor(self.duration_s / step_s + 1e-9) + 1):
            until = self._requests(first + number * step_s)
            yield (until - before) / step_s
            before = until

    def _requests(self, moment_s: float) -> float:
        """Return how many requests came before *moment_s*."""
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
            ConfigError: It cannot be read, or a line of it cannot be meant; the message has the
                line's number.
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
        """Return the trace that *source* is: a path, a frame, or a mapping of two sequences.

        A frame is anything that gives a column for ``frame["t_s"]`` and
        ``frame["requests_per_s"]``, as pandas and polars do.

        Raises:
            ConfigError: It is none of these, or a row cannot be meant.
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
        """Return the columns, as `of` takes them."""
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
