"""The fleet's signals: what every ready instance said, as one row of samples for each name. Pure.

A part that is unknown makes the whole unknown: a sum without it would be too small, and too small
a sum stops instances that are needed.
"""

from collections.abc import Callable, Iterable, Mapping
from operator import attrgetter

import attrs

from tarn.domain.fleet import Fleet, Rules
from tarn.domain.instance import Instance, State
from tarn.domain.reading import Reading
from tarn.domain.samples import Known, Sample, Unknown
from tarn.domain.scaling import FleetView
from tarn.domain.sizing import fresh_demand

__all__ = ["KEEP", "SIGNALS", "Signals", "fleet_view"]

KEEP = 300
"""Samples kept of each signal: five minutes at the default interval."""
SIGNALS: Mapping[str, str] = {
    "pending": "requests that wait, in the whole fleet",
    "executing": "requests that execute, in the whole fleet; an estimate, see tarn.triton.activity",
    "requests_per_s": "requests that ended well, per second, in the whole fleet",
    "failures_per_s": "requests that failed, per second, in the whole fleet",
    "queue_us": "mean microseconds that a request waited, of those that ended since the last look",
    "request_us": "mean microseconds from arrival to answer, of the same requests",
    "gpu_utilization": "mean fraction in [0, 1] over the instances",
}
"""Name to meaning. The part SCALING brings more, and those of plugins."""

_GAUGES = ("pending", "executing", "gpu_utilization")
_COUNTERS = ("requests_total", "failures_total", "queue_us_total", "request_us_total")
_ONE_LOOK = "one look does not tell how fast a counter grows"
_NO_READING = Unknown("not scraped yet")

_Part = float | str
"""What one instance says, or why it does not say: a tick makes some for each of ten thousand."""


@attrs.frozen(eq=False)
class _Seen:
    """What one instance contributes, and what its next contribution is measured against."""

    reading: Reading
    moment_s: float | None
    """When the newest counters were read; None before the first."""
    counters: tuple[_Part, ...]
    gauges: tuple[_Part, ...]
    rates: tuple[_Part, ...]
    """Growth of each counter, per second."""


@attrs.frozen(eq=False)
class Signals:
    """The history so far, and the last look at each instance."""

    history: Mapping[str, tuple[tuple[float, Sample[float]], ...]] = attrs.field(factory=dict)
    """Signal to (monotonic seconds, sample), oldest first; at most `KEEP` of each."""
    _seen: Mapping[str, _Seen] = attrs.field(factory=dict, repr=False)

    def looked(
        self,
        instances: Iterable[Instance],
        readings: Mapping[str, Reading],
        now_s: float,
        oldest_s: float,
    ) -> "Signals":
        """Return the signals with one more sample of each.

        Args:
            instances: Only the ready ones count, suspect ones too: they have work, and cannot say.
            readings: Instance id to what was scraped of it last.
            now_s: Monotonic seconds of this look.
            oldest_s: What was read longer ago counts as unknown.
        """
        seen: dict[str, _Seen | Unknown] = {}
        for instance in instances:
            if instance.state is State.READY:
                reading = readings.get(instance.id)
                seen[instance.id] = (
                    _NO_READING
                    if reading is None
                    else _see(self._seen.get(instance.id), reading, now_s, oldest_s)
                )
        history = {
            name: (*self.history.get(name, ())[1 - KEEP :], (now_s, sample))
            for name, sample in _fleet_wide(seen, now_s).items()
        }
        return Signals(history, {id_: s for id_, s in seen.items() if isinstance(s, _Seen)})


def fleet_view(fleet: Fleet, rules: Rules, signals: Signals, now_s: float) -> FleetView:
    """Return what a policy sees; the dictionary is its own, the histories are shared and frozen."""
    demand = fresh_demand(fleet, now_s)
    return FleetView(
        now_s,
        fleet.desired,
        fleet.limits(rules),
        fleet.instances,
        dict(signals.history),
        fleet.decisions,
        0 if demand is None else demand.waiting,
    )


def _see(before: _Seen | None, reading: Reading, now_s: float, oldest_s: float) -> _Seen | Unknown:
    if before is None or before.reading is not reading:
        before = _measured(before, reading)
    moment_s = before.moment_s
    if moment_s is not None and now_s - moment_s > oldest_s:
        return Unknown(f"last read {now_s - moment_s:.0f} s ago")
    return before


def _measured(before: _Seen | None, reading: Reading) -> _Seen:
    gauges, _ = _parts(reading, _GAUGES)
    counters, age_s = _parts(reading, _COUNTERS)
    if age_s is None:  # a scrape that failed: the next one is measured against the last good one
        moment_s, base = (None, counters) if before is None else (before.moment_s, before.counters)
        return _Seen(reading, moment_s, base, gauges, counters)
    moment_s = reading.taken_s - age_s
    if before is None or before.moment_s is None:
        rates: tuple[_Part, ...] = (_ONE_LOOK,) * len(_COUNTERS)
    elif moment_s <= before.moment_s:  # the same scrape, with newer news of its health
        return attrs.evolve(before, reading=reading, gauges=gauges)
    else:
        span_s = moment_s - before.moment_s
        rates = tuple([_rate(o, n, span_s) for o, n in zip(before.counters, counters, strict=True)])
    return _Seen(reading, moment_s, counters, gauges, rates)


def _parts(reading: Reading, names: tuple[str, ...]) -> tuple[tuple[_Part, ...], float | None]:
    """Return what the reading says of *names*, and the age of what is known; None: nothing is."""
    get = reading.metrics.get
    parts: list[_Part] = []
    age_s = None
    for name in names:
        sample = get(name, _NO_READING)
        if isinstance(sample, Known):
            parts.append(sample.value)
            age_s = sample.age_s
        else:
            parts.append(sample.reason)
    return tuple(parts), age_s


def _rate(old: _Part, new: _Part, span_s: float) -> _Part:
    if isinstance(new, str):
        return new
    if isinstance(old, str):
        return _ONE_LOOK
    return (new - old) / span_s if new >= old else "a counter fell: a model was unloaded"


def _fleet_wide(seen: Mapping[str, _Seen | Unknown], now_s: float) -> dict[str, Sample[float]]:
    if not seen:
        return dict.fromkeys(SIGNALS, Unknown("no instance is ready"))
    moments = [s.moment_s for s in seen.values() if isinstance(s, _Seen) and s.moment_s is not None]
    age_s = now_s - min(moments, default=now_s)
    gauges, rates = attrgetter("gauges"), attrgetter("rates")
    pending, executing, utilization = (_sum(seen, gauges, place, age_s) for place in range(3))
    requests, failures, queue, request = (_sum(seen, rates, place, age_s) for place in range(4))
    return {
        "pending": pending,
        "executing": executing,
        "requests_per_s": requests,
        "failures_per_s": failures,
        "queue_us": _each(queue, requests),
        "request_us": _each(request, requests),
        "gpu_utilization": _divided(utilization, len(seen)),
    }


def _sum(
    seen: Mapping[str, _Seen | Unknown],
    parts: Callable[[_Seen], tuple[_Part, ...]],
    place: int,
    age_s: float,
) -> Sample[float]:
    total, missing, first = 0.0, 0, ""
    for instance_id, one in seen.items():
        part = one.reason if isinstance(one, Unknown) else parts(one)[place]
        if isinstance(part, str):
            missing += 1
            first = first or f"{instance_id}: {part}"
        else:
            total += part
    if missing:
        return Unknown(f"{missing} of {len(seen)} instances did not say ({first})")
    return Known(total, age_s)


def _each(total: Sample[float], count: Sample[float]) -> Sample[float]:
    """Return the mean of one request; where none ended there is no mean, and zero would be one."""
    if isinstance(count, Known) and count.value == 0:
        return Unknown("no request ended since the last look")
    return _divided(total, count.value) if isinstance(count, Known) else count


def _divided(total: Sample[float], by: float) -> Sample[float]:
    return attrs.evolve(total, value=total.value / by) if isinstance(total, Known) else total
