"""Series of each instance, and of each model over all instances; models beyond a bound are one."""

import functools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping

import attrs

from tarn.domain import Instance, Reading
from tarn.domain.model_totals import MOST_MODELS, OTHER, ModelTotals
from tarn.read.metrics.exposition import Family, MetricType, Series
from tarn.read.snapshot import Snapshot

__all__ = ["EACH_INSTANCE", "MODELS", "QUEUES", "MeasuredInstance", "place_of"]

_ALL_GPUS = "all"
"""The label where only one number for all GPUs of an instance is known."""
_PLACE = ("container_id", "host")
_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


def _label(name: str, text: str) -> str:
    """Return one label as it is written; any text may stand in it."""
    return f'{name}="{text.translate(_ESCAPES)}"'


def _labels(**values: str) -> str:
    """Return some labels as they are written, in this order."""
    return ",".join(_label(name, text) for name, text in values.items())


def _one(value: float | None) -> Iterator[Series]:
    """Yield the only series of a family without labels; none for None."""
    if value is not None:
        yield "", "", value


@attrs.frozen
class MeasuredInstance:
    """One instance that has a container, what was read of it, and its labels."""

    instance: Instance
    reading: Reading
    labels: str


OneInstance = Callable[[MeasuredInstance], Iterable[Series]]


def place_of(instance: Instance) -> str:
    """Return the labels that say where *instance* is."""
    host = (instance.endpoint.host if instance.endpoint else instance.node) or ""
    return _labels(container_id=instance.container_id or "", host=host)


def _each(value: Callable[[MeasuredInstance], float | None]) -> OneInstance:
    def samples(of: MeasuredInstance) -> Iterable[Series]:
        found = value(of)
        return () if found is None else (("", of.labels, found),)

    return samples


def _info(of: MeasuredInstance) -> Iterable[Series]:
    more = _label("id", of.instance.id), _label("spec_hash", of.instance.spec_hash)
    return (("", ",".join((of.labels, *more)), 1),)


def _startup(of: MeasuredInstance) -> Iterable[Series]:
    instance = of.instance
    if instance.ready_s is None:
        return ()
    took_s = instance.ready_s - instance.requested_s
    return (("", _label("container_id", instance.container_id or ""), took_s),)


def _gpus(signal: str) -> OneInstance:
    def samples(of: MeasuredInstance) -> Iterable[Series]:
        for gpu, value in _by_gpu(of, signal):
            yield "", f"{of.labels},{_label('gpu', gpu)}", value

    return samples


def _by_gpu(of: MeasuredInstance, signal: str) -> Iterator[tuple[str, float]]:
    """Yield (gpu, value) of signals named ``<signal>{gpu="<uuid>"}``.

    A signal without the label is the number for all GPUs, and counts where no GPU has its own.
    """
    gpus = _gpus_in(tuple(of.reading.metrics)).get(signal)
    for key, gpu in gpus or ((signal, _ALL_GPUS),):
        if (value := of.reading.known(key)) is not None:
            yield gpu, value


@functools.lru_cache(maxsize=4096)
def _gpus_in(keys: tuple[str, ...]) -> Mapping[str, tuple[tuple[str, str], ...]]:
    """Return by signal the keys that name a GPU, each with the GPU; they hardly ever change."""
    found: dict[str, tuple[tuple[str, str], ...]] = {}
    for key in keys:
        signal, labelled, gpu = key.partition('{gpu="')
        if labelled:
            found[signal] = (*found.get(signal, ()), (key, gpu[:-2]))
    return found


def _gauge(
    name: str, text: str, samples: OneInstance, names: tuple[str, ...] = _PLACE
) -> Family[MeasuredInstance, Series]:
    return Family(name, MetricType.GAUGE, text, samples, names)


QUEUES: tuple[Family[float | None, Series], ...] = (
    Family(
        "tarn_queue_depth",
        MetricType.GAUGE,
        "Requests that wait in all instances whose queue is known.",
        _one,
    ),
    Family(
        "tarn_queue_depth_total",
        MetricType.UNTYPED,
        "The same as tarn_queue_depth, under the name of the Java TARN; it falls, too.",
        _one,
    ),
)
"""Families of the requests that wait in all instances; None: not known."""

EACH_INSTANCE: tuple[Family[MeasuredInstance, Series], ...] = (
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
        _each(lambda of: of.reading.known("pending")),
    ),
    _gauge(
        "tarn_container_executing",
        "Requests that one instance executes, an estimate.",
        _each(lambda of: of.reading.known("executing")),
    ),
    _gauge(
        "tarn_container_load",
        "Larger of GPU utilization and filled part of the queue, 0 to 1.",
        _each(lambda of: of.reading.load),
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

_STATES = ("READY", "LOADING", "UNLOADING", "UNAVAILABLE")
_LONGEST = 255
"""A model's name is that of a directory."""

_Read = Callable[[ModelTotals], Iterable[Series]]


def _each_model(read: _Read) -> Callable[[Snapshot], Iterable[Series]]:
    """Return samples with the label ``model`` before those that *read* yields."""

    def samples(snapshot: Snapshot) -> Iterator[Series]:
        for name, totals in sorted(snapshot.models.newest.items()):
            model = _label("model", name)
            for suffix, more, value in read(totals):
                yield suffix, f"{model},{more}" if more else model, value

    return samples


def _requests(totals: ModelTotals) -> Iterator[Series]:
    yield "", _label("status", "success"), totals.counted.completed
    yield "", _label("status", "error"), totals.counted.failed


def _latency(totals: ModelTotals) -> Iterator[Series]:
    yield "_count", "", totals.counted.completed
    yield "_sum", "", totals.counted.request_us / 1e6


def _queued(totals: ModelTotals) -> Iterator[Series]:
    yield "_count", "", totals.counted.completed
    yield "_sum", "", totals.counted.queue_us / 1e6


def _lookups(totals: ModelTotals) -> Iterator[Series]:
    if totals.counted.cache_hits or totals.counted.cache_misses:
        yield "", _label("result", "hit"), totals.counted.cache_hits
        yield "", _label("result", "miss"), totals.counted.cache_misses


def _lookup_time(totals: ModelTotals) -> Iterator[Series]:
    if totals.counted.cache_hits or totals.counted.cache_misses:
        yield "", _label("result", "hit"), totals.counted.cache_hit_us / 1e6
        yield "", _label("result", "miss"), totals.counted.cache_miss_us / 1e6


def _first_response(totals: ModelTotals) -> Iterator[Series]:
    if totals.counted.first_responses:
        yield "_count", "", totals.counted.first_responses
        yield "_sum", "", totals.counted.first_response_us / 1e6


def _waiting(totals: ModelTotals) -> Iterator[Series]:
    return _one(totals.pending if totals.queues else None)


def _error_rate(snapshot: Snapshot) -> Iterator[Series]:
    for name in sorted(snapshot.models.newest):
        rates = snapshot.models.rates(name)
        ended = (rates.requests_per_s or 0.0) + (rates.failures_per_s or 0.0)
        if ended and rates.failures_per_s is not None:
            yield "", _label("model", name), rates.failures_per_s / ended


def _instances_by_state(snapshot: Snapshot) -> Iterator[Series]:
    for name, counts in sorted(_states(snapshot).items()):
        for state, count in counts.items():
            if count or state in ("READY", "UNAVAILABLE"):
                yield "", f"{_label('model', name)},{_label('state', state)}", count


def _states(snapshot: Snapshot) -> dict[str, dict[str, int]]:
    """Return each model's states with how many instances have it so."""
    counts: dict[str, dict[str, int]] = {}
    own = _own(snapshot)
    # Equal instances share one tuple, and a large fleet has few different ones.
    for models, count in Counter(instance.models for instance in snapshot.instances).items():
        for model, state, _ in models:
            name = model if model in own else OTHER
            row = counts.setdefault(name, dict.fromkeys((*_STATES, "other"), 0))
            row[state if state in _STATES else "other"] += count
    return counts


def _own(snapshot: Snapshot) -> frozenset[str]:
    """Return the models with series of their own: the first by name, none that cannot be one."""
    names = _names(snapshot)
    fit = sorted(name for name in names if len(name) <= _LONGEST and name != OTHER)
    return frozenset(fit[:MOST_MODELS])


def _names(snapshot: Snapshot) -> set[str]:
    different = {instance.models for instance in snapshot.instances}
    return {model for models in different for model, _, _ in models}


def _others(snapshot: Snapshot) -> Iterator[Series]:
    beyond = len(_names(snapshot)) - len(_own(snapshot))
    return _one(max(beyond, snapshot.models.others))


MODELS: tuple[Family[Snapshot, Series], ...] = (
    Family(
        "tarn_inference_requests_total",
        MetricType.COUNTER,
        "Requests that ended, as Triton counts them.",
        _each_model(_requests),
        ("model", "status"),
        {"success": "they succeeded", "error": "they failed"},
    ),
    Family(
        "tarn_inference_latency_seconds",
        MetricType.SUMMARY,
        "From arrival to answer, of requests that ended well; Triton gives no quantiles.",
        _each_model(_latency),
        ("model",),
    ),
    Family(
        "tarn_inference_queue_seconds",
        MetricType.SUMMARY,
        "What the same requests waited in Triton's queue.",
        _each_model(_queued),
        ("model",),
    ),
    Family(
        "tarn_inference_first_response_seconds",
        MetricType.SUMMARY,
        "From arrival to the first response, where Triton keeps histograms of it.",
        _each_model(_first_response),
        ("model",),
    ),
    Family(
        "tarn_cache_lookups_total",
        MetricType.COUNTER,
        "Requests that were looked up in a response cache.",
        _each_model(_lookups),
        ("model", "result"),
        {"hit": "the cache answered", "miss": "the model computed the answer"},
    ),
    Family(
        "tarn_cache_lookup_seconds_total",
        MetricType.COUNTER,
        "Seconds that the response caches took for them, for misses also to store the answer.",
        _each_model(_lookup_time),
        ("model", "result"),
        {"hit": "the cache answered", "miss": "the model computed the answer"},
    ),
    Family(
        "tarn_model_error_rate",
        MetricType.GAUGE,
        "Failed part of the requests that ended in the last ten seconds, 0 to 1.",
        _error_rate,
        ("model",),
    ),
    Family(
        "tarn_model_queue_depth",
        MetricType.GAUGE,
        "Requests that wait in all instances that say so.",
        _each_model(_waiting),
        ("model",),
    ),
    Family(
        "tarn_model_instances",
        MetricType.GAUGE,
        "Instances by the state of the model on them, as Triton's index has it.",
        _instances_by_state,
        ("model", "state"),
    ),
    Family(
        "tarn_models_other",
        MetricType.GAUGE,
        f"Models beyond the first {MOST_MODELS}, which stand as model {OTHER}.",
        _others,
    ),
)
