"""What this master did: events, decisions, starts, failures, drains, and its own ticks."""

from collections.abc import Iterator, Mapping

from tarn.control.metrics.family import Family, MetricType, Sample, histogram, label, labels, one
from tarn.control.snapshot import Snapshot
from tarn.domain import CODES
from tarn.domain.tally import DIRECTIONS, FAILURES, KINDS, OUTCOMES, PHASES, RESULTS

__all__ = ["FAMILIES"]

_ASKED = "TARN-1100"
_OF_A_MASTER = tuple(code for code in CODES if code.startswith("TARN-1"))
"""The codes of what happens to a cluster; the others are said where something is asked for."""


def _events(snapshot: Snapshot) -> Iterator[Sample]:
    """Yield also those that never were: the first one is seen to grow from 0 then."""
    totals = snapshot.event_totals
    for code in sorted({*_OF_A_MASTER, *totals}):
        severity = str(CODES[code].severity) if code in CODES else "unknown"
        yield "", labels(code=code, severity=severity), totals.get(code, 0)


def _decisions(snapshot: Snapshot) -> Iterator[Sample]:
    """Yield also those that never were, as `_events` does."""
    for kind in KINDS:
        for direction in DIRECTIONS:
            count = snapshot.tally.decisions.get((kind, direction), 0)
            yield "", labels(by=kind, direction=direction), count


def _starts(snapshot: Snapshot) -> Iterator[Sample]:
    for phase, took in snapshot.tally.starts.items():
        yield from histogram(took, label("phase", phase))


def _by(name: str, counts: Mapping[str, float]) -> Iterator[Sample]:
    for word, count in counts.items():
        yield "", label(name, word), count


FAMILIES = (
    Family(
        "tarn_events_total",
        MetricType.COUNTER,
        "Events since this master started.",
        _events,
        ("code", "severity"),
    ),
    Family(
        "tarn_decisions_total",
        MetricType.COUNTER,
        "Decisions that changed the size: by a policy, a person (scale, down), limits or demand.",
        _decisions,
        ("by", "direction"),
    ),
    Family(
        "tarn_container_asks_total",
        MetricType.COUNTER,
        "Instances for which a container was asked for.",
        lambda s: one(s.event_totals.get(_ASKED, 0)),
    ),
    Family(
        "tarn_start_duration_seconds",
        MetricType.HISTOGRAM,
        "Seconds that the phases of starts took.",
        _starts,
        ("phase",),
        PHASES,
    ),
    Family(
        "tarn_instance_failures_total",
        MetricType.COUNTER,
        "Instances that failed, or were replaced because they did not answer.",
        lambda s: _by("reason", s.tally.failures),
        ("reason",),
        FAILURES,
    ),
    Family(
        "tarn_drains_total",
        MetricType.COUNTER,
        "Drains that ended, by the worst that happened.",
        lambda s: _by("outcome", s.tally.drains),
        ("outcome",),
        OUTCOMES,
    ),
    Family(
        "tarn_drained_requests_total",
        MetricType.COUNTER,
        "Requests of draining instances, as far as they were seen.",
        lambda s: _by("result", s.tally.drained),
        ("result",),
        RESULTS,
    ),
    Family(
        "tarn_drain_duration_seconds",
        MetricType.HISTOGRAM,
        "Seconds from the decision to drain to the end of the instance.",
        lambda s: histogram(s.tally.drain_s),
    ),
    Family(
        "tarn_tick_duration_seconds",
        MetricType.HISTOGRAM,
        "Seconds that a step of the control thread took.",
        lambda s: histogram(s.tally.ticks),
    ),
    Family(
        "tarn_late_ticks_total",
        MetricType.COUNTER,
        "Steps that came so late that silences were ignored.",
        lambda s: one(s.tally.late),
    ),
)
