"""The newest answers of one Triton."""

from collections.abc import Mapping

import attrs

from tarn.domain.control_calls import CallProgress
from tarn.domain.counters import COUNTERS, CounterSet
from tarn.domain.facts import StubEnded
from tarn.domain.outcomes import RequestCounts, TestResult
from tarn.domain.samples import Known, Sample, Unknown

__all__ = [
    "LOOK_WITHIN_S",
    "NOT_LOADED",
    "NOT_READY",
    "QUEUE_CAPACITY",
    "ModelState",
    "Reading",
    "Silence",
    "first_line",
    "is_broken",
    "is_not_loaded",
]

NOT_LOADED = "not loaded"
"""Reason of a model that came into the repository after Triton's start, and that Triton was never
asked to load."""
NOT_READY = "it says that it is not ready (GET /v2/models/<name>/ready)"
"""Reason of a loaded model whose own ``is_ready()``, or whose processes, say so."""
LOOK_WITHIN_S = 2.0
"""Time limit of one look at an instance."""
QUEUE_CAPACITY = 16
"""Requests that fill one instance; ``queue-capacity-per-container`` of the contract."""


@attrs.frozen(order=True)
class ModelState:
    """One line of Triton's repository index (the highest version that is not UNAVAILABLE wins)."""

    name: str
    state: str
    """``READY``, ``LOADING``, ``UNLOADING`` or ``UNAVAILABLE``, as Triton writes it."""
    reason: str = ""
    versions: tuple[str, ...] = ()
    """The READY versions, the highest last."""

    @property
    def not_loaded(self) -> bool:
        """Whether it came after Triton's start, so that its state is not an error."""
        return is_not_loaded(self.state, self.reason)


def is_not_loaded(state: str, reason: str) -> bool:
    """Say whether Triton was never asked to load the model."""
    return state == "UNAVAILABLE" and reason == NOT_LOADED


def first_line(reason: str) -> str:
    """Return the first line of a model's reason; the rest is a traceback, for `tarn logs`."""
    return reason.partition("\n")[0]


def is_broken(state: str, reason: str) -> bool:
    """Say whether Triton was to load a model, and cannot serve it."""
    return state == "UNAVAILABLE" and bool(reason) and reason != NOT_LOADED


@attrs.frozen
class Silence:
    """A time in which an instance was asked, and gave no answer that shows its models."""

    # What was not asked, because the master was late, does not count against the instance.
    since_s: float
    """Monotonic second of the first question without an answer, later by all that was not asked."""
    until_s: float
    """Monotonic second at which the newest question was given up."""

    def longer(self, asked_s: float, until_s: float, each_s: float) -> "Silence":
        """Return it after one more question in vain; a pause counts for at most *each_s*."""
        unasked_s = max(0.0, asked_s - self.until_s - each_s)
        return Silence(self.since_s + unasked_s, until_s)


@attrs.frozen
class Reading:
    """The newest answers of one instance; the parts do not depend on one another."""

    instance_id: str
    taken_s: float
    """Monotonic seconds of the newest answer or failure."""
    live: Sample[bool] = attrs.field(default=Unknown("not probed yet"))
    """``/v2/health/live``. Unknown after a time-out proves nothing; see ``gone``."""
    gone: str = ""
    """Why it is certain that nothing listens any more (closed, refused); empty: it is not."""
    models: Sample[tuple[ModelState, ...]] = attrs.field(default=Unknown("not probed yet"))
    """The repository index, sorted by name."""
    warm: bool = True
    """False while warm-up requests of the spec are still being sent."""
    cold: str = ""
    """Why the newest warm-up request failed; empty when none did."""
    wrong: str = ""
    """What was wrong with an answer to ``update.smoke``; empty: no wrong answer came."""
    unloaded: Sample[bool] | None = None
    """None: its models were not asked to unload. Known(True): none is left. Known(False): Triton
    waits for their last requests. Unknown: Triton refuses; the reason says why."""
    unmeasured: str = ""
    """Why its metrics could not be read lately, so that its statistics are read instead; empty:
    they can be read."""
    metrics: Mapping[str, Sample[float]] = attrs.field(factory=dict, hash=False)
    """Signal name (``pending``, ``executing``, ``requests_total`` ...) to its sample. Counters are
    those of `tarn.domain.counters.InstanceCounters`, which never fall while the instance runs."""
    stub_ended: StubEnded | None = None
    """What the watcher next to its Triton reports in the repository index; None: nothing, or this
    instance has none, and the runtime may report it."""
    outcomes: Mapping[str, RequestCounts] = attrs.field(factory=dict, hash=False)
    """Model to the newest counters of its requests; models without any are left out."""
    resets: int = 0
    """How often a counter vanished or began again together with its model. Its growth since the
    look before was not seen then."""
    as_read: CounterSet | None = None
    """The sum of its counters as Triton gives them, which a later master will find; None: not
    known."""
    blind: str = ""
    """What the master itself lacked at its newest look; empty when it could look. The rest of the
    reading is then older, and the instance is not to blame."""

    calls: CallProgress | None = None
    """The control calls that it has had; None: none were sent, so earlier knowledge stays."""
    tested: TestResult | None = None
    """The newest test request and its answer; None: none was sent, or none had a result."""
    silence: Silence | None = None
    """How long it has not answered; None: it has, or all the time until now counts."""

    def known(self, signal: str) -> float | None:
        """Return the value of *signal*; None when it is unknown."""
        sample = self.metrics.get(signal)
        return sample.value if isinstance(sample, Known) else None

    @property
    def counted(self) -> CounterSet | None:
        """Its counters; None when its requests are not known."""
        if self.known("requests_total") is None:
            return None
        return CounterSet(**{field: self.known(name) or 0.0 for name, field in COUNTERS.items()})

    @property
    def counted_s(self) -> float | None:
        """Monotonic second at which its counters were read; None: not known."""
        sample = self.metrics.get("requests_total")
        return self.taken_s - sample.age_s if isinstance(sample, Known) else None

    @property
    def load(self) -> float | None:
        """The larger of GPU utilization and queue filling, 0 to 1; None: both unknown."""
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
