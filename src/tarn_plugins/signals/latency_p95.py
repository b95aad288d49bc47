"""The signal `latency_p95`: the time within which 19 of 20 requests are answered.

Triton measures quantiles of the last minute for each model of each instance, if it is started with
``metrics-config: [summary_latencies=true]``. The quantile of all requests cannot be computed from
those of its parts. The signal is their mean, each weighted by the requests that it answered within
the window. With equal instances and models that is the quantile itself; otherwise a fast model with
much traffic hides a slow one with little.
"""

# Source: Triton docs/user_guide/metrics.md, "Summaries". Seen on Triton 2.51: the quantile is `Nan`
# while its last minute is empty.

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache

import attrs

from tarn.domain import Known, Sample, Unknown
from tarn.domain.counters import CounterSet
from tarn.domain.signals import Samples
from tarn.hookspecs import Factory, hookimpl
from tarn.interfaces import MasterContext, Signal
from tarn.triton.metrics import SUMMARIES, labels

__all__ = ["LatencyP95", "LatencyP95Settings", "tarn_signals"]

SUMMARY = "nv_inference_request_summary_us"
COUNT = f"{SUMMARY}_count"
QUANTILE = "0.95"
_LONGEST_KEPT = 1024

_Rows = tuple[tuple[float, Mapping[str, Sample[float]]], ...]


@attrs.frozen
class LatencyP95Settings:
    """No settings."""


@attrs.frozen
class LatencyP95:
    """Seconds from a request's arrival at Triton to its answer, queue included."""

    def read(self, samples: Samples, window_s: float) -> Sample[float]:
        """Return seconds; Unknown if Triton keeps no such quantile, or no request ended."""
        # an instance without a quantile now is left out: the others have the same work
        parts = [part for rows in samples.values() for part in _parts(rows, window_s)]
        ended = sum(weight for _, weight, _ in parts)
        if ended > 0:
            value = sum(value * weight for value, weight, _ in parts) / ended
            return Known(value / 1e6, max(age_s for _, _, age_s in parts))
        if parts:
            return Unknown(f"no request ended in the last {window_s:g} s")
        return Unknown(_silence(samples))


def _parts(rows: _Rows, window_s: float) -> Iterator[tuple[float, float, float]]:
    """Yield (microseconds, requests that ended, age) of each model of one instance."""
    if not rows:
        return
    within = [metrics for at_s, metrics in rows if at_s >= rows[-1][0] - window_s]
    newest = within[-1]
    for name, sample in newest.items():
        count = _count_of(name)
        ended = None if count is None else newest.get(count)
        if count is not None and isinstance(sample, Known) and isinstance(ended, Known):
            before = CounterSet(_first(within[:-1], count))
            yield sample.value, CounterSet(ended.value).since(before).completed, sample.age_s


def _first(within: Sequence[Mapping[str, Sample[float]]], count: str) -> float:
    """Return the oldest value of *count*; 0 if there is none, so that all requests count."""
    known = (sample.value for one in within if isinstance(sample := one.get(count), Known))
    return next(known, 0.0)


def _count_of(name: str) -> str | None:
    """Return the counter that belongs to the quantile *name*; None for any other name."""
    # a cache of longer names could take much memory
    return _kept_count_of(name) if len(name) <= _LONGEST_KEPT else _read_count_of(name)


@lru_cache(maxsize=16384)
def _kept_count_of(name: str) -> str | None:
    return _read_count_of(name)


def _read_count_of(name: str) -> str | None:
    if not name.startswith(f"{SUMMARY}{{"):
        return None
    said = labels(name)
    if said.get("quantile") != QUANTILE:
        return None
    inside = name.partition("{")[2].rpartition("}")[0]
    without = inside.replace(f'quantile="{QUANTILE}"', "").strip(",")
    return f"{COUNT}{{{without}}}"


def _silence(samples: Samples) -> str:
    """Return why nothing is known, by the first instance that gives a reason."""
    newest = [(id_, rows[-1][1]) for id_, rows in samples.items() if rows]
    if not newest:
        return "no ready instance was scraped"
    for id_, metrics in newest:
        lines = [name for name in metrics if name.startswith(f"{SUMMARY}{{")]
        if any(_count_of(name) for name in lines):
            return "no request ended in the last minute"
        if lines:
            return (
                f"{id_} keeps no quantile {QUANTILE}: add {QUANTILE}:0.001 to summary_quantiles "
                "in triton.args.metrics-config, or leave them out"
            )
        said = metrics.get(SUMMARY)
        if isinstance(said, Unknown):
            return f"{id_}: {said.reason}"
    return f"no {SUMMARY} was read: Triton gives it with {SUMMARIES} in the spec"


def _create(_settings: LatencyP95Settings, _context: MasterContext) -> Signal:
    return LatencyP95()


def _reads(_settings: LatencyP95Settings) -> Iterable[str]:
    return (SUMMARY, COUNT)


@hookimpl
def tarn_signals() -> Mapping[str, Factory[Signal]]:
    """Offer ``latency_p95``."""
    summary = "seconds within which 19 of 20 requests are answered, by Triton's summaries"
    return {"latency_p95": Factory(LatencyP95Settings, _create, summary, reads=_reads)}
