"""The master's own: the cluster as a whole, its followers, and what this master did."""

from collections.abc import Callable, Iterable, Iterator, Mapping

from tarn.domain import ALIVE, CODES, PLACED, ClusterState, InstanceState, Known
from tarn.domain.instance import Symptom
from tarn.domain.scaling import KINDS
from tarn.domain.signals import SIGNALS
from tarn.domain.tally import DIRECTIONS, FAILURES, OUTCOMES, PHASES, RESULTS
from tarn.read.metrics.exposition import Family, MetricType, Sample
from tarn.read.snapshot import Follower, Snapshot
from tarn.release import version

__all__ = ["FAMILIES"]

_ASKED = "TARN-1100"
_OF_A_MASTER = tuple(code for code in CODES if code.startswith("TARN-1"))
"""The codes of what happens to a cluster; the others are said where something is asked for."""


def _one(value: float | None) -> Iterator[Sample]:
    """Yield the only sample of a family without labels; none for None."""
    if value is not None:
        yield (), value


def _flag(value: object) -> Iterator[Sample]:
    """Yield 1 where *value* is something, else 0."""
    yield (), float(bool(value))


def _info(snapshot: Snapshot) -> Iterator[Sample]:
    yield (snapshot.name, snapshot.runtime, str(snapshot.epoch), version()), 1


def _state(snapshot: Snapshot) -> Iterator[Sample]:
    for state in ClusterState:
        yield (state,), float(state is snapshot.state)


def _states(snapshot: Snapshot) -> Iterator[Sample]:
    states = [i.state for i in snapshot.instances]
    for state in InstanceState:
        if state in ALIVE:
            yield (state,), states.count(state)


def _unwell(snapshot: Snapshot) -> Iterator[Sample]:
    symptoms = [i.unwell.symptom for i in snapshot.instances if i.unwell and not i.unwell.for_all]
    for symptom in Symptom:
        yield (symptom,), symptoms.count(symptom)


def _signals(snapshot: Snapshot) -> Iterator[Sample]:
    for sight in snapshot.signals:
        if sight.name in SIGNALS and isinstance(sight.sample, Known):
            yield (sight.name,), sight.sample.value


def _acknowledged(follower: Follower, _snapshot: Snapshot) -> float | None:
    return follower.revision if follower.revision >= 0 else None


def _lag(follower: Follower, snapshot: Snapshot) -> float | None:
    behind = snapshot.view.revision - max(0, follower.revision)
    return None if follower.revision < 0 and follower.age_s is None else behind


def _lag_s(follower: Follower, _snapshot: Snapshot) -> float | None:
    return None if follower.age_s is None else follower.behind_s


def _events(snapshot: Snapshot) -> Iterator[Sample]:
    """Yield also those that never were: the first one is seen to grow from 0 then."""
    totals = snapshot.event_totals
    for code in sorted({*_OF_A_MASTER, *totals}):
        severity = str(CODES[code].severity) if code in CODES else "unknown"
        yield (code, severity), totals.get(code, 0)


def _decisions(snapshot: Snapshot) -> Iterator[Sample]:
    """Yield also those that never were, as `_events` does."""
    for kind in KINDS:
        for direction in DIRECTIONS:
            count = snapshot.tally.decisions.get((kind, direction), 0)
            yield (kind, direction), count


def _by(counts: Mapping[str, float]) -> Iterator[Sample]:
    for word, count in counts.items():
        yield (word,), count


def _gauge(
    name: str,
    text: str,
    samples: Callable[[Snapshot], Iterable[Sample]],
    labels: tuple[str, ...] = (),
) -> Family[Snapshot, Sample]:
    return Family(name, MetricType.GAUGE, text, samples, labels)


def _follower(
    name: str, text: str, read: Callable[[Follower, Snapshot], float | None]
) -> Family[Snapshot, Sample]:
    """Return a family with a sample of each follower of which *read* says something."""

    def samples(snapshot: Snapshot) -> Iterator[Sample]:
        for follower in snapshot.followers:
            value = read(follower, snapshot)
            if value is not None:
                yield (follower.name, "true" if follower.required else "false"), value

    return _gauge(name, text, samples, ("follower", "required"))


FAMILIES: tuple[Family[Snapshot, Sample], ...] = (
    Family(
        "tarn_cluster_info",
        MetricType.INFO,
        "The cluster, and the TARN that its master is.",
        _info,
        ("name", "runtime", "epoch", "version"),
    ),
    _gauge(
        "tarn_cluster_state",
        "1 for the state that the cluster is in, 0 for every other one.",
        _state,
        labels=("state",),
    ),
    _gauge(
        "tarn_master_start_time_seconds",
        "When this master began, Unix seconds; counters began then too.",
        lambda s: _one(s.tally.started_at or None),
    ),
    _gauge(
        "tarn_master_fenced",
        "1: the master has lost its runtime, and does not act.",
        lambda s: _flag(s.stale),
    ),
    _gauge("tarn_target_containers", "Desired instances.", lambda s: _one(s.desired)),
    _gauge(
        "tarn_running_containers",
        "Instances that have a process.",
        lambda s: _one(sum(i.state in PLACED for i in s.instances)),
    ),
    _gauge("tarn_instances", "Instances by state.", _states, labels=("state",)),
    _gauge("tarn_ready_instances", "Instances in the view.", lambda s: _one(s.ready)),
    _gauge(
        "tarn_suspect_instances",
        "Ready instances that are kept out of the view.",
        lambda s: _one(sum(bool(i.out_for) for i in s.instances if i.state is InstanceState.READY)),
    ),
    _gauge(
        "tarn_unwell_instances",
        "Instances that pass their health checks but fail their users, by symptom.",
        _unwell,
        labels=("symptom",),
    ),
    _gauge("tarn_min_instances", "The lowest size that is allowed.", lambda s: _one(s.limits.min)),
    _gauge("tarn_max_instances", "The highest size that is allowed.", lambda s: _one(s.limits.max)),
    _gauge(
        "tarn_ceiling_instances",
        "The highest size that the farm grants now.",
        lambda s: _one(s.limits.ceiling),
    ),
    _gauge("tarn_scaling_paused", "1: scaling is paused.", lambda s: _flag(s.pause)),
    _gauge(
        "tarn_scaling_manual",
        "1: a person set the size, and the policy has no effect.",
        lambda s: _flag(s.manual is not None),
    ),
    _gauge(
        "tarn_launching_halted",
        "1: launching was given up after failures in a row.",
        lambda s: _flag(s.holds.halted),
    ),
    _gauge(
        "tarn_replacements_frozen",
        "1: silent instances are not replaced, since the master itself is suspect.",
        lambda s: _flag(s.holds.frozen_s is not None),
    ),
    _gauge(
        "tarn_failures_in_a_row",
        "Quick failures of launches in a row.",
        lambda s: _one(s.holds.strikes),
    ),
    _gauge(
        "tarn_demand_waiting",
        "Requests that followers hold for an instance of a cluster without any.",
        lambda s: _one(None if s.demand is None else s.demand.waiting),
    ),
    _gauge(
        "tarn_demand_refused",
        "Requests that followers refused in the last look, of a cluster without any instance.",
        lambda s: _one(None if s.demand is None else s.demand.refused),
    ),
    _gauge("tarn_view_revision", "Revision of the view.", lambda s: _one(s.view.revision)),
    _gauge(
        "tarn_view_complete",
        "1: the view is complete, so followers remove instances that are not in it.",
        lambda s: _flag(s.view.complete),
    ),
    _gauge("tarn_faults", "Things that are wrong now.", lambda s: _one(len(s.faults))),
    _gauge(
        "tarn_warnings", "Things that a person should know now.", lambda s: _one(len(s.warnings))
    ),
    Family(
        "tarn_signal",
        MetricType.GAUGE,
        "The newest value of each signal over the whole fleet.",
        _signals,
        ("signal",),
        {name: f"{meaning.text} ({meaning.unit})" for name, meaning in SIGNALS.items()},
    ),
    _follower("tarn_follower_revision", "Revision that it acknowledged last.", _acknowledged),
    _follower(
        "tarn_follower_lag_revisions",
        "Revisions of the view that it has not acknowledged.",
        _lag,
    ),
    _follower(
        "tarn_follower_lag_seconds",
        "For how long it has not acknowledged the newest view, seconds.",
        _lag_s,
    ),
    _follower(
        "tarn_follower_age_seconds",
        "Seconds since its last message.",
        lambda follower, _snapshot: follower.age_s,
    ),
    _follower(
        "tarn_follower_lost",
        "1: its lease ran out.",
        lambda follower, _snapshot: float(follower.lost),
    ),
    _follower(
        "tarn_follower_failing",
        "1: it says that it cannot apply the view.",
        lambda follower, _snapshot: float(bool(follower.error)),
    ),
    _follower(
        "tarn_follower_sessions",
        "Open sessions to the instances of which it counts them.",
        lambda follower, _snapshot: follower.sessions,
    ),
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
        lambda s: _one(s.event_totals.get(_ASKED, 0)),
    ),
    Family(
        "tarn_start_duration_seconds",
        MetricType.HISTOGRAM,
        "Seconds that the phases of starts took.",
        lambda s: (((phase,), took) for phase, took in s.tally.starts.items()),
        ("phase",),
        PHASES,
    ),
    Family(
        "tarn_instance_failures_total",
        MetricType.COUNTER,
        "Instances that failed, or were replaced because they did not answer.",
        lambda s: _by(s.tally.failures),
        ("reason",),
        FAILURES,
    ),
    Family(
        "tarn_drains_total",
        MetricType.COUNTER,
        "Drains that ended, by the worst that happened.",
        lambda s: _by(s.tally.drains),
        ("outcome",),
        OUTCOMES,
    ),
    Family(
        "tarn_drained_requests_total",
        MetricType.COUNTER,
        "Requests of draining instances, as far as they were seen.",
        lambda s: _by(s.tally.drained),
        ("result",),
        RESULTS,
    ),
    Family(
        "tarn_drain_duration_seconds",
        MetricType.HISTOGRAM,
        "Seconds from the decision to drain to the end of the instance.",
        lambda s: [((), s.tally.drain_s)],
    ),
    Family(
        "tarn_tick_duration_seconds",
        MetricType.HISTOGRAM,
        "Seconds that a step of the control thread took.",
        lambda s: [((), s.tally.ticks)],
    ),
    Family(
        "tarn_late_ticks_total",
        MetricType.COUNTER,
        "Steps that came so late that silences were ignored.",
        lambda s: _one(s.tally.late),
    ),
)
