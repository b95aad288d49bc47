"""The fleet's signals: what every ready instance said, as one row of samples for each name. Pure.

A part that is unknown makes the whole unknown: a sum without it would be too small, and too small
a sum stops instances that are needed.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import cast

import attrs

from tarn.domain.contribution import NOT_SCRAPED, PARTS, Contribution, Part, see
from tarn.domain.fleet import Fleet, Rules
from tarn.domain.instance import Instance, InstanceState
from tarn.domain.reading import Reading
from tarn.domain.samples import Known, Sample, Unknown
from tarn.domain.scaling import FleetView
from tarn.domain.sizing import fresh_demand

__all__ = ["KEEP", "SIGNALS", "Samples", "SignalSelection", "SignalSpec", "Signals", "fleet_view"]

KEEP = 300
"""Samples kept of each signal: five minutes at the default interval."""
_FULL_FROM = 0.25
"""Requests that wait in a full instance, as a share of those that execute."""
_STUCK_AFTER_S = 3.0
"""Where none ends well for so long, and so many mean times, what waits is not worked off."""
_STUCK_MEANS = 3.0


@attrs.frozen
class SignalSpec:
    """What a signal is."""

    text: str
    unit: str
    total: bool
    """True: a sum over the fleet, which grows with it; False: a mean."""


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
}
"""The signals that are always there."""

Samples = Mapping[str, tuple[tuple[float, Mapping[str, Sample[float]]], ...]]
"""Instance id to (monotonic seconds, what was read of it), oldest first."""

_Seen = Mapping[str, Contribution | Unknown]


@attrs.frozen
class SignalSelection:
    """What is kept besides the signals that are always there, because the policy reads it."""

    metrics: Mapping[str, str] = attrs.field(factory=dict, hash=False)
    """Signal to the name in `Reading.metrics` whose sum over the fleet it is."""
    reads: tuple[str, ...] = ()
    """Every signal that the policy reads: these, those of plugins, and those always there."""
    samples_s: float = 0.0
    """For how long what each instance said is kept, for the signals of plugins; 0: not at all."""


@attrs.frozen(eq=False)
class Signals:
    """The history so far, and the last look at each instance."""

    history: Mapping[str, tuple[tuple[float, Sample[float]], ...]] = attrs.field(factory=dict)
    """Signal to (monotonic seconds, sample), oldest first; at most `KEEP` of each."""
    kept: SignalSelection = attrs.field(factory=SignalSelection)
    samples: Samples = attrs.field(factory=dict, repr=False)
    """Of each ready instance, as long as `kept` says; empty where it says 0."""
    _seen: Mapping[str, Contribution] = attrs.field(factory=dict, repr=False)
    _compute_s: Sample[float] = attrs.field(default=Unknown("no request has ended yet"), repr=False)
    """How long a request computed, in the mean of those that ended last."""

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
                Not those that are ejected: new requests go to the others, and nobody else works
                off what waits in them, which in Triton's gauge may be for ever. Those that start
                are looked at, so that their first second as ready ones is known.
            readings: Instance id to what was scraped of it last.
            now_s: Monotonic seconds of this look.
            oldest_s: What was read longer ago counts as unknown.
        """
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
        """Return one more row of each; none where nothing was scraped since the last one."""
        rows: dict[str, tuple[tuple[float, Mapping[str, Sample[float]]], ...]] = {}
        for id_, one in seen.items():
            old = self.samples.get(id_, ())
            if isinstance(one, Unknown):  # never scraped, or too long ago to say anything
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
        at,
    )


def _fleet_wide(
    seen: _Seen, now_s: float, compute_s: Sample[float]
) -> tuple[dict[str, Sample[float]], Sample[float]]:
    """Return each signal, and how long a request computes, as far as that was ever known."""
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
    }
    return samples, compute_s


def _when_full(seen: _Seen, pending: Sample[float], stuck_s: float) -> Sample[float]:
    """Return what the full ones execute, each in the mean: what executes there is what can.

    One in which requests wait and none ended well for *stuck_s* executes nothing.
    """
    if isinstance(pending, Unknown):
        return pending
    full = [
        executes
        for one in seen.values()
        if isinstance(one, Contribution)
        and not isinstance(waits := one.parts[0], str)
        and not isinstance(executes := one.parts[1], str)
        and waits >= executes * _FULL_FROM > 0
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
    """Return what would execute if nothing waited, by Little's law: what comes, times its length.

    What comes is what ended, and what waits *more* than before, each per second. What ended, times
    its mean length, are the seconds of *computing* per second. Requests that fail are not in it:
    Triton counts no time for them. Where nothing is worked off nothing ends, and what waits there
    is load all the same: all of these *stuck* requests would execute at once.
    """
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
    """Return the sum of *parts*, one of each instance in order; Unknown as soon as one is."""
    if str not in set(map(type, parts)):  # at the speed of C: ten thousand, eight times a look
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
    """Return the mean of one request; where none ended there is no mean, and zero would be one."""
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
