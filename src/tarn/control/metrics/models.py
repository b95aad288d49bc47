"""Model by model, summed over the instances; models beyond a bound stand as one."""

from collections.abc import Callable, Iterable, Iterator

from tarn.control.metrics.family import Family, MetricType, Sample, label, one
from tarn.control.snapshot import Snapshot
from tarn.domain.model_totals import MOST_MODELS, OTHER, ModelTotals

__all__ = ["FAMILIES"]

_STATES = ("READY", "LOADING", "UNLOADING", "UNAVAILABLE")
_LONGEST = 255
"""A model's name is that of a directory."""

_Read = Callable[[ModelTotals], Iterable[tuple[str, str, float]]]


def _each(read: _Read) -> Callable[[Snapshot], Iterable[Sample]]:
    """Return samples with the label ``model`` before those that *read* yields."""

    def samples(snapshot: Snapshot) -> Iterator[Sample]:
        for name, totals in sorted(snapshot.models.newest.items()):
            model = label("model", name)
            for suffix, more, value in read(totals):
                yield suffix, f"{model},{more}" if more else model, value

    return samples


def _requests(totals: ModelTotals) -> Iterator[Sample]:
    yield "", label("status", "success"), totals.succeeded
    yield "", label("status", "error"), totals.failed


def _latency(totals: ModelTotals) -> Iterator[Sample]:
    yield "_count", "", totals.succeeded
    yield "_sum", "", totals.request_us / 1e6


def _queued(totals: ModelTotals) -> Iterator[Sample]:
    yield "_count", "", totals.succeeded
    yield "_sum", "", totals.queue_us / 1e6


def _waiting(totals: ModelTotals) -> Iterator[Sample]:
    return one(totals.pending if totals.queues else None)


def _error_rate(snapshot: Snapshot) -> Iterator[Sample]:
    for name in sorted(snapshot.models.newest):
        rates = snapshot.models.rates(name)
        ended = (rates.requests_per_s or 0.0) + (rates.failures_per_s or 0.0)
        if ended and rates.failures_per_s is not None:
            yield "", label("model", name), rates.failures_per_s / ended


def _instances(snapshot: Snapshot) -> Iterator[Sample]:
    for name, counts in sorted(_states(snapshot).items()):
        for state, count in counts.items():
            if count or state in ("READY", "UNAVAILABLE"):
                yield "", f"{label('model', name)},{label('state', state)}", count


def _states(snapshot: Snapshot) -> dict[str, dict[str, int]]:
    """Return each model's states with how many instances have it so."""
    counts: dict[str, dict[str, int]] = {}
    own = _own(snapshot)
    for instance in snapshot.instances:
        for model, state, _ in instance.models:
            name = model if model in own else OTHER
            row = counts.setdefault(name, dict.fromkeys((*_STATES, "other"), 0))
            row[state if state in _STATES else "other"] += 1
    return counts


def _own(snapshot: Snapshot) -> frozenset[str]:
    """Return the models with series of their own: the first by name, none that cannot be one."""
    names = _names(snapshot)
    fit = sorted(name for name in names if len(name) <= _LONGEST and name != OTHER)
    return frozenset(fit[:MOST_MODELS])


def _names(snapshot: Snapshot) -> set[str]:
    return {model for instance in snapshot.instances for model, _, _ in instance.models}


def _others(snapshot: Snapshot) -> Iterator[Sample]:
    beyond = len(_names(snapshot)) - len(_own(snapshot))
    return one(max(beyond, snapshot.models.others))


FAMILIES = (
    Family(
        "tarn_inference_requests_total",
        MetricType.COUNTER,
        "Requests that ended, as Triton counts them.",
        _each(_requests),
        ("model", "status"),
        {"success": "they succeeded", "error": "they failed"},
    ),
    Family(
        "tarn_inference_latency_seconds",
        MetricType.SUMMARY,
        "From arrival to answer, of requests that ended well; Triton gives no quantiles.",
        _each(_latency),
        ("model",),
    ),
    Family(
        "tarn_inference_queue_seconds",
        MetricType.SUMMARY,
        "What the same requests waited in Triton's queue.",
        _each(_queued),
        ("model",),
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
        _each(_waiting),
        ("model",),
    ),
    Family(
        "tarn_model_instances",
        MetricType.GAUGE,
        "Instances by the state of the model on them, as Triton's index has it.",
        _instances,
        ("model", "state"),
    ),
    Family(
        "tarn_models_other",
        MetricType.GAUGE,
        f"Models beyond the first {MOST_MODELS}, which stand as model {OTHER}.",
        _others,
    ),
)
