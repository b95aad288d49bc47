"""The cluster as a whole: its size, its states, and what holds it."""

from collections.abc import Iterator

from tarn.control.metrics.family import Family, MetricType, Sample, flag, label, labels, one
from tarn.control.snapshot import Snapshot
from tarn.domain import ALIVE, PLACED, ClusterState, InstanceState, Known
from tarn.domain.signals import SIGNALS
from tarn.domain.unwell import Symptom
from tarn.release import version

__all__ = ["FAMILIES", "Snapshot"]


def _info(snapshot: Snapshot) -> Iterator[Sample]:
    given = labels(
        name=snapshot.name,
        runtime=snapshot.runtime,
        epoch=str(snapshot.epoch),
        version=version(),
    )
    yield "", given, 1


def _state(snapshot: Snapshot) -> Iterator[Sample]:
    for state in ClusterState:
        yield "", label("state", state), float(state is snapshot.state)


def _states(snapshot: Snapshot) -> Iterator[Sample]:
    states = [i.state for i in snapshot.instances]
    for state in InstanceState:
        if state in ALIVE:
            yield "", label("state", state), states.count(state)


def _unwell(snapshot: Snapshot) -> Iterator[Sample]:
    symptoms = [i.unwell.symptom for i in snapshot.instances if i.unwell and not i.unwell.for_all]
    for symptom in Symptom:
        yield "", label("symptom", symptom), symptoms.count(symptom)


def _signals(snapshot: Snapshot) -> Iterator[Sample]:
    for sight in snapshot.signals:
        if sight.name in SIGNALS and isinstance(sight.sample, Known):
            yield "", label("signal", sight.name), sight.sample.value


def _gauge(name: str, text: str, samples: object, **more: object) -> Family:
    return Family(name, MetricType.GAUGE, text, samples, **more)  # type: ignore[arg-type]


FAMILIES = (
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
        lambda s: one(s.tally.started_at or None),
    ),
    _gauge(
        "tarn_master_fenced",
        "1: the master has lost its runtime, and does not act.",
        lambda s: flag(s.stale),
    ),
    _gauge("tarn_target_containers", "Desired instances.", lambda s: one(s.desired)),
    _gauge(
        "tarn_running_containers",
        "Instances that have a process.",
        lambda s: one(sum(i.state in PLACED for i in s.instances)),
    ),
    _gauge("tarn_instances", "Instances by state.", _states, labels=("state",)),
    _gauge("tarn_ready_instances", "Instances in the view.", lambda s: one(s.ready)),
    _gauge(
        "tarn_suspect_instances",
        "Ready instances that are kept out of the view.",
        lambda s: one(sum(bool(i.out_for) for i in s.instances if i.state is InstanceState.READY)),
    ),
    _gauge(
        "tarn_unwell_instances",
        "Instances that pass their health checks but fail their users, by symptom.",
        _unwell,
        labels=("symptom",),
    ),
    _gauge("tarn_min_instances", "The lowest size that is allowed.", lambda s: one(s.limits.min)),
    _gauge("tarn_max_instances", "The highest size that is allowed.", lambda s: one(s.limits.max)),
    _gauge(
        "tarn_ceiling_instances",
        "The highest size that the farm grants now.",
        lambda s: one(s.limits.ceiling),
    ),
    _gauge("tarn_scaling_paused", "1: scaling is paused.", lambda s: flag(s.pause)),
    _gauge(
        "tarn_scaling_manual",
        "1: a person set the size, and the policy has no effect.",
        lambda s: flag(s.manual is not None),
    ),
    _gauge(
        "tarn_launching_halted",
        "1: launching was given up after failures in a row.",
        lambda s: flag(s.holds.halted),
    ),
    _gauge(
        "tarn_replacements_frozen",
        "1: silent instances are not replaced, since the master itself is suspect.",
        lambda s: flag(s.holds.frozen_s is not None),
    ),
    _gauge(
        "tarn_failures_in_a_row",
        "Quick failures of launches in a row.",
        lambda s: one(s.holds.strikes),
    ),
    _gauge(
        "tarn_demand_waiting",
        "Requests that followers hold for an instance of a cluster without any.",
        lambda s: one(None if s.demand is None else s.demand.waiting),
    ),
    _gauge(
        "tarn_demand_refused",
        "Requests that followers refused in the last look, of a cluster without any instance.",
        lambda s: one(None if s.demand is None else s.demand.refused),
    ),
    _gauge("tarn_view_revision", "Revision of the view.", lambda s: one(s.view.revision)),
    _gauge(
        "tarn_view_complete",
        "1: the view is complete, so followers remove instances that are not in it.",
        lambda s: flag(s.view.complete),
    ),
    _gauge("tarn_faults", "Things that are wrong now.", lambda s: one(len(s.faults))),
    _gauge(
        "tarn_warnings", "Things that a person should know now.", lambda s: one(len(s.warnings))
    ),
    Family(
        "tarn_signal",
        MetricType.GAUGE,
        "The newest value of each signal over the whole fleet.",
        _signals,
        ("signal",),
        {name: f"{meaning.text} ({meaning.unit})" for name, meaning in SIGNALS.items()},
    ),
)
