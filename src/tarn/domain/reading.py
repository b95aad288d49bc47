"""What one look at one Triton brought."""

from collections.abc import Mapping

import attrs

from tarn.domain.control_calls import CallProgress
from tarn.domain.facts import StubEnded
from tarn.domain.outcomes import RequestCounts, TestResult
from tarn.domain.samples import Known, Sample, Unknown

__all__ = ["NOT_LOADED", "QUEUE_CAPACITY", "ModelState", "Reading"]

NOT_LOADED = "not loaded"
"""Reason of a model that lies in the repository, and that this Triton was never asked to load: it
came after the start."""
QUEUE_CAPACITY = 16
"""Requests that fill one instance; the contract's ``queue-capacity-per-container``."""


@attrs.frozen(order=True)
class ModelState:
    """One line of Triton's repository index (the highest version that is not UNAVAILABLE wins)."""

    name: str
    state: str
    """``READY``, ``LOADING``, ``UNLOADING`` or ``UNAVAILABLE``, as Triton writes it."""
    reason: str = ""
    versions: tuple[str, ...] = ()
    """Those that are READY, the highest last."""


@attrs.frozen
class Reading:
    """The newest answers of one instance; each part stands for itself."""

    instance_id: str
    taken_s: float
    """Monotonic seconds of the newest answer or failure."""
    live: Sample[bool] = attrs.field(default=Unknown("not probed yet"))
    """``/v2/health/live``. Unknown by time-out says nothing; see ``gone``."""
    gone: str = ""
    """Why it is certain that nothing listens any more (closed, refused); else empty."""
    models: Sample[tuple[ModelState, ...]] = attrs.field(default=Unknown("not probed yet"))
    """The repository index, sorted by name."""
    warm: bool = True
    """False while warm-up requests of the spec are still being sent."""
    cold: str = ""
    """Why the newest warm-up request failed; empty when none did."""
    unloaded: Sample[bool] | None = None
    """None: its models were not asked to unload. Known(True): none is left. Known(False): the last
    requests in them are waited for. Unknown: Triton refuses, and why."""
    unmeasured: str = ""
    """Why its metrics cannot be read for some looks now; its statistics are read instead, as far as
    they can be. Empty: they can."""
    metrics: Mapping[str, Sample[float]] = attrs.field(factory=dict, hash=False)
    """Signal name (``pending``, ``executing``, ``requests_total`` ...) to what was read."""
    stub_ended: StubEnded | None = None
    """What the watcher next to its Triton tells through the repository index; None: nothing, or
    there is none. Then the runtime may tell."""
    outcomes: Mapping[str, RequestCounts] = attrs.field(factory=dict, hash=False)
    """Model to what became of its requests, as read last; without a model of which nothing is
    known."""
    blind: str = ""
    """What the master itself lacked at its newest look; empty when it could look. The rest of the
    reading is what it saw last, and the instance is not to blame."""

    calls: CallProgress | None = None
    """Which control calls it has had; None: none were sent, so what was known stands."""
    tested: TestResult | None = None
    """The newest test request and its answer; None: none was sent, or none said anything."""

    def known(self, signal: str) -> float | None:
        """Return the value of *signal*; None when it is unknown."""
        sample = self.metrics.get(signal)
        return sample.value if isinstance(sample, Known) else None

    @property
    def counted_s(self) -> float | None:
        """Monotonic second at which its counters were read; None: they are not known."""
        sample = self.metrics.get("requests_total")
        return self.taken_s - sample.age_s if isinstance(sample, Known) else None

    @property
    def load(self) -> float | None:
        """The larger of what is known: how busy the GPUs are, how full the queue is; 0 to 1."""
        pending, gpu = self.known("pending"), self.known("gpu_utilization")
        filled = None if pending is None else min(1.0, max(0.0, pending / QUEUE_CAPACITY))
        return max((part for part in (filled, gpu) if part is not None), default=None)

    @property
    def busy(self) -> Sample[float]:
        """Requests queued or executing; Unknown unless both are known."""
        pending = self.metrics.get("pending", Unknown("not scraped yet"))
        executing = self.metrics.get("executing", Unknown("not scraped yet"))
        match pending, executing:
            case Known(), Known():
                age_s = max(pending.age_s, executing.age_s)
                return Known(pending.value + executing.value, age_s)
            case Unknown(), _:
                return pending
            case _:
                return executing
