"""Instance by instance: what was scraped of each one that has a container."""

from collections.abc import Callable, Iterable, Iterator

import attrs

from tarn.control.metrics.family import Family, MetricType, Sample, label, labels, one
from tarn.control.snapshot import Snapshot
from tarn.domain import Instance, Reading

__all__ = ["FAMILIES"]

_ALL_GPUS = "all"
"""The label where only one number for all GPUs of an instance is known."""
_PLACE = ("container_id", "host")


@attrs.frozen
class _MeasuredInstance:
    """One instance that has a container, what was read of it, and its labels."""

    instance: Instance
    reading: Reading

    @property
    def labels(self) -> str:
        host = self.instance.endpoint.host if self.instance.endpoint else self.instance.node
        return labels(container_id=self.instance.container_id or "", host=host or "")


def _held(snapshot: Snapshot) -> Iterator[_MeasuredInstance]:
    """Yield each; those that ended are not in it, so they leave no series."""
    for instance in snapshot.instances:
        if instance.container_id:
            reading = snapshot.readings.get(instance.id) or Reading(instance.id, 0.0)
            yield _MeasuredInstance(instance, reading)


def _each(
    value: Callable[[_MeasuredInstance], float | None],
) -> Callable[[Snapshot], Iterable[Sample]]:
    def samples(snapshot: Snapshot) -> Iterator[Sample]:
        for held in _held(snapshot):
            found = value(held)
            if found is not None:
                yield "", held.labels, found

    return samples


def _depth(snapshot: Snapshot) -> Iterator[Sample]:
    """Yield the whole queue: 0 where no instance is left, nothing where none says."""
    held = list(_held(snapshot))
    depths = [depth for each in held if (depth := each.reading.known("pending")) is not None]
    return one(sum(depths) if depths or not held else None)


def _info(snapshot: Snapshot) -> Iterator[Sample]:
    for held in _held(snapshot):
        more = label("id", held.instance.id), label("spec_hash", held.instance.spec_hash)
        yield "", ",".join((held.labels, *more)), 1


def _startup(snapshot: Snapshot) -> Iterator[Sample]:
    for instance in (held.instance for held in _held(snapshot)):
        if instance.ready_s is not None:
            took_s = instance.ready_s - instance.requested_s
            yield "", label("container_id", instance.container_id or ""), took_s


def _gpus(signal: str) -> Callable[[Snapshot], Iterable[Sample]]:
    def samples(snapshot: Snapshot) -> Iterator[Sample]:
        for held in _held(snapshot):
            for gpu, value in _by_gpu(held, signal):
                yield "", f"{held.labels},{label('gpu', gpu)}", value

    return samples


def _by_gpu(held: _MeasuredInstance, signal: str) -> Iterator[tuple[str, float]]:
    """Yield (gpu, value) of signals named ``<signal>{gpu="<uuid>"}``.

    A signal without the label is the number for all GPUs, and counts where no GPU has its own.
    """
    start, alone = f'{signal}{{gpu="', True
    for key in held.reading.metrics:
        if key.startswith(start):
            alone = False
            if (value := held.reading.known(key)) is not None:
                yield key[len(start) : -2], value
    if alone and (value := held.reading.known(signal)) is not None:
        yield _ALL_GPUS, value


def _gauge(
    name: str,
    text: str,
    samples: Callable[[Snapshot], Iterable[Sample]],
    names: tuple[str, ...] = _PLACE,
) -> Family:
    return Family(name, MetricType.GAUGE, text, samples, names)


FAMILIES = (
    _gauge(
        "tarn_queue_depth",
        "Requests that wait in all instances whose queue is known.",
        _depth,
        (),
    ),
    Family(
        "tarn_queue_depth_total",
        MetricType.UNTYPED,
        "The same as tarn_queue_depth, under the name of the Java TARN; it falls, too.",
        _depth,
    ),
    Family(
        "tarn_instance_info",
        MetricType.INFO,
        "The instance that a container hosts.",
        _info,
        (*_PLACE, "id", "spec_hash"),
    ),
    _gauge(
        "tarn_container_queue_depth",
        "Requests that wait in one instance.",
        _each(lambda held: held.reading.known("pending")),
    ),
    _gauge(
        "tarn_container_executing",
        "Requests that one instance executes, an estimate.",
        _each(lambda held: held.reading.known("executing")),
    ),
    _gauge(
        "tarn_container_load",
        "Larger of GPU utilization and filled part of the queue, 0 to 1.",
        _each(lambda held: held.reading.load),
    ),
    _gauge(
        "tarn_container_startup_seconds",
        "Seconds from the request of an instance to its first ready.",
        _startup,
        ("container_id",),
    ),
    _gauge(
        "tarn_gpu_utilization",
        "GPU utilization, 0 to 1.",
        _gpus("gpu_utilization"),
        (*_PLACE, "gpu"),
    ),
    _gauge(
        "tarn_gpu_memory_used",
        "GPU memory in use, bytes.",
        _gpus("gpu_memory_used_bytes"),
        (*_PLACE, "gpu"),
    ),
    _gauge(
        "tarn_gpu_memory_used_bytes",
        "GPU memory in use, bytes.",
        _gpus("gpu_memory_used_bytes"),
        (*_PLACE, "gpu"),
    ),
    _gauge(
        "tarn_gpu_memory_total_bytes",
        "GPU memory, bytes.",
        _gpus("gpu_memory_total_bytes"),
        (*_PLACE, "gpu"),
    ),
)
