"""The series of the instances as text, rendered again only for those that changed."""

import functools
import operator
from collections.abc import Iterator

import attrs

from tarn.domain import Instance, Reading
from tarn.read.metrics.exposition import heading, line, series_text
from tarn.read.metrics.series import EACH_INSTANCE, QUEUES, MeasuredInstance, place_of
from tarn.read.snapshot import Snapshot

__all__ = ["InstanceText"]

# What of an instance the series are made of.
_PARTS = operator.attrgetter(
    "container_id", "endpoint", "node", "spec_hash", "ready_s", "requested_s"
)
_GPU, _MEMORY, _OF_MEMORY = "gpu_utilization", "gpu_memory_used_bytes", "gpu_memory_total_bytes"
# Family to the signals that it is made of, with those of single GPUs.
_SIGNALS = {
    "tarn_container_queue_depth": ("pending",),
    "tarn_container_executing": ("executing",),
    "tarn_container_load": ("pending", _GPU),
    "tarn_gpu_utilization": (_GPU,),
    "tarn_gpu_memory_used": (_MEMORY,),
    "tarn_gpu_memory_used_bytes": (_MEMORY,),
    "tarn_gpu_memory_total_bytes": (_OF_MEMORY,),
}
_READ = frozenset(signal for signals in _SIGNALS.values() for signal in signals)
_EVERY = tuple(range(len(EACH_INSTANCE)))


@attrs.frozen(eq=False)
class _Rendered:
    """One instance as it was rendered last."""

    parts: tuple[object, ...]
    keys: tuple[str, ...]
    """The keys in the metrics of its reading of which series are made."""
    values: list[float | None]
    """Their values; None where one is not known."""
    labels: str
    pending: float | None
    text: tuple[str, ...]
    """Its lines of each family of `EACH_INSTANCE`."""


class InstanceText:
    """Keeps the text of each instance from one snapshot to the next; one thread at a time.

    Both formats have the same lines, so they share it.
    """

    def __init__(self) -> None:
        self._rendered: dict[str, _Rendered] = {}

    def render(self, snapshot: Snapshot, *, openmetrics: bool) -> bytes:
        """Return the text of all families of instances in *snapshot*."""
        before = self._rendered
        self._rendered = {
            i.id: _again(before.get(i.id), i, snapshot.readings.get(i.id))
            for i in snapshot.instances
            if i.container_id
        }
        every = self._rendered.values()
        depths = [one.pending for one in every if one.pending is not None]
        # 0 where no instance is left, nothing where none says
        queue = sum(depths) if depths or not every else None
        queues = series_text(QUEUES, queue, openmetrics=openmetrics)
        return queues + "".join(self._lines(openmetrics=openmetrics)).encode("utf-8", "replace")

    def _lines(self, *, openmetrics: bool) -> Iterator[str]:
        texts = [one.text for one in self._rendered.values()]
        for number, family in enumerate(EACH_INSTANCE):
            lines = "".join([text[number] for text in texts])
            if lines:
                yield heading(family, openmetrics=openmetrics)
                yield lines


def _again(before: _Rendered | None, instance: Instance, reading: Reading | None) -> _Rendered:
    """Return *instance* as rendered; what has the values of *before* is not written again."""
    reading = reading or Reading(instance.id, 0.0)
    parts, metrics = _PARTS(instance), reading.metrics
    keys = _keys_in(tuple(metrics))
    values = [getattr(metrics[key], "value", None) for key in keys]
    if before is None or before.parts != parts or before.keys != keys:
        labels, text, stale = place_of(instance), [""] * len(_EVERY), _EVERY
    elif before.values == values:
        return before
    else:
        moved = zip(keys, values, before.values, strict=True)
        signals = {key.partition("{")[0] for key, now, was in moved if now != was}
        labels, text, stale = before.labels, [*before.text], _made_of(frozenset(signals))
    of = MeasuredInstance(instance, reading, labels)
    for number in stale:
        family = EACH_INSTANCE[number]
        text[number] = "".join([line(family.name, one) for one in family.samples(of)])
    return _Rendered(parts, keys, values, labels, reading.known("pending"), tuple(text))


@functools.lru_cache(maxsize=4096)
def _keys_in(keys: tuple[str, ...]) -> tuple[str, ...]:
    """Return the keys of which series are made; an instance has the same ones at each look."""
    return tuple(key for key in keys if key.partition("{")[0] in _READ)


@functools.lru_cache(maxsize=256)
def _made_of(signals: frozenset[str]) -> tuple[int, ...]:
    """Return the places of the families that are made of some of *signals*."""
    return tuple(
        number
        for number, family in enumerate(EACH_INSTANCE)
        if not signals.isdisjoint(_SIGNALS.get(family.name, ()))
    )
