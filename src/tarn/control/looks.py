"""What the history keeps of a snapshot. Pure."""

from collections import Counter
from collections.abc import Iterable

from tarn.control.metrics.instances import QUEUE_CAPACITY
from tarn.control.snapshot import Snapshot
from tarn.domain import Known, Reading, State
from tarn.domain.counters import Counters
from tarn.domain.history import Look
from tarn.domain.usage import Held

__all__ = ["held", "look"]

_PROCESS = frozenset({State.STARTING, State.READY, State.DRAINING})


def look(snapshot: Snapshot) -> Look:
    """Return sizes, load and counters of *snapshot*; of what was not read, nothing is said."""
    running = [i.id for i in snapshot.instances if i.state in _PROCESS]
    readings = [snapshot.readings.get(id_) for id_ in running]
    loads = [load for one in readings if one and (load := _load(one)) is not None]
    queues = [queue for one in readings if one and (queue := _known(one, "pending")) is not None]
    return Look(
        at=snapshot.at,
        desired=snapshot.desired,
        ready=snapshot.ready,
        running=len(running),
        load=_mean(loads),
        queue=sum(queues) if queues or not running else None,
        counted={
            id_: _counters(one) if one else None for id_, one in zip(running, readings, strict=True)
        },
    )


def held(snapshot: Snapshot, seen: Look, gpus: int) -> Held:
    """Return what the usage counts of *snapshot*, of which *seen* is the `look`."""
    ready = Counter(
        name
        for instance in snapshot.instances
        if instance.state in _PROCESS
        for name, state, _reason in instance.models
        if state == "READY"
    )
    models = {
        name: Counters(one.succeeded, one.failed, one.request_us)
        for name, one in snapshot.models.newest.items()
    }
    fresh = frozenset(i.id for i in snapshot.instances if not i.adopted)
    return Held(snapshot.at, gpus, seen.counted, ready, models, fresh)


def _known(reading: Reading, signal: str) -> float | None:
    sample = reading.metrics.get(signal)
    return sample.value if isinstance(sample, Known) else None


def _load(reading: Reading) -> float | None:
    """Return the larger of GPU utilization and filled part of the queue, as ``/metrics`` does."""
    pending, gpu = _known(reading, "pending"), _known(reading, "gpu_utilization")
    filled = None if pending is None else min(1.0, max(0.0, pending / QUEUE_CAPACITY))
    known = [part for part in (filled, gpu) if part is not None]
    return max(known) if known else None


def _mean(values: Iterable[float]) -> float | None:
    known = list(values)
    return sum(known) / len(known) if known else None


def _counters(reading: Reading) -> Counters | None:
    requests = _known(reading, "requests_total")
    if requests is None:
        return None
    return Counters(
        requests,
        _known(reading, "failures_total") or 0.0,
        _known(reading, "request_us_total") or 0.0,
    )
