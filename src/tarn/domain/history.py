"""The last hours of a fleet in a fixed number of rows: size, load, requests. Pure.

The same looks are kept at three grains, from ten seconds for three hours to ten minutes for two
weeks, so what it takes does not grow. A step in which nobody looked has no numbers: unknown is
never zero.
"""

import math
from collections.abc import Iterator, Mapping

import attrs

from tarn.domain.counters import Counters, Growth, after, grew

__all__ = [
    "COLUMNS",
    "GRAINS",
    "FleetHistory",
    "Grain",
    "HistorySample",
    "HistoryStep",
    "Mean",
    "Row",
]

COLUMNS = (
    *("at", "desired", "ready", "running", "load", "queue"),
    *("requests_per_s", "failures_per_s", "latency_ms"),
)
Row = tuple[float | None, ...]
"""One step, as `COLUMNS` names its parts: wall seconds of its beginning; sizes as they were last;
means of load (0 to 1) and queue (requests); rates a second; the mean milliseconds of a request
that ended in it. None where it is not known."""

NOT_LOOKED_S = 60.0
"""Between two looks further apart nothing is counted: a master was away, or the clock was set."""


@attrs.frozen
class HistorySample:
    """What one moment shows. Times are wall seconds."""

    at: float
    desired: int
    ready: int
    running: int
    """Instances that have a process."""
    load: float | None = None
    """Mean over the instances of which it is known, 0 to 1."""
    queue: float | None = None
    """Requests that wait in all of them."""
    counted: Mapping[str, Counters | None] = attrs.field(factory=dict, hash=False)
    """Id of each instance that has a process to its counters; None where they are not known."""


@attrs.frozen
class Mean:
    """A mean over the looks at which a number was known."""

    total: float = 0.0
    looks: int = 0

    def plus(self, value: float | None) -> "Mean":
        """Return it with one more value; one that is not known, or has no sum, changes nothing."""
        total = math.nan if value is None else self.total + value
        return Mean(total, self.looks + 1) if math.isfinite(total) else self

    @property
    def value(self) -> float | None:
        """The mean; None without a value."""
        return self.total / self.looks if self.looks else None


@attrs.frozen
class HistoryStep:
    """A step that is being filled."""

    at: float
    desired: int
    ready: int
    running: int
    load: Mean = attrs.field(factory=Mean)
    queue: Mean = attrs.field(factory=Mean)
    growth: Growth | None = None

    def row(self) -> Row:
        """Return what it says so far."""
        return (
            self.at,
            self.desired,
            self.ready,
            self.running,
            _short(self.load.value),
            _short(self.queue.value),
            *_rates(self.growth),
        )


@attrs.frozen
class Grain:
    """One resolution: rows of *step_s* seconds, of which *keep* are kept."""

    step_s: int
    keep: int
    rows: tuple[Row, ...] = ()
    """Whole steps, oldest first; one in which nobody looked is not there."""
    open: HistoryStep | None = None

    @property
    def span_s(self) -> int:
        """How far back it can reach."""
        return self.step_s * self.keep

    def looked(self, look: HistorySample, growth: Growth | None) -> "Grain":
        """Return it with one more look; rows of a future that the clock took back are dropped."""
        at = look.at // self.step_s * self.step_s
        step, rows = self.open, self.rows
        if step is not None and step.at < at:
            rows, step = (*rows, step.row())[-self.keep :], None
        if step is None or step.at > at:
            rows = tuple(row for row in rows if (row[0] or 0) < at) if _ahead(rows, at) else rows
            step = HistoryStep(at, look.desired, look.ready, look.running)
        step = attrs.evolve(
            step,
            desired=look.desired,
            ready=look.ready,
            running=look.running,
            load=step.load.plus(look.load),
            queue=step.queue.plus(look.queue),
            growth=growth if step.growth is None else step.growth.plus(growth),
        )
        return attrs.evolve(self, rows=rows, open=step)

    def since(self, at: float) -> Iterator[Row]:
        """Yield a row for each step from *at* on, oldest first; Nones where nobody looked."""
        shown = self.rows if self.open is None else (*self.rows, self.open.row())
        newest = (shown[-1][0] or 0.0) if shown else 0.0
        first = max(at - self.step_s, newest - self.span_s)
        last: float | None = None
        for row in shown:
            begun = row[0] or 0.0
            if begun <= first:
                continue
            if last is not None:
                yield from self._missed(last, begun)
            yield row
            last = begun

    def _missed(self, last: float, until: float) -> Iterator[Row]:
        count = round((until - last) / self.step_s) - 1
        for number in range(count, 0, -1):
            yield (until - number * self.step_s, *(None,) * (len(COLUMNS) - 1))


GRAINS = (Grain(10, 1080), Grain(60, 1440), Grain(600, 2016))
"""Three hours, a day, two weeks."""


@attrs.frozen
class FleetHistory:
    """What was seen, at each grain."""

    grains: tuple[Grain, ...] = GRAINS
    at: float | None = None
    """Of the newest look; None: there was none."""
    counted: Mapping[str, Counters] = attrs.field(factory=dict, hash=False)
    """Id of each instance that has a process to the newest counters that were known."""

    def looked(self, look: HistorySample) -> "FleetHistory":
        """Return it with one more look."""
        growth = self._growth(look)
        return FleetHistory(
            tuple(grain.looked(look, growth) for grain in self.grains),
            look.at,
            after(self.counted, look.counted),
        )

    def grain(self, since_s: float) -> Grain:
        """Return the finest grain that reaches *since_s* seconds back, or the coarsest."""
        return next((g for g in self.grains if g.span_s >= since_s), self.grains[-1])

    def _growth(self, look: HistorySample) -> Growth | None:
        """Return what was counted since the look before; None where that is not known."""
        if self.at is None or not 0 < look.at - self.at <= NOT_LOOKED_S:
            return None
        known = {id_: said for id_, said in look.counted.items() if said is not None}
        if look.ready and not known:
            return None
        growth = Growth(look.at - self.at)
        for id_, said in known.items():
            before = self.counted.get(id_)
            if before is not None:
                growth = growth.plus(Growth(0.0, grew(before, said)))
        return growth


def _rates(growth: Growth | None) -> tuple[float | None, float | None, float | None]:
    """Return requests and failures a second, and the mean milliseconds of a request."""
    if growth is None or growth.seconds <= 0:
        return None, None, None
    grown = growth.counters
    return (
        _short(grown.requests / growth.seconds),
        _short(grown.failures / growth.seconds),
        _short(grown.request_us / grown.requests / 1000) if grown.requests else None,
    )


def _ahead(rows: tuple[Row, ...], at: float) -> bool:
    return bool(rows) and (rows[-1][0] or 0) >= at


def _short(value: float | None) -> float | None:
    """Return *value* with six digits that count: rows travel, and are written to disk."""
    return None if value is None else float(f"{value:.6g}")
