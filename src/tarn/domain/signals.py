"""The fleet's signals: samples over all ready instances, one row for each name. Pure.

If one instance's part is unknown, so is the whole. A sum without it would be too small, and would
stop instances that are needed.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import cast

import attrs

from tarn.domain.counters import COUNTERS, grown
from tarn.domain.fleet import Fleet, Rules
from tarn.domain.instance import Instance, InstanceState
from tarn.domain.reading import Reading
from tarn.domain.samples import Known, Sample, Unknown
from tarn.domain.scaling import FULL_FROM, FleetView
from tarn.domain.sizing import fresh_demand

__all__ = [
    "GAUGES",
    "KEEP",
    "SIGNALS",
    "Samples",
    "SignalSelection",
    "SignalSpec",
    "Signals",
    "fleet_view",
]

KEEP = 300
"""Samples kept of each signal: five minutes at the default interval."""
# Requests that wait are stuck when none has ended well for this long, and for this many times the
# mean compute time.
_STUCK_AFTER_S = 3.0
_STUCK_MEANS = 3.0

GAUGES = ("pending", "executing", "gpu_utilization")
_NAMES = (*GAUGES, *COUNTERS)
_COUNTED = len(GAUGES)
_PENDING, _GPU = 0, 2
_REQUESTS, _QUEUE, _REQUEST = 0, 2, 3
_ONE_LOOK = "a single sample does not show how fast a counter grows"
NOT_SCRAPED = Unknown("not scraped yet")

# With at least this mean number of requests in computation, a GPU utilization of 0 is not believed.
# Triton gives whole percents, so with fewer short requests it may really be 0.
WORKING = 0.1

# How many parts a contribution has.
PARTS = len(GAUGES) + len(COUNTERS) + 1

# One number of one instance, or the reason why it is unknown. A tick makes several for each of ten
# thousand instances, so it is not a class.
Part = float | str


@attrs.frozen
class SignalSpec:
    """The description of a signal."""

    text: str
    unit: str
    total: bool
    """True: a sum over the fleet; False: a mean."""


SIGNALS: Mapping[str, SignalSpec] = {
    "pending": SignalSpec("requests that wait", "requests", total=True),
    "executing": SignalSpec(
        "requests that execute; an estimate, see tarn.triton.activity", "requests", total=True
    ),
    "in_flight": SignalSpec("requests that wait or execute", "requests", total=True),
    "offered_load": SignalSpec(
        "requests that would execute at once if none had to wait: how many come per second, "
        "times the mean seconds that one computes, plus those that wait where no request "
        "completes; `in_flight` until the first one has ended",
        "requests",
        total=True,
    ),
    "requests_per_s": SignalSpec("requests that ended well", "requests/s", total=True),
    "failures_per_s": SignalSpec("requests that failed", "requests/s", total=True),
    "queue_time": SignalSpec(
        "how long requests waited that ended since the last sample", "s", total=False
    ),
    "request_time": SignalSpec("from arrival to answer, of the same requests", "s", total=False),
    "gpu_utilization": SignalSpec("how busy the GPUs are, in [0, 1]", "fraction", total=False),
    "when_full": SignalSpec(
        "requests that a full instance executes at once; it is full when at least a quarter as "
        "many wait",
        "requests",
        total=False,
    ),
    "cache_hits_per_s": SignalSpec(
        "requests that the response caches answered", "requests/s", total=True
    ),
    "cache_misses_per_s": SignalSpec(
        "requests that were looked up in a response cache, and computed", "requests/s", total=True
    ),
    "cache_hit_share": SignalSpec(
        "the part of the looked-up requests that the response caches answered, in [0, 1]",
        "fraction",
        total=False,
    ),
    "first_response_time": SignalSpec(
        "from arrival to the first response, where Triton keeps histograms of it", "s", total=False
    ),
}
"""The signals that are always there."""

Samples = Mapping[str, tuple[tuple[float, Mapping[str, Sample[float]]], ...]]
"""Instance id to (monotonic seconds, its samples), oldest first."""


# Two counters that only some Tritons have, and give together; None: it does not.
_Pair = tuple[float, float] | None
_NO_PAIRS: tuple[_Pair, _Pair] = (None, None)
_CACHE, _FIRST = 0, 1


@attrs.frozen(eq=False)
class Contribution:
    """One instance's part of the signals, and what its next reading is compared with."""

    reading: Reading
    moment_s: float | None
    """When the newest counters were read; None before the first."""
    base: tuple[Part, ...]
    """The counters and the pending requests of that moment."""
    parts: tuple[Part, ...]
    """Each of `GAUGES`; then the growth of each of `COUNTERS`, and of the pending requests, per
    second."""
    moved_s: float | None = None
    """When a request was last seen to have ended well, or none waited; None before the first
    look."""
    optional: tuple[_Pair, _Pair] = _NO_PAIRS
    """The counters of that moment that only some Tritons have."""
    optional_rates: tuple[_Pair, _Pair] = _NO_PAIRS
    """Their growth per second; None where it is not known."""

    def stuck(self, for_s: float) -> float:
        """Return how many requests wait if none has ended well for *for_s* seconds; else 0."""
        waits, moment_s = self.parts[_PENDING], self.moment_s
        if isinstance(waits, str) or moment_s is None or self.moved_s is None:
            return 0.0
        return waits if moment_s - self.moved_s >= for_s else 0.0


def see(
    before: Contribution | None, reading: Reading, now_s: float, oldest_s: float
) -> Contribution | Unknown:
    """Return what *reading* contributes at *now_s*.

    Args:
        before: The contribution of the last look; None at the first.
        reading: The newest reading; perhaps the same as before.
        now_s: Monotonic seconds of this look.
        oldest_s: A reading older than this counts as unknown.
    """
    if before is None or before.reading is not reading:
        before = _measured(before, reading)
    moment_s = before.moment_s
    if moment_s is not None and now_s - moment_s > oldest_s:
        return Unknown(f"last read {now_s - moment_s:.0f} s ago")
    return before


def _measured(before: Contribution | None, reading: Reading) -> Contribution:
    read = _read(reading)
    gauges, base = read[:_COUNTED], (*read[_COUNTED:], read[_PENDING])
    age_s = _counters_age_s(reading)
    if age_s is None:  # the scrape failed: the next one is compared with the last good one
        moment_s, old = (None, base) if before is None else (before.moment_s, before.base)
        moved_s = None if before is None else before.moved_s
        pairs = _NO_PAIRS if before is None else before.optional
        return Contribution(reading, moment_s, old, gauges + base, moved_s, pairs)
    moment_s, pairs = reading.taken_s - age_s, _optional(reading)
    if before is None or before.moment_s is None:
        parts = gauges + (_ONE_LOOK,) * len(base)
        return Contribution(reading, moment_s, base, parts, moment_s, pairs)
    if moment_s <= before.moment_s:  # the same scrape, with a newer health
        return attrs.evolve(before, reading=reading)
    rates = _rates(before.base, base, moment_s - before.moment_s)
    if gauges[_GPU] == 0:
        gauges = _believed(before, gauges, rates)
    # Failed requests do not count as progress: with a dead Python process, one fails each second.
    waits = gauges[_PENDING]
    stands_still = not isinstance(waits, str) and waits > 0 and rates[_REQUESTS] == 0
    moved_s = before.moved_s if stands_still else moment_s
    span_s = moment_s - before.moment_s
    more = _NO_PAIRS
    if pairs is not _NO_PAIRS:
        (cache_was, first_was), (cache, first) = before.optional, pairs
        more = _pair_rate(cache_was, cache, span_s), _pair_rate(first_was, first, span_s)
    return Contribution(reading, moment_s, base, gauges + rates, moved_s, pairs, more)


def _optional(reading: Reading) -> tuple[_Pair, _Pair]:
    """Return the counters that only some Tritons have, in pairs."""
    # Without a loop, since each tick may do it for ten thousand instances.
    get = reading.metrics.get
    hits, first = get("cache_hits_total"), get("first_responses_total")
    if not isinstance(hits, Known) and not isinstance(first, Known):
        return _NO_PAIRS
    return _pair(hits, get("cache_misses_total")), _pair(first, get("first_response_us_total"))


def _pair(one: Sample[float] | None, other: Sample[float] | None) -> _Pair:
    if isinstance(one, Known) and isinstance(other, Known):
        return one.value, other.value
    return None


def _pair_rate(old: _Pair, new: _Pair, span_s: float) -> _Pair:
    if old is None or new is None:
        return None
    one, other = grown(old, new)
    return one / span_s, other / span_s


def _read(reading: Reading) -> tuple[Part, ...]:
    """Return the part for each of `_NAMES`."""
    get = reading.metrics.get
    parts: list[Part] = []
    for name in _NAMES:
        sample = get(name, NOT_SCRAPED)
        parts.append(sample.value if isinstance(sample, Known) else sample.reason)
    return tuple(parts)


def _counters_age_s(reading: Reading) -> float | None:
    """Return the age of the counters; None: all of them are unknown."""
    for name in COUNTERS:
        sample = reading.metrics.get(name)
        if isinstance(sample, Known):
            return sample.age_s
    return None


def _rates(old: tuple[Part, ...], new: tuple[Part, ...], span_s: float) -> tuple[Part, ...]:
    """Return the growth per second of the counters, and of the waiting requests (may be < 0)."""
    unknown: dict[int, str] = {}
    if str in map(type, old) or str in map(type, new):
        unknown = {place: _ONE_LOOK for place, part in enumerate(old) if isinstance(part, str)}
        unknown |= {place: part for place, part in enumerate(new) if isinstance(part, str)}
        # The same on both sides, so that an unknown counter does not look like a reset.
        old = tuple(0.0 if place in unknown else part for place, part in enumerate(old))
        new = tuple(0.0 if place in unknown else part for place, part in enumerate(new))
    was, now = cast("Sequence[float]", old), cast("Sequence[float]", new)
    more = [*grown(was[:-1], now[:-1]), now[-1] - was[-1]]
    if not unknown:
        return tuple([one / span_s for one in more])
    return tuple(unknown.get(place, one / span_s) for place, one in enumerate(more))


def _believed(
    before: Contribution, gauges: tuple[Part, ...], rates: tuple[Part, ...]
) -> tuple[Part, ...]:
    """Return *gauges*; a GPU at 0 is unknown if work was done since it was 0 before."""
    utilization = before.reading.metrics.get("gpu_utilization")
    if not isinstance(utilization, Known) or utilization.value != 0:
        return gauges
    ended, queue_us, request_us = rates[_REQUESTS], rates[_QUEUE], rates[_REQUEST]
    if isinstance(ended, str) or isinstance(queue_us, str) or isinstance(request_us, str):
        return gauges
    if ended <= 0 or (request_us - queue_us) / 1e6 < WORKING:
        return gauges
    doubt = (
        f"the GPU gauge stands at 0 while {ended:.3g} requests end per second: it is stuck, or "
        "their models do not run on a GPU"
    )
    return (*gauges[:_GPU], doubt)


_Seen = Mapping[str, Contribution | Unknown]


@attrs.frozen
class SignalSelection:
    """The signals that the policy reads, and what must be kept for them."""

    metrics: Mapping[str, str] = attrs.field(factory=dict, hash=False)
    """Signal to the name in `Reading.metrics` whose sum over the fleet it is."""
    reads: tuple[str, ...] = ()
    """Every signal that the policy reads: these, those of plugins, and those always there."""
    samples_s: float = 0.0
    """For how long the samples of each instance are kept for plugins' signals; 0: not at all."""


@attrs.frozen(eq=False)
class Signals:
    """The history so far, and the last look at each instance."""

    history: Mapping[str, tuple[tuple[float, Sample[float]], ...]] = attrs.field(factory=dict)
    """Signal to (monotonic seconds, sample), oldest first; at most `KEEP` of each."""
    kept: SignalSelection = attrs.field(factory=SignalSelection)
    samples: Samples = attrs.field(factory=dict, repr=False)
    """Samples of each ready instance, for ``kept.samples_s``."""
    _seen: Mapping[str, Contribution] = attrs.field(factory=dict, repr=False)
    _compute_s: Sample[float] = attrs.field(default=Unknown("no request has ended yet"), repr=False)
    """Mean compute time of the requests that ended last."""

    def looked(
        self,
        instances: Iterable[Instance],
        readings: Mapping[str, Reading],
        now_s: float,
        oldest_s: float,
    ) -> "Signals":
        """Return the signals with one more sample of each.

        Args:
            instances: The fleet's; only the ready ones count, without those that are ejected.
            readings: Instance id to its newest reading.
            now_s: Monotonic seconds of this look.
            oldest_s: A reading older than this counts as unknown.
        """
        # Suspect instances count, since they have work. Ejected ones do not: new requests go to the
        # others, and what waits in an ejected one may stay in Triton's gauge for ever. Starting
        # ones are looked at, so that their growth is known in their first second as ready ones.
        seen: dict[str, Contribution | Unknown] = {}
        known: dict[str, Contribution] = {}
        for instance in instances:
            ready = instance.state is InstanceState.READY
            if not ready and instance.state is not InstanceState.STARTING:
                continue
            id_, reading = instance.id, readings.get(instance.id)
            one: Contribution | Unknown = NOT_SCRAPED
            if reading is not None:
                one = see(self._seen.get(id_), reading, now_s, oldest_s)
            if not isinstance(one, Unknown):
                known[id_] = one
            if ready and not instance.ejected:
                seen[id_] = one
        now, compute_s = _fleet_wide(seen, now_s, self._compute_s)
        for name, metric in self.kept.metrics.items():
            now[name] = _metric(seen, metric, now_s)
        history = {
            name: (*self.history.get(name, ())[1 - KEEP :], (now_s, sample))
            for name, sample in now.items()
        }
        samples = self._samples_of(seen) if self.kept.samples_s > 0 else {}
        return Signals(history, self.kept, samples, known, compute_s)

    def _samples_of(self, seen: _Seen) -> Samples:
        """Return the samples with one more row of each instance that was scraped again."""
        rows: dict[str, tuple[tuple[float, Mapping[str, Sample[float]]], ...]] = {}
        for id_, one in seen.items():
            old = self.samples.get(id_, ())
            if isinstance(one, Unknown):  # never scraped, or too long ago
                rows[id_] = ()
            elif old and old[-1][1] is one.reading.metrics:
                rows[id_] = old
            else:
                new = one.reading.taken_s
                since_s = new - self.kept.samples_s
                rows[id_] = (
                    *(row for row in old if row[0] >= since_s),
                    (new, one.reading.metrics),
                )
        return rows


def fleet_view(
    fleet: Fleet, rules: Rules, signals: Signals, now_s: float, at: float = 0.0
) -> FleetView:
    """Return what a policy sees. The dictionary of signals is a copy, their histories are not."""
    demand = fresh_demand(fleet, now_s)
    return FleetView(
        now_s,
        fleet.desired,
        fleet.limits(rules),
        fleet.instances,
        dict(signals.history),
        fleet.decisions,
        0 if demand is None else demand.waiting,
        at,
    )


def _fleet_wide(
    seen: _Seen, now_s: float, compute_s: Sample[float]
) -> tuple[dict[str, Sample[float]], Sample[float]]:
    """Return each signal, and the newest known mean compute time of a request."""
    if not seen:
        return dict.fromkeys(SIGNALS, Unknown("no instance is ready")), compute_s
    pending, executing, utilization, requests, failures, queue, request, more = _sums(seen, now_s)
    queue, request = _divided(queue, 1e6), _divided(request, 1e6)
    computing = _added(request, _divided(queue, -1.0))
    ended = _each(computing, requests)
    compute_s = ended if isinstance(ended, Known) else compute_s
    in_flight = _added(pending, executing)
    mean_s = compute_s.value if isinstance(compute_s, Known) else 0.0
    stuck_s = max(_STUCK_AFTER_S, _STUCK_MEANS * mean_s)
    stuck = sum(one.stuck(stuck_s) for one in seen.values() if isinstance(one, Contribution))
    samples = {
        "pending": pending,
        "executing": executing,
        "in_flight": in_flight,
        "offered_load": _offered(computing, more, compute_s, in_flight, stuck),
        "requests_per_s": requests,
        "failures_per_s": failures,
        "queue_time": _each(queue, requests),
        "request_time": _each(request, requests),
        "gpu_utilization": _divided(utilization, len(seen)),
        "when_full": _when_full(seen, pending, stuck_s),
        **_optional_signals(seen, pending),
    }
    return samples, compute_s


def _optional_signals(seen: _Seen, like: Sample[float]) -> dict[str, Sample[float]]:
    """Return the signals of the response caches and of first responses, as old as *like*."""
    age_s = like.age_s if isinstance(like, Known) else 0.0
    cache = _pair_sum(seen, _CACHE, "no instance reports a response cache")
    first = _pair_sum(seen, _FIRST, "no instance reports the times of first responses")
    if isinstance(cache, Unknown):
        samples: dict[str, Sample[float]] = dict.fromkeys(
            ("cache_hits_per_s", "cache_misses_per_s", "cache_hit_share"), cache
        )
    else:
        hits, misses = (Known(value, age_s) for value in cache)
        samples = {
            "cache_hits_per_s": hits,
            "cache_misses_per_s": misses,
            "cache_hit_share": _each(hits, Known(hits.value + misses.value, age_s)),
        }
    if isinstance(first, Unknown):
        return {**samples, "first_response_time": first}
    count, time_us = (Known(value, age_s) for value in first)
    return {**samples, "first_response_time": _divided(_each(time_us, count), 1e6)}


def _pair_sum(seen: _Seen, place: int, none: str) -> tuple[float, float] | Unknown:
    """Return the sums of one pair over the instances that have it; Unknown: *none* has, or why."""
    one = other = 0.0
    having = 0
    for id_, part in seen.items():
        if isinstance(part, Unknown) or part.optional[place] is None:
            continue
        rate, having = part.optional_rates[place], having + 1
        if rate is None:
            return Unknown(f"{id_}: {_ONE_LOOK}")
        one, other = one + rate[0], other + rate[1]
    return (one, other) if having else Unknown(none)


def _when_full(seen: _Seen, pending: Sample[float], stuck_s: float) -> Sample[float]:
    """Return the mean number of requests that the full instances execute."""
    # A stuck instance, in which none ended well for *stuck_s*, does not really execute requests.
    if isinstance(pending, Unknown):
        return pending
    full = [
        executes
        for one in seen.values()
        if isinstance(one, Contribution)
        and not isinstance(waits := one.parts[0], str)
        and not isinstance(executes := one.parts[1], str)
        and waits >= executes * FULL_FROM > 0
        and not one.stuck(stuck_s)
    ]
    return Known(sum(full) / len(full), pending.age_s) if full else Unknown("no instance is full")


def _offered(
    computing: Sample[float],
    more: Sample[float],
    compute_s: Sample[float],
    in_flight: Sample[float],
    stuck: float,
) -> Sample[float]:
    """Return how many requests would execute at once if none had to wait."""
    # By Little's law this is the arrival rate times the mean compute time. The requests that arrive
    # per second are those that ended, and the *more* by which the queue grew. Those that ended,
    # times their mean compute time, are the seconds of *computing* per second. Failed requests are
    # left out, since Triton counts no time for them. In a stuck instance no request ends, but those
    # that wait are load too, so all *stuck* requests are added.
    if isinstance(compute_s, Unknown):
        return in_flight
    if isinstance(more, Unknown):
        return more
    offered = _added(computing, attrs.evolve(more, value=more.value * compute_s.value))
    if isinstance(offered, Known):  # below 0: the queue lost more than ended, by rounding
        return attrs.evolve(offered, value=max(0.0, offered.value) + stuck)
    return offered


def _metric(seen: _Seen, metric: str, now_s: float) -> Sample[float]:
    if not seen:
        return Unknown("no instance is ready")
    parts: list[Part] = []
    for one in seen.values():
        said = NOT_SCRAPED if isinstance(one, Unknown) else one.reading.metrics.get(metric)
        parts.append(said.value if isinstance(said, Known) else (said or NOT_SCRAPED).reason)
    return _sum(seen, parts, _age_s(seen, now_s))


def _sums(seen: _Seen, now_s: float) -> list[Sample[float]]:
    """Return the sum over the fleet of each of `Contribution.parts`."""
    rows = [
        (one.reason,) * PARTS if isinstance(one, Unknown) else one.parts for one in seen.values()
    ]
    age_s = _age_s(seen, now_s)
    return [_sum(seen, column, age_s) for column in zip(*rows, strict=True)]


def _sum(seen: _Seen, parts: Sequence[Part], age_s: float) -> Sample[float]:
    """Return the sum of *parts*, one for each of *seen*; Unknown if one of them is."""
    # set(map()) runs at the speed of C: each look does this eight times for ten thousand instances.
    if str not in set(map(type, parts)):
        return Known(sum(cast("Sequence[float]", parts)), age_s)
    missing = [place for place, part in enumerate(parts) if isinstance(part, str)]
    first = f"{list(seen)[missing[0]]}: {parts[missing[0]]}"
    return Unknown(f"{len(missing)} of {len(seen)} instances did not say ({first})")


def _age_s(seen: _Seen, now_s: float) -> float:
    moments = [
        s.moment_s for s in seen.values() if isinstance(s, Contribution) and s.moment_s is not None
    ]
    return now_s - min(moments, default=now_s)


def _each(total: Sample[float], count: Sample[float]) -> Sample[float]:
    """Return the mean for one request; Unknown if none ended."""
    if isinstance(count, Known) and count.value == 0:
        return Unknown("no request ended since the last sample")
    return _divided(total, count.value) if isinstance(count, Known) else count


def _divided(total: Sample[float], by: float) -> Sample[float]:
    return attrs.evolve(total, value=total.value / by) if isinstance(total, Known) else total


def _added(one: Sample[float], other: Sample[float]) -> Sample[float]:
    if isinstance(one, Unknown):
        return one
    if isinstance(other, Unknown):
        return other
    return Known(one.value + other.value, max(one.age_s, other.age_s))
