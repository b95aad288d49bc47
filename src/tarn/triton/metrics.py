"""Parses Triton's ``/metrics`` into the numbers that decisions need. Pure.

The text may have megabytes, while other threads answer users: no call into C works on more than one
line or one `PIECE` of it, so that the interpreter can switch threads. Of lines of other families
only the name is read.

Source: Triton ``docs/user_guide/metrics.md``; Prometheus "Exposition formats", text version 0.0.4;
checked against the text of Triton 2.51.
"""

import functools
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice

import attrs

from tarn.domain.samples import Known, Sample, Unknown

__all__ = [
    "FAMILIES",
    "PIECE",
    "SUMMARIES",
    "MetricsParser",
    "TritonMetrics",
    "gpu_signals",
    "labels",
    "parse",
]

PENDING = "nv_inference_pending_request_count"
SUCCESS = "nv_inference_request_success"
FAILURE = "nv_inference_request_failure"
INFERENCES = "nv_inference_count"
EXECUTIONS = "nv_inference_exec_count"
REQUEST_US = "nv_inference_request_duration_us"
QUEUE_US = "nv_inference_queue_duration_us"
COMPUTE_US = "nv_inference_compute_infer_duration_us"
CACHE_HITS = "nv_cache_num_hits_per_model"
CACHE_MISSES = "nv_cache_num_misses_per_model"
CACHE_HIT_US = "nv_cache_hit_duration_per_model"
CACHE_MISS_US = "nv_cache_miss_duration_per_model"
FIRST_RESPONSES = "nv_inference_first_response_histogram_ms_count"
FIRST_RESPONSE_MS = "nv_inference_first_response_histogram_ms_sum"
GPU_UTILIZATION = "nv_gpu_utilization"
GPU_MEMORY_USED = "nv_gpu_memory_used_bytes"
GPU_MEMORY_TOTAL = "nv_gpu_memory_total_bytes"

FAMILIES = (
    PENDING,
    SUCCESS,
    FAILURE,
    INFERENCES,
    EXECUTIONS,
    REQUEST_US,
    QUEUE_US,
    COMPUTE_US,
    CACHE_HITS,
    CACHE_MISSES,
    CACHE_HIT_US,
    CACHE_MISS_US,
    FIRST_RESPONSES,
    FIRST_RESPONSE_MS,
    GPU_UTILIZATION,
    GPU_MEMORY_USED,
    GPU_MEMORY_TOTAL,
)
"""The families that are always kept."""

SUMMARIES = "triton: {args: {metrics-config: [summary_latencies=true]}}"
"""The setting for quantiles, by default 0.5, 0.9, 0.95, 0.99 and 0.999."""
HISTOGRAMS = "triton: {args: {metrics-config: [histogram_latencies=true]}}"
"""The setting for the times of first responses."""

PIECE = 1 << 16
"""Bytes split into lines at once: about 0.1 ms."""

# A longer line is not valid, and matching it would block the other threads.
LONGEST_LINE = 1 << 16

# Why a family is missing, by the beginning of its name; the first one counts.
_ABSENT = (
    (
        "nv_inference_first_response_",
        f"Triton 24.11 (2.52) and newer give it with {HISTOGRAMS}",
    ),
    ("nv_cache_", "no model uses a response cache (triton.cache in the spec)"),
    ("nv_gpu_", "a build without GPU, MIG, or --allow-gpu-metrics=false"),
    ("nv_inference_", "no model is loaded, or --allow-metrics=false"),
)
_US_IN_MS = 1000
# Of one instance; no machine has more.
MOST_GPUS = 64
_GPU_SIGNALS = {
    "gpu_utilization": GPU_UTILIZATION,
    "gpu_memory_used_bytes": GPU_MEMORY_USED,
    "gpu_memory_total_bytes": GPU_MEMORY_TOTAL,
}

_SAMPLE = re.compile(
    rb"\s*[a-zA-Z_:][\w:]*\s*"
    rb"(?:\{((?:[^\"{}]|\"(?:[^\"\\]|\\.)*+\")*+)\})?"  # a brace in quotes closes nothing
    rb"\s*([^\s{}_]++)(?:\s+-?\d+)?\s*(?:\Z|#)"  # the value, a time stamp, an exemplar
)
_LABEL = re.compile(rb'\s*([a-zA-Z_]\w*)\s*=\s*"((?:[^"\\]|\\.)*+)"\s*(?:,|\Z)')
_ESCAPE = re.compile(r"\\(.)")
_ESCAPED = {"n": "\n", "\\": "\\", '"': '"'}

_NO_NUMBER = Unknown("not a finite number: nothing was observed lately")
_Series = tuple[tuple[bytes, float], ...]
_Fold = Callable[[list[float]], float]


@attrs.frozen
class TritonMetrics:
    """The wanted families of one text.

    A missing family is Unknown, never zero. A family with an unreadable line is Unknown as a whole,
    since a sum without that line would be too small.
    """

    series: Mapping[str, _Series] = attrs.field(hash=False)
    """Family -> (labels as written, value), in the order of the text."""
    unreadable: Mapping[str, str] = attrs.field(factory=dict, hash=False)
    """Family -> its first unreadable line, cut to 80 characters."""
    source: str = "metrics"
    """``statistics`` if they come from there: the same counters, but not the same numbers."""

    def total(self, family: str) -> Sample[float]:
        """Add the values of *family* over all models, versions, reasons or GPUs."""
        return self._fold(family, math.fsum)

    def mean(self, family: str) -> Sample[float]:
        """Average the values of *family*, for example over the GPUs of one instance."""
        return self._fold(family, lambda values: math.fsum(values) / len(values))

    def samples(self, family: str) -> Iterator[tuple[dict[str, str], float]]:
        """Yield (labels, value) of each line of *family*."""
        for raw, value in self.series.get(family, ()):
            yield _labels(raw), value

    def by_label(self, family: str, label: str) -> dict[str, float]:
        """Add the values of *family* by the value of *label* (``model``, ``gpu_uuid``)."""
        sums: dict[str, float] = {}
        for labels, value in self.samples(family):
            key = labels.get(label, "")
            sums[key] = sums.get(key, 0.0) + value
        return sums

    def each(self, family: str) -> dict[str, Sample[float]]:
        """Return the lines of *family* by ``name{labels}``, and its `total` by the bare name."""
        lines: dict[str, Sample[float]] = {family: self.total(family)}
        for raw, value in self.series.get(family, ()):
            name = f"{family}{{{raw.decode(errors='replace')}}}"
            lines[name] = Known(value) if math.isfinite(value) else _NO_NUMBER
        return lines

    def signals(self) -> dict[str, Sample[float]]:
        """Return the signals of a `Reading` except ``executing``, which needs several scrapes.

        ``pending``, ``requests_total`` and ``failures_total`` count requests. ``queue_us_total``
        and ``request_us_total`` are microseconds since the start of Triton. ``gpu_utilization`` is
        the mean of its GPUs, a fraction in [0, 1], and ``gpu_memory_used_bytes`` their sum. Those
        of the response cache and of first responses are known only where Triton gives them.
        """
        first_ms = self.total(FIRST_RESPONSE_MS)
        return {
            "pending": self.total(PENDING),
            "requests_total": self.total(SUCCESS),
            "failures_total": self.total(FAILURE),
            "queue_us_total": self.total(QUEUE_US),
            "request_us_total": self.total(REQUEST_US),
            "cache_hits_total": self.total(CACHE_HITS),
            "cache_misses_total": self.total(CACHE_MISSES),
            "first_responses_total": self.total(FIRST_RESPONSES),
            "first_response_us_total": (
                Known(first_ms.value * _US_IN_MS) if isinstance(first_ms, Known) else first_ms
            ),
            "gpu_utilization": self.mean(GPU_UTILIZATION),
            "gpu_memory_used_bytes": self.total(GPU_MEMORY_USED),
        }

    def _fold(self, family: str, fold: _Fold) -> Sample[float]:
        if family in self.unreadable:
            return Unknown(f"{family}: cannot read the line '{self.unreadable[family]}'")
        series = self.series.get(family)
        if not series:
            has_misses = bool(self.series.get(CACHE_MISSES))
            has_success = bool(self.series.get(SUCCESS))
            return _absent(family, has_misses=has_misses, has_success=has_success)
        values = [value for _, value in series]
        value = fold(values) if all(map(math.isfinite, values)) else math.nan
        return Known(value) if math.isfinite(value) else Unknown(f"{family} is not a finite number")


@functools.lru_cache(maxsize=256)
def _absent(family: str, *, has_misses: bool, has_success: bool) -> Unknown:
    """Return why there is no *family*; each look at each instance asks for several."""
    reasons = (f": {reason}" for start, reason in _ABSENT if family.startswith(start))
    why = next(reasons, " in the metrics of this Triton")
    if family.startswith("nv_inference_") and "_summary_us" in family:
        why = f": no model is loaded, or the spec lacks {SUMMARIES}"
        if has_misses:
            why = ": Triton does not give it for models with a response cache"
        elif has_success:
            why = f": Triton gives it with {SUMMARIES} in the spec"
    elif family == PENDING and has_success:
        why = ": Triton before 23.09 (2.38) does not count waiting requests"
    return Unknown(f"no {family}{why}")


class MetricsParser:
    """Reads the text in pieces, so that the caller can do something else in between.

    Args:
        families: Full names of families to keep besides `FAMILIES`.
    """

    def __init__(self, families: Iterable[str] = ()) -> None:
        self._wanted: dict[bytes, list[tuple[bytes, float]]] = {
            name.encode(): [] for name in (*FAMILIES, *families)
        }
        self._unreadable: dict[str, str] = {}
        self._rest = b""

    def feed(self, piece: bytes) -> None:
        """Read the lines that *piece* completes; it should have at most `PIECE` bytes."""
        lines = (self._rest + piece).split(b"\n")
        self._rest = lines.pop()[: LONGEST_LINE + 1]  # one byte more, so that it stays too long
        self._read(lines)

    def close(self) -> TritonMetrics:
        """Read the rest, and return the metrics."""
        self._read([self._rest])
        self._rest = b""
        return TritonMetrics(
            {name.decode(): tuple(series) for name, series in self._wanted.items() if series},
            self._unreadable,
        )

    def _read(self, lines: list[bytes]) -> None:
        find, match = self._wanted.get, _SAMPLE.match
        for line in lines:
            name = line.partition(b"{")[0]
            series = find(name)
            if series is None:  # another family, a comment, or blanks next to the name
                words = name.split(None, 1)
                series = find(words[0]) if words else None
                if series is None:
                    continue
            found = match(line) if len(line) <= LONGEST_LINE else None
            if found is None:
                self._give_up(line)
                continue
            labels, value = found.groups(b"")
            try:
                series.append((labels, float(value)))
            except ValueError:
                self._give_up(line)

    def _give_up(self, line: bytes) -> None:
        name = line.partition(b"{")[0].split(None, 1)[0].decode()
        self._unreadable.setdefault(name, line[:80].decode(errors="replace").strip())


def parse(text: bytes, families: Iterable[str] = ()) -> TritonMetrics:
    """Return the metrics of a whole text.

    Args:
        text: The body of ``/metrics`` of a single tritonserver, UTF-8.
        families: Names to keep besides `FAMILIES`.
    """
    parser = MetricsParser(families)
    for start in range(0, len(text), PIECE):
        parser.feed(text[start : start + PIECE])
    return parser.close()


def gpu_signals(seen: TritonMetrics) -> dict[str, Sample[float]]:
    """Return the signals of each GPU as ``<signal>{gpu="<uuid>"}``, of the first `MOST_GPUS`.

    ``gpu_utilization`` is a fraction in [0, 1]; ``gpu_memory_used_bytes`` and
    ``gpu_memory_total_bytes`` are bytes.
    """
    return {
        f'{signal}{{gpu="{uuid}"}}': Known(value) if math.isfinite(value) else _NO_NUMBER
        for signal, family in _GPU_SIGNALS.items()
        for uuid, value in islice(seen.by_label(family, "gpu_uuid").items(), MOST_GPUS)
        if uuid
    }


def labels(line: str) -> dict[str, str]:
    """Return the labels in a name from `TritonMetrics.each`."""
    return _labels(line.partition("{")[2].rpartition("}")[0].encode())


def _labels(raw: bytes) -> dict[str, str]:
    return {
        name.decode(): _ESCAPE.sub(
            lambda m: _ESCAPED.get(m[1], m[0]), value.decode(errors="replace")
        )
        for name, value in _LABEL.findall(raw)
    }
