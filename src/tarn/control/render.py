"""A snapshot as the bytes that are asked for most: ``/instances`` and ``/metrics``.

Pure. Everything is made line by line, so that no single call holds the interpreter for long,
however large the fleet is.
"""

import math
from collections.abc import Iterable, Iterator, Mapping

import attrs

from tarn.control.snapshot import Snapshot
from tarn.domain import ALIVE, CODES, Instance, Known, State

__all__ = ["render_instances", "render_metrics"]

QUEUE_CAPACITY = 16
"""Requests that fill one instance; the contract's ``queue-capacity-per-container``."""

_PROCESS = frozenset({State.STARTING, State.READY, State.DRAINING})
_GPU_FAMILIES = (
    ("gpu_utilization", "tarn_gpu_utilization", "GPU utilization, 0 to 1."),
    ("gpu_memory_used_bytes", "tarn_gpu_memory_used", "GPU memory in use, bytes."),
    ("gpu_memory_used_bytes", "tarn_gpu_memory_used_bytes", "GPU memory in use, bytes."),
    ("gpu_memory_total_bytes", "tarn_gpu_memory_total_bytes", "GPU memory, bytes."),
)
_ALL_GPUS = "all"
"""The label where only one number for all GPUs of an instance is known."""
_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})

Samples = Iterable[tuple[str, float]]
"""Labels as the format writes them, without the braces, and the value; only what is known."""


@attrs.frozen
class _Held:
    """One instance that has a container, what was read of it, and its labels, written once."""

    labels: str
    instance: Instance
    metrics: Mapping[str, object]

    def known(self, signal: str) -> float | None:
        """Return the value of *signal*; None when it is unknown."""
        sample = self.metrics.get(signal)
        return sample.value if isinstance(sample, Known) else None


def render_instances(snapshot: Snapshot) -> bytes:
    """Return ``host:port`` of each instance that may get traffic, a line each; empty for none."""
    lines = [f"{member.endpoint.http}\n" for member in snapshot.view.members]
    return "".join(lines).encode("utf-8", "replace")


def render_metrics(snapshot: Snapshot) -> bytes:
    """Return the Prometheus text (format 0.0.4) of *snapshot*; what is unknown is left out."""
    return "".join(_lines(snapshot)).encode("utf-8", "replace")


def _lines(snapshot: Snapshot) -> Iterator[str]:
    """Yield the text; samples are never collected, or the collector would stop the world for it."""
    for name, kind, text, samples in _families(snapshot):
        first = True
        for labels, value in samples:
            if first:
                yield f"# HELP {name} {text}\n# TYPE {name} {kind}\n"
                first = False
            braces = f"{{{labels}}}" if labels else ""
            yield f"{name}{braces} {_value(value)}\n"


def _label(name: str, text: str) -> str:
    return f'{name}="{text.translate(_ESCAPES)}"'


def _value(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return repr(int(value)) if float(value).is_integer() else repr(float(value))


def _families(snapshot: Snapshot) -> Iterator[tuple[str, str, str, Samples]]:
    held = [
        _Held(_place(i), i, reading.metrics if (reading := snapshot.readings.get(i.id)) else {})
        for i in snapshot.instances
        if i.container_id
    ]
    for name, text, samples in (*_fleet(snapshot), *_queues(held), *_gpus(held)):
        yield name, "gauge", text, samples
    yield (
        "tarn_events_total",
        "counter",
        "Events since this master started.",
        (
            (f"{_label('code', code)},{_label('severity', _severity(code))}", count)
            for code, count in sorted(snapshot.event_totals.items())
        ),
    )


def _place(instance: Instance) -> str:
    host = instance.endpoint.host if instance.endpoint else instance.node or ""
    return f"{_label('container_id', instance.container_id or '')},{_label('host', host)}"


def _severity(code: str) -> str:
    return str(CODES[code].severity) if code in CODES else "unknown"


Gauge = tuple[str, str, Samples]


def _fleet(snapshot: Snapshot) -> Iterator[Gauge]:
    states = [i.state for i in snapshot.instances]
    running = sum(state in _PROCESS for state in states)
    yield "tarn_target_containers", "Desired instances.", [("", snapshot.desired)]
    yield "tarn_running_containers", "Instances that have a process.", [("", running)]
    yield (
        "tarn_instances",
        "Instances by state.",
        [(_label("state", state), states.count(state)) for state in State if state in ALIVE],
    )
    yield "tarn_ready_instances", "Instances in the view.", [("", snapshot.ready)]
    yield "tarn_view_revision", "Revision of the view.", [("", snapshot.view.revision)]
    yield "tarn_faults", "Things that are wrong now.", [("", len(snapshot.faults))]


def _queues(held: list[_Held]) -> Iterator[Gauge]:
    depths = [depth for one in held if (depth := one.known("pending")) is not None]
    yield (
        "tarn_queue_depth_total",
        "Requests that wait in all instances whose queue is known.",
        [("", sum(depths))] if depths or not held else [],
    )
    yield (
        "tarn_container_queue_depth",
        "Requests that wait in one instance.",
        ((one.labels, d) for one in held if (d := one.known("pending")) is not None),
    )
    yield (
        "tarn_container_load",
        "Larger of GPU utilization and filled part of the queue, 0 to 1.",
        ((one.labels, load) for one in held if (load := _load(one)) is not None),
    )
    yield (
        "tarn_container_startup_ms",
        "Milliseconds from the request of an instance to its first ready.",
        (
            (_label("container_id", i.container_id or ""), (i.ready_s - i.requested_s) * 1000)
            for i in (one.instance for one in held)
            if i.ready_s is not None
        ),
    )


def _load(one: _Held) -> float | None:
    parts = []
    pending, gpu = one.known("pending"), one.known("gpu_utilization")
    if pending is not None:
        parts.append(min(1.0, max(0.0, pending / QUEUE_CAPACITY)))
    if gpu is not None:
        parts.append(gpu)
    return max(parts) if parts else None


def _gpus(held: list[_Held]) -> Iterator[Gauge]:
    for signal, name, text in _GPU_FAMILIES:
        yield name, text, _gpu_samples(held, signal)


def _gpu_samples(held: list[_Held], signal: str) -> Samples:
    for one in held:
        for gpu, value in _by_gpu(one, signal):
            yield f"{one.labels},{_label('gpu', gpu)}", value


def _by_gpu(one: _Held, signal: str) -> Iterator[tuple[str, float]]:
    """Yield (gpu, value) of signals named ``<signal>{gpu="<uuid>"}``.

    A signal without the label is the number for all GPUs, and counts where no GPU has its own.
    """
    start, alone = f'{signal}{{gpu="', True
    for key in one.metrics:
        if key.startswith(start):
            alone = False
            if (value := one.known(key)) is not None:
                yield key[len(start) : -2], value
    if alone and (value := one.known(signal)) is not None:
        yield _ALL_GPUS, value
