"""The state of a fake Triton: its models, counters and answers. Stdlib only, no I/O."""

import re
from collections.abc import Iterable

__all__ = ["FakeModel", "FakeTritonState", "metrics_text", "part"]

VERSION = "2.51.0"
# The minor version of the first Triton whose readiness of a model asks the model itself.
ASKS_MODELS = 64

_REASONS = ("REJECTED", "CANCELED", "BACKEND", "OTHER")

_MODEL = "v2/models/[^/]+(?:/versions/[^/]+)?"
_PARTS = (
    ("health", f"v2/health/.*|{_MODEL}/ready"),
    ("statistics", f"v2/models/stats|{_MODEL}/stats"),
    ("metadata", f"v2|{_MODEL}"),
    ("model-repository", "v2/repository/.*"),
    ("logging", "v2/logging"),
    ("shared-memory", "v2/(?:system|cuda)sharedmemory/.*"),
    ("trace", f"v2/trace/setting|{_MODEL}/trace/setting"),
    ("inference", f"{_MODEL}/infer"),
    ("model-config", f"{_MODEL}/config"),
)
"""Part of the API -> its paths; the first one that matches counts."""

_LOADED = ("READY", "UNLOADING")

_FAMILIES = (
    (
        "nv_inference_request_success",
        "counter",
        "Number of successful inference requests, all batch sizes",
    ),
    (
        "nv_inference_request_failure",
        "counter",
        "Number of failed inference requests, all batch sizes",
    ),
    (
        "nv_inference_count",
        "counter",
        "Number of inferences performed (does not include cached requests)",
    ),
    (
        "nv_inference_exec_count",
        "counter",
        "Number of model executions performed (does not include cached requests)",
    ),
    (
        "nv_inference_request_duration_us",
        "counter",
        "Cumulative inference request duration in microseconds (includes cached requests)",
    ),
    (
        "nv_inference_queue_duration_us",
        "counter",
        "Cumulative inference queuing duration in microseconds (includes cached requests)",
    ),
    (
        "nv_inference_compute_infer_duration_us",
        "counter",
        "Cumulative compute inference duration in microseconds (does not include cached requests)",
    ),
    (
        "nv_inference_pending_request_count",
        "gauge",
        "Instantaneous number of pending requests awaiting execution per-model.",
    ),
)


def part(parts: list[str]) -> str:
    """Return the part of Triton's API that has the path, as restrictions name it."""
    path = "/".join(parts)
    return next((name for name, pattern in _PARTS if re.fullmatch(pattern, path)), "")


class FakeModel:
    """One model that a test can program.

    Args:
        name: Its name in the repository.
        latency_s: Seconds that a request executes.
        instances: Requests that execute at once; the others are pending.
        load_s: Seconds that it is LOADING.
        error: Why it fails to load; empty: it loads.
    """

    def __init__(
        self,
        name: str,
        *,
        latency_s: float = 0.0,
        instances: int = 1,
        load_s: float = 0.0,
        error: str = "",
    ) -> None:
        self.name, self.latency_s, self.instances = name, latency_s, instances
        self.load_s, self.error = load_s, error
        self.state, self.reason = "UNAVAILABLE", "unloaded"
        self.pending = self.executing = 0
        self.extra_pending = 0
        """Added to the pending gauge, for a queue without requests."""
        self.says_ready = True
        """What its ``is_ready()`` returns; asked by a Triton of 25.12 (2.64) or newer."""
        self.successes = 0
        self.failures = dict.fromkeys(_REASONS, 0)
        self.request_us = self.queue_us = 0

    def succeeded(self, queue_s: float, execute_s: float) -> None:
        """Count one request; Triton counts when a request ends, not before."""
        self.successes += 1
        self.queue_us += round(queue_s * 1e6)
        self.request_us += round((queue_s + execute_s) * 1e6)

    def index(self) -> dict[str, str]:
        """Return its entry in the repository index."""
        entry = {"name": self.name, "version": "1", "state": self.state}
        return {**entry, "reason": self.reason} if self.reason else entry

    def metadata(self) -> dict[str, object]:
        """Return the answer to ``GET /v2/models/<name>``."""
        tensor = {"datatype": "FP32", "shape": [-1]}
        return {
            "name": self.name,
            "versions": ["1"],
            "platform": "python",
            "inputs": [{"name": "IN", **tensor}],
            "outputs": [{"name": "OUT", **tensor}],
        }

    def config(self) -> dict[str, object]:
        """Return the answer to ``GET /v2/models/<name>/config``, the parts that matter."""
        group = {"name": f"{self.name}_0", "kind": "KIND_CPU", "count": self.instances}
        tensor = {"data_type": "TYPE_FP32", "dims": [-1]}
        return {
            "name": self.name,
            "platform": "",
            "backend": "python",
            "max_batch_size": 0,
            "input": [{"name": "IN", **tensor}],
            "output": [{"name": "OUT", **tensor}],
            "instance_group": [group],
        }

    def stats(self) -> dict[str, object]:
        """Return its entry in ``/v2/models/stats``."""
        failed = sum(self.failures.values())
        compute_ns = (self.request_us - self.queue_us) * 1000
        nothing = {"count": 0, "ns": 0}
        return {
            "name": self.name,
            "version": "1",
            "last_inference": 0,
            "inference_count": self.successes,
            "execution_count": self.successes,
            "inference_stats": {
                "success": {"count": self.successes, "ns": self.request_us * 1000},
                "fail": {"count": failed, "ns": 0},
                "queue": {"count": self.successes, "ns": self.queue_us * 1000},
                "compute_input": nothing,
                "compute_infer": {"count": self.successes, "ns": compute_ns},
                "compute_output": nothing,
                "cache_hit": nothing,
                "cache_miss": nothing,
            },
            "response_stats": {},
            "batch_stats": [],
            "memory_usage": [],
        }

    def stats_answer(self) -> dict[str, object]:
        """Return the answer to ``GET /v2/models/<name>/stats``."""
        return {"model_stats": [self.stats()]}

    def values(self, family: str) -> Iterable[tuple[str, int]]:
        """Return (labels, value) of its lines of *family*."""
        plain = f'model="{self.name}",version="1"'
        if family == "nv_inference_request_failure":
            return [
                (f'model="{self.name}",reason="{reason}",version="1"', count)
                for reason, count in self.failures.items()
            ]
        values = {
            "nv_inference_request_success": self.successes,
            "nv_inference_count": self.successes,
            "nv_inference_exec_count": self.successes,
            "nv_inference_request_duration_us": self.request_us,
            "nv_inference_queue_duration_us": self.queue_us,
            "nv_inference_compute_infer_duration_us": self.request_us - self.queue_us,
            "nv_inference_pending_request_count": self.pending + self.extra_pending,
        }
        return [(plain, values[family])]


class FakeTritonState:
    """One fake server; a test may set any attribute at any time."""

    def __init__(self, models: Iterable[FakeModel] = (), *, version: str = VERSION) -> None:
        self.models = {model.name: model for model in models}
        self.version = version
        """Before 2.38 there is no pending gauge."""
        self.server_id = "triton"
        """Its ``--id``: the name in ``/v2``."""
        self.live = True
        self.ready: bool | None = None
        """The answer of ``/v2/health/ready``; None: whether no model is LOADING."""
        self.hanging = False
        """Whether it accepts requests without answering; set by `FakeServer.hang`."""
        self.delay_s = 0.0
        """Seconds before each answer."""
        self.gpus: dict[str, tuple[float, int, int]] = {}
        """GPU uuid -> (utilization as a fraction, memory used, memory total in bytes)."""
        self.metrics: bytes | None = None
        """Metrics to answer instead of the real ones."""
        self.garbage: bytes | None = None
        """Bytes to send instead of any answer."""
        self.chunked = False
        """Whether bodies are sent in chunks."""
        self.restricted: dict[str, tuple[str, str]] = {}
        """Part of the API -> (header in lower case, value) that opens it."""
        self.log_settings: dict[str, object] = {}
        """The settings that were sent to ``/v2/logging``."""
        self.trace_settings: dict[str, dict[str, object]] = {}
        """Model to the trace settings that were sent; '' for those of all models."""
        self.exiting = False
        """Whether it got SIGTERM: new connections are closed, old ones are served."""

    def is_model_ready(self, name: str) -> bool:
        """Return the answer of ``/v2/models/<name>/ready``."""
        model = self.models.get(name)
        if model is None or model.state != "READY":
            return False
        asks = int(self.version.split(".")[1]) >= ASKS_MODELS
        return model.says_ready if asks else True

    @property
    def is_ready(self) -> bool:
        """The answer of ``/v2/health/ready``."""
        if self.ready is not None:
            return self.ready
        return all(model.state != "LOADING" for model in self.models.values())


def metrics_text(state: FakeTritonState) -> bytes:
    """Return the metrics in Triton's form and order; a family without lines is left out."""
    lines = []
    minor = int(state.version.split(".")[1])
    for family, kind, text in _FAMILIES:
        if family == "nv_inference_pending_request_count" and minor < 38:  # noqa: PLR2004
            continue
        always = family == "nv_inference_request_failure"  # seen on 2.51 for a model that failed
        models = [m for m in state.models.values() if always or m.state in _LOADED]
        lines += _family(family, kind, text, [row for m in models for row in m.values(family)])
    for index, (family, text) in enumerate(
        (
            ("nv_gpu_utilization", "GPU utilization rate [0.0 - 1.0)"),
            ("nv_gpu_memory_used_bytes", "GPU used memory, in bytes"),
            ("nv_gpu_memory_total_bytes", "GPU total memory, in bytes"),
        )
    ):
        rows = [(f'gpu_uuid="{uuid}"', values[index]) for uuid, values in state.gpus.items()]
        lines += _family(family, "gauge", text, rows)
    return "".join(lines).encode()


def _family(
    name: str, kind: str, text: str, rows: list[tuple[str, float]] | list[tuple[str, int]]
) -> list[str]:
    if not rows:
        return []
    head = [f"# HELP {name} {text}\n", f"# TYPE {name} {kind}\n"]
    return head + [f"{name}{{{labels}}} {value}\n" for labels, value in rows]
