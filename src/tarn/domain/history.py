"""The last hours of a fleet in a fixed number of rows: size, load, requests. Pure.

Three grains keep the same samples, from ten seconds for three hours to ten minutes for two weeks,
so the memory does not grow. A step without a sample has no numbers, since unknown is never zero.
"""

import math
from collections.abc import Iterator, Mapping

import attrs

from tarn.domain.counters import NOTHING, CounterSet, newest_known, summed

__all__ = [
    "COLUMNS",
    "GRAINS",
    "FleetHistory",
    "Grain",
    "Growth",
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
"""One step, as `COLUMNS` names its parts: wall seconds of its beginning; its last sizes; means of
load (0 to 1) and queue (requests); rates per second; the mean milliseconds of a request that ended
in it. None: not known."""

# Between two samples further apart nothing is counted: no master ran, or the clock was set.
NOT_LOOKED_S = 60.0


@attrs.frozen
class HistorySample:
    """A fleet at one moment. Times are wall seconds."""

    at: float
    desired: int
    ready: int
    running: int
    """Instances that have a process."""
    load: float | None = None
    """Mean load of the instances whose load is known, 0 to 1."""
    queue: float | None = None
    """Requests that wait, summed over the instances."""
    counted: Mapping[str, CounterSet | None] = attrs.field(factory=dict, hash=False)
    """Id of each instance that has a process to its counters; None: not known."""


@attrs.frozen
class Mean:
    """The mean of a number over the samples in which it was known."""

    total: float = 0.0
    looks: int = 0

    def plus(self, value: float | None) -> "Mean":
        """Return it with one more value; an unknown or infinite one changes nothing."""
        total = math.nan if value is None else self.total + value
        return Mean(total, self.looks + 1) if math.isfinite(total) else self

    @property
    def value(self) -> float | None:
        """The mean; None without a value."""
        return self.total / self.looks if self.looks else None


@attrs.frozen
class Growth:
    """What was counted in ``seconds`` seconds."""

    seconds: float
    counted: CounterSet = NOTHING

    def plus(self, other: "Growth | None") -> "Growth":
        """Return the sum of both; None adds neither counts nor time."""
        if other is None:
            return self
        return Growth(self.seconds + other.seconds, self.counted.plus(other.counted))


@attrs.frozen
class HistoryStep:
    """The newest step, which is not complete yet."""

    at: float
    desired: int
    ready: int
    running: int
    load: Mean = attrs.field(factory=Mean)
    queue: Mean = attrs.field(factory=Mean)
    growth: Growth | None = None

    def row(self) -> Row:
        """Return its values so far."""
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
    """One resolution: the newest ``keep`` rows of ``step_s`` seconds."""

    step_s: int
    keep: int
    rows: tuple[Row, ...] = ()
    """Complete steps, oldest first, without those that have no sample."""
    open: HistoryStep | None = None

    @property
    def span_s(self) -> int:
        """The seconds that it can cover."""
        return self.step_s * self.keep

    def looked(self, look: HistorySample, growth: Growth | None) -> "Grain":
        """Return it with one more sample."""
        at = look.at // self.step_s * self.step_s
        step, rows = self.open, self.rows
        if step is not None and step.at < at:
            rows, step = (*rows, step.row())[-self.keep :], None
        if step is None or step.at > at:
            if rows and (rows[-1][0] or 0) >= at:  # the clock was set back: drop its future
                rows = tuple(row for row in rows if (row[0] or 0) < at)
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
        """Yield a row for each step from *at* on, oldest first; Nones where there is no sample."""
        shown = self.rows if self.open is None else (*self.rows, self.open.row())
        newest = (shown[-1][0] or 0.0) if shown else 0.0
        first = max(at - self.step_s, newest - self.span_s)
        last: float | None = None
        for row in shown:
            begun = row[0] or 0.0
            if begun <= first:
                continue
            if last is not None:
                for number in range(round((begun - last) / self.step_s) - 1, 0, -1):
                    yield (begun - number * self.step_s, *(None,) * (len(COLUMNS) - 1))
            yield row
            last = begun


GRAINS = (Grain(10, 1080), Grain(60, 1440), Grain(600, 2016))
"""Three hours, a day, two weeks."""


@attrs.frozen
class FleetHistory:
    """The samples of a fleet, at each grain."""

    grains: tuple[Grain, ...] = GRAINS
    at: float | None = None
    """Time of the newest sample; None: there was none."""
    counted: Mapping[str, CounterSet] = attrs.field(factory=dict, hash=False)
    """Id of each instance that has a process to its newest known counters."""

    def looked(self, look: HistorySample) -> "FleetHistory":
        """Return it with one more sample."""
        growth = self._growth(look)
        return FleetHistory(
            tuple(grain.looked(look, growth) for grain in self.grains),
            look.at,
            newest_known(self.counted, look.counted),
        )

    def grain(self, since_s: float) -> Grain:
        """Return the finest grain that covers the last *since_s* seconds, or the coarsest."""
        return next((g for g in self.grains if g.span_s >= since_s), self.grains[-1])

    def _growth(self, look: HistorySample) -> Growth | None:
        """Return what was counted since the sample before; None: not known."""
        if self.at is None or not 0 < look.at - self.at <= NOT_LOOKED_S:
            return None
        known = {id_: said for id_, said in look.counted.items() if said is not None}
        if look.ready and not known:
            return None
        more = (said.since(self.counted[id_]) for id_, said in known.items() if id_ in self.counted)
        return Growth(look.at - self.at, summed(more))


def _rates(growth: Growth | None) -> tuple[float | None, float | None, float | None]:
    """Return requests and failures per second, and the mean milliseconds of a request."""
    if growth is None or growth.seconds <= 0:
        return None, None, None
    more = growth.counted
    return (
        _short(more.completed / growth.seconds),
        _short(more.failed / growth.seconds),
        _short(more.request_us / more.completed / 1000) if more.completed else None,
    )


def _short(value: float | None) -> float | None:
    """Return *value* rounded to six significant digits."""
    # Rows are sent over HTTP and written to disk, so their length matters.
    return None if value is None else float(f"{value:.6g}")
