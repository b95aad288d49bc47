"""What the history keeps of a snapshot. Pure."""

from collections import Counter
from collections.abc import Iterable

from tarn.control.snapshot import Snapshot
from tarn.domain import PLACED, Reading
from tarn.domain.counters import Counters
from tarn.domain.history import HistorySample
from tarn.domain.usage import UsageSample

__all__ = ["history_sample", "usage_sample"]


def history_sample(snapshot: Snapshot) -> HistorySample:
    """Return sizes, load and counters of *snapshot*; of what was not read, nothing is said."""
    running = [i.id for i in snapshot.instances if i.state in PLACED]
    readings = [snapshot.readings.get(id_) for id_ in running]
    loads = [load for one in readings if one and (load := one.load) is not None]
    queues = [queue for one in readings if one and (queue := one.known("pending")) is not None]
    return HistorySample(
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


def usage_sample(snapshot: Snapshot, seen: HistorySample, gpus: int) -> UsageSample:
    """Return what the usage counts of *snapshot*, of which *seen* is the `history_sample`."""
    ready = Counter(
        name
        for instance in snapshot.instances
        if instance.state in PLACED
        for name, state, _reason in instance.models
        if state == "READY"
    )
    models = {
        name: Counters(one.succeeded, one.failed, one.request_us)
        for name, one in snapshot.models.newest.items()
    }
    fresh = frozenset(i.id for i in snapshot.instances if not i.adopted)
    return UsageSample(snapshot.at, gpus, seen.counted, ready, models, fresh)


def _mean(values: Iterable[float]) -> float | None:
    known = list(values)
    return sum(known) / len(known) if known else None


def _counters(reading: Reading) -> Counters | None:
    requests = reading.known("requests_total")
    if requests is None:
        return None
    return Counters(
        requests,
        reading.known("failures_total") or 0.0,
        reading.known("request_us_total") or 0.0,
    )
