"""Triton's ``/metrics`` text -> the few numbers that decisions need. Pure, and by lines.

The text may have megabytes, and is read in parallel with threads that answer users: no single call
into C works on more than one line or one `PIECE` of it, so the interpreter can switch threads at
any time. Lines of families that nobody asked for cost one look at their name.

Source: Triton ``docs/user_guide/metrics.md``; Prometheus "Exposition formats", text version 0.0.4;
checked against the text of Triton 2.51.
"""

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
    GPU_UTILIZATION,
    GPU_MEMORY_USED,
    GPU_MEMORY_TOTAL,
)
"""The families that are always kept."""

SUMMARIES = "triton: {args: {metrics-config: [summary_latencies=true]}}"
"""What makes Triton give quantiles; those of its default are 0.5, 0.9, 0.95, 0.99 and 0.999."""

PIECE = 1 << 16
"""Bytes split into lines at once: about 0.1 ms."""

LONGEST_LINE = 1 << 16
"""A longer line of a wanted family cannot be meant, and matching it would hold the interpreter."""

MOST_GPUS = 64
"""Of one instance; no machine has more."""
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
_Fold = Callable[[_Series], float]


@attrs.frozen
class TritonMetrics:
    """What one text said of the families that were asked for.

    A family that the text does not have is Unknown, never zero; one with a line that cannot be
    read is Unknown as a whole, since a sum without that line would be too small.
    """

    series: Mapping[str, _Series] = attrs.field(hash=False)
    """Family -> (labels as they were written, value), in the order of the text."""
    unreadable: Mapping[str, str] = attrs.field(factory=dict, hash=False)
    """Family -> its first line that could not be read, cut to 80 characters."""

    def total(self, family: str) -> Sample[float]:
        """Add the values of *family* over all models, versions, reasons or GPUs."""
        return self._fold(family, lambda series: math.fsum(value for _, value in series))

    def mean(self, family: str) -> Sample[float]:
        """Average the values of *family*, for example over the GPUs of one instance."""
        return self._fold(
            family, lambda series: math.fsum(value for _, value in series) / len(series)
        )

    def samples(self, family: str) -> Iterator[tuple[dict[str, str], float]]:
        """Yield (labels, value) of each line of *family*; nothing when it is absent."""
        for raw, value in self.series.get(family, ()):
            yield _labels(raw), value

    def by_label(self, family: str, label: str) -> dict[str, float]:
        """Add the values of *family* by what *label* says (``model``, ``gpu_uuid``)."""
        sums: dict[str, float] = {}
        for labels, value in self.samples(family):
            key = labels.get(label, "")
            sums[key] = sums.get(key, 0.0) + value
        return sums

    def each(self, family: str) -> dict[str, Sample[float]]:
        """Return the lines of *family* by name and labels, as they were written: ``name{...}``.

        The family's own name is there too, with its `total`: Unknown where there is no line.
        """
        lines: dict[str, Sample[float]] = {family: self.total(family)}
        for raw, value in self.series.get(family, ()):
            name = f"{family}{{{raw.decode(errors='replace')}}}"
            lines[name] = Known(value) if math.isfinite(value) else _NO_NUMBER
        return lines

    def signals(self) -> dict[str, Sample[float]]:
        """Return what a `Reading` carries, less ``executing``: one scrape cannot tell that.

        ``pending`` and ``requests_total`` count requests, ``failures_total`` too (all reasons),
        ``queue_us_total`` and ``request_us_total`` are microseconds summed since the start of
        Triton, ``gpu_utilization`` is the mean fraction in [0, 1] over its GPUs,
        ``gpu_memory_used_bytes`` the sum over its GPUs.
        """
        return {
            "pending": self.total(PENDING),
            "requests_total": self.total(SUCCESS),
            "failures_total": self.total(FAILURE),
            "queue_us_total": self.total(QUEUE_US),
            "request_us_total": self.total(REQUEST_US),
            "gpu_utilization": self.mean(GPU_UTILIZATION),
            "gpu_memory_used_bytes": self.total(GPU_MEMORY_USED),
        }

    def _fold(self, family: str, fold: _Fold) -> Sample[float]:
        if family in self.unreadable:
            return Unknown(f"{family}: cannot read the line '{self.unreadable[family]}'")
        series = self.series.get(family)
        if not series:
            return Unknown(self._absent(family))
        value = fold(series) if all(math.isfinite(v) for _, v in series) else math.nan
        return Known(value) if math.isfinite(value) else Unknown(f"{family} is not a finite number")

    def _absent(self, family: str) -> str:
        if family.startswith("nv_inference_") and "_summary_us" in family:
            return self._without_summaries(family)
        if family.startswith("nv_gpu_"):
            return f"no {family}: a build without GPU, MIG, or --allow-gpu-metrics=false"
        if family == PENDING and self.series.get(SUCCESS):
            return f"no {family}: Triton before 23.09 (2.38) does not count waiting requests"
        if family.startswith("nv_inference_"):
            return f"no {family}: no model is loaded, or --allow-metrics=false"
        return f"no {family} in the metrics of this Triton"

    def _without_summaries(self, family: str) -> str:
        if self.series.get(SUCCESS):
            return f"no {family}: Triton gives it with {SUMMARIES} in the spec"
        return f"no {family}: no model is loaded, or the spec lacks {SUMMARIES}"


class MetricsParser:
    """Reads the text piece by piece, so that the caller can do something else in between.

    Args:
        families: Names to keep besides `FAMILIES`; a name is compared whole.
    """

    def __init__(self, families: Iterable[str] = ()) -> None:
        self._wanted: dict[bytes, list[tuple[bytes, float]]] = {
            name.encode(): [] for name in (*FAMILIES, *families)
        }
        self._unreadable: dict[str, str] = {}
        self._rest = b""

    def feed(self, piece: bytes) -> None:
        """Read the lines that *piece* completes; give at most about `PIECE` bytes."""
        lines = (self._rest + piece).split(b"\n")
        self._rest = lines.pop()[: LONGEST_LINE + 1]  # still too long when its end comes
        self._read(lines)

    def close(self) -> TritonMetrics:
        """Read what is left, and return everything."""
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
            if series is None:  # another family, a comment, or blanks around the name
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
    """Read a whole text at once: what `MetricsParser` returns for its pieces.

    Args:
        text: The body of ``/metrics`` of a single tritonserver, UTF-8.
        families: Names to keep besides `FAMILIES`.
    """
    parser = MetricsParser(families)
    for start in range(0, len(text), PIECE):
        parser.feed(text[start : start + PIECE])
    return parser.close()


def gpu_signals(seen: TritonMetrics) -> dict[str, Sample[float]]:
    """Return what *seen* says of each GPU, as ``<signal>{gpu="<uuid>"}``; of the first `MOST_GPUS`.

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
    """Return the labels of a name that `TritonMetrics.each` gave."""
    return _labels(line.partition("{")[2].rpartition("}")[0].encode())


def _labels(raw: bytes) -> dict[str, str]:
    return {
        name.decode(): _ESCAPE.sub(
            lambda m: _ESCAPED.get(m[1], m[0]), value.decode(errors="replace")
        )
        for name, value in _LABEL.findall(raw)
    }
