"""A snapshot as the bytes that are asked for most: ``/instances`` and ``/metrics``.

Pure. Everything is made line by line, so that no single call holds the interpreter for long,
however large the fleet is.
"""

import math
import re
from collections.abc import Iterable, Iterator, Mapping

import attrs

from tarn.control.snapshot import Snapshot
from tarn.domain import CODES, Instance, Known, Reading, State

__all__ = ["render_instances", "render_metrics"]

QUEUE_CAPACITY = 16
"""Requests that fill one instance; the contract's ``queue-capacity-per-container``."""

_PROCESS = frozenset({State.STARTING, State.READY, State.DRAINING})
_GPU_SIGNAL = re.compile(
    r'(?P<what>gpu_(?:utilization|memory_used_bytes|memory_total_bytes))(?:\{gpu="(?P<gpu>[^"]*)"\})?'
)
_GPU_FAMILIES = (
    ("gpu_utilization", "tarn_gpu_utilization", "GPU utilization, 0 to 1."),
    ("gpu_memory_used_bytes", "tarn_gpu_memory_used", "GPU memory in use, bytes."),
    ("gpu_memory_used_bytes", "tarn_gpu_memory_used_bytes", "GPU memory in use, bytes."),
    ("gpu_memory_total_bytes", "tarn_gpu_memory_total_bytes", "GPU memory, bytes."),
)
_ALL_GPUS = "all"
"""The label where only one number for all GPUs of an instance is known."""
_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})

Labels = tuple[tuple[str, str], ...]
Sample = tuple[Labels, float]


@attrs.frozen
class _Family:
    """One metric: its name, kind, help, and the samples that are known."""

    name: str
    kind: str
    help: str
    samples: tuple[Sample, ...]


def render_instances(snapshot: Snapshot) -> bytes:
    """Return ``host:port`` of each instance that may get traffic, a line each; empty for none."""
    lines = [f"{member.endpoint.http}\n" for member in snapshot.view.members]
    return "".join(lines).encode("utf-8", "replace")


def render_metrics(snapshot: Snapshot) -> bytes:
    """Return the Prometheus text (format 0.0.4) of *snapshot*; what is unknown is left out."""
    return "".join(_lines(snapshot)).encode("utf-8", "replace")


def _lines(snapshot: Snapshot) -> Iterator[str]:
    for family in _families(snapshot):
        if family.samples:
            yield f"# HELP {family.name} {family.help}\n# TYPE {family.name} {family.kind}\n"
            for labels, value in family.samples:
                yield f"{family.name}{_labels(labels)} {_value(value)}\n"


def _labels(labels: Labels) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{text.translate(_ESCAPES)}"' for name, text in labels) + "}"


def _value(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return repr(int(value)) if float(value).is_integer() else repr(float(value))


def _families(snapshot: Snapshot) -> Iterator[_Family]:
    held = tuple((i, snapshot.readings.get(i.id)) for i in snapshot.instances if i.container_id)
    yield from _fleet(snapshot)
    yield from _queues(held)
    yield _Family(
        "tarn_container_startup_ms",
        "gauge",
        "Milliseconds from the request of an instance to its first ready.",
        tuple(
            ((("container_id", i.container_id or ""),), (i.ready_s - i.requested_s) * 1000)
            for i, _ in held
            if i.ready_s is not None
        ),
    )
    yield from _gpus(held)
    yield _Family(
        "tarn_events_total",
        "counter",
        "Events since this master started.",
        tuple(
            ((("code", code), ("severity", _severity(code))), count)
            for code, count in sorted(snapshot.event_totals.items())
        ),
    )


def _severity(code: str) -> str:
    return str(CODES[code].severity) if code in CODES else "unknown"


def _fleet(snapshot: Snapshot) -> Iterator[_Family]:
    states = [i.state for i in snapshot.instances]
    running = sum(state in _PROCESS for state in states)
    yield _Family(
        "tarn_target_containers", "gauge", "Desired instances.", (((), snapshot.desired),)
    )
    yield _Family(
        "tarn_running_containers", "gauge", "Instances that have a process.", (((), running),)
    )
    yield _Family(
        "tarn_instances",
        "gauge",
        "Instances by state.",
        tuple(
            ((("state", str(state)),), states.count(state))
            for state in (State.REQUESTED, State.STARTING, State.READY, State.DRAINING)
        ),
    )
    yield _Family(
        "tarn_ready_instances", "gauge", "Instances in the view.", (((), snapshot.ready),)
    )
    yield _Family(
        "tarn_view_revision", "gauge", "Revision of the view.", (((), snapshot.view.revision),)
    )
    yield _Family(
        "tarn_faults", "gauge", "Things that are wrong now.", (((), len(snapshot.faults)),)
    )


Held = tuple[tuple[Instance, Reading | None], ...]


def _queues(held: Held) -> Iterator[_Family]:
    depths = tuple(
        (_place(i), depth) for i, reading in held if (depth := _pending(reading)) is not None
    )
    total: tuple[Sample, ...] = (((), sum(depth for _, depth in depths)),)
    yield _Family(
        "tarn_queue_depth_total",
        "gauge",
        "Requests that wait in all instances whose queue is known.",
        total if depths or not held else (),
    )
    yield _Family(
        "tarn_container_queue_depth", "gauge", "Requests that wait in one instance.", depths
    )
    yield _Family(
        "tarn_container_load",
        "gauge",
        "Larger of GPU utilization and filled part of the queue, 0 to 1.",
        tuple((_place(i), load) for i, reading in held if (load := _load(reading)) is not None),
    )


def _place(instance: Instance) -> Labels:
    host = instance.endpoint.host if instance.endpoint else instance.node or ""
    return (("container_id", instance.container_id or ""), ("host", host))


def _known(reading: Reading | None, signal: str) -> float | None:
    sample = reading.metrics.get(signal) if reading else None
    return sample.value if isinstance(sample, Known) else None


def _pending(reading: Reading | None) -> float | None:
    return _known(reading, "pending")


def _load(reading: Reading | None) -> float | None:
    parts = []
    pending, gpu = _pending(reading), _known(reading, "gpu_utilization")
    if pending is not None:
        parts.append(min(1.0, max(0.0, pending / QUEUE_CAPACITY)))
    if gpu is not None:
        parts.append(gpu)
    return max(parts) if parts else None


def _gpus(held: Held) -> Iterator[_Family]:
    found: dict[str, list[Sample]] = {}
    for instance, reading in held:
        for what, gpu, value in _gpu_samples(reading.metrics if reading else {}):
            labels = (*_place(instance), ("gpu", gpu))
            found.setdefault(what, []).append((labels, value))
    for what, name, text in _GPU_FAMILIES:
        yield _Family(name, "gauge", text, tuple(found.get(what, ())))


def _gpu_samples(metrics: Mapping[str, object]) -> Iterable[tuple[str, str, float]]:
    """Yield (what, gpu, value) of signals named ``gpu_<what>{gpu="<uuid>"}``.

    A signal without the label is the number for all GPUs, and counts where no GPU has its own.
    """
    found: dict[tuple[str, str], float] = {}
    for signal, sample in metrics.items():
        match = _GPU_SIGNAL.fullmatch(signal)
        if match and isinstance(sample, Known):
            found[match["what"], match["gpu"] or _ALL_GPUS] = sample.value
    single = {what for what, gpu in found if gpu != _ALL_GPUS}
    for (what, gpu), value in found.items():
        if gpu != _ALL_GPUS or what not in single:
            yield what, gpu, value
