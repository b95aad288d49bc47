"""One managed Triton server, its states, and the mark of an instance that fails its users."""

import enum
import operator
from typing import Any, NamedTuple

import attrs

from tarn.domain.control_calls import NO_PROGRESS, CallProgress
from tarn.domain.draining import DrainProgress
from tarn.domain.endpoint import Endpoint
from tarn.domain.samples import Known, Sample, Unknown

__all__ = [
    "ALIVE",
    "FRESH_S",
    "PLACED",
    "TRANSITIONS",
    "Ejection",
    "FirstSign",
    "FleetWideFailure",
    "Instance",
    "InstanceState",
    "Symptom",
    "Unwell",
    "id_of",
]


class Symptom(enum.StrEnum):
    """What the results of an instance's requests show."""

    FAILING = "failing"
    """It fails far more requests than other instances of the same model, or than it did before."""
    STALLED = "stalled"
    """Requests wait in it, and none has completed for much longer than the model takes."""
    SLOW = "slow"
    """The model computes several times as long as on other instances; this is only reported."""

    @property
    def severe(self) -> bool:
        """Whether users lose requests because of it."""
        return self is not Symptom.SLOW


class FirstSign(NamedTuple):
    """A symptom that one look has shown, and that no second look has confirmed yet."""

    since_s: float
    """Monotonic second of the first look that showed it."""
    model: str = ""
    said: str = ""
    """What was seen, in words."""


@attrs.frozen
class Unwell:
    """The mark of an instance that passes its health checks but fails its users."""

    symptom: Symptom
    model: str
    said: str
    """What was seen, in words."""
    since_s: float
    """Monotonic second at which it was marked."""
    ejected: bool = False
    """It is out of the view because of it."""
    tests: int = 0
    """Number of the newest test request that counted."""
    passed: int = 0
    """Test requests in a row that were answered well."""
    lost: int = 0
    """Test requests in a row that failed."""
    answer: str = ""
    """The answer to the newest failed test request: Triton's own error, or that none came."""
    confirmed_s: float | None = None
    """Monotonic second at which it was confirmed; None: the instance is only suspected."""
    calm_s: float | None = None
    """Monotonic second since which an instance that is still in the view shows no symptom."""
    alone: bool = False
    """No other instance could be compared with it, so it was judged by its own past."""
    for_all: bool = False
    """Its model fails on all instances alike, and it gets the test requests for all of them."""

    @property
    def severe(self) -> bool:
        """Whether it fails its users; a slow instance does not."""
        return self.symptom.severe

    @property
    def confirmed(self) -> bool:
        """Whether it was confirmed."""
        return self.confirmed_s is not None

    @property
    def words(self) -> str:
        """What was seen, and how test requests were answered."""
        if self.answer:
            return f"{self.said}; a test request: {self.answer}"
        passed = "a test request was" if self.passed == 1 else f"{self.passed} test requests were"
        return f"{self.said}; {passed} answered well" if self.passed else self.said


@attrs.frozen
class Ejection:
    """How often an instance was ejected lately, and since when it is back in the view."""

    count: int
    back_s: float
    """Monotonic second at which it came back; what it did before does not count any more."""


@attrs.frozen
class FleetWideFailure:
    """A model that fails on all instances alike, because of the model or of its callers."""

    model: str
    symptom: Symptom
    said: str
    since_s: float
    seen_s: float
    """Monotonic second at which this was last seen."""
    asked: str = ""
    """Id of the instance that gets its test requests."""


class InstanceState(enum.StrEnum):
    """The state of an instance; *suspect* is a mark of a ready one, not a state."""

    REQUESTED = "requested"
    STARTING = "starting"
    READY = "ready"
    DRAINING = "draining"
    STOPPED = "stopped"
    FAILED = "failed"


ALIVE = frozenset(
    {InstanceState.REQUESTED, InstanceState.STARTING, InstanceState.READY, InstanceState.DRAINING}
)
"""States in which the runtime holds something for an instance, or is asked to."""
PLACED = frozenset({InstanceState.STARTING, InstanceState.READY, InstanceState.DRAINING})
"""States in which an instance has a process, as far as the master knows."""

FRESH_S = 600.0
"""For this long after an instance became ready, its memory is what it needs, and not a leak."""

TRANSITIONS: dict[InstanceState, frozenset[InstanceState]] = {
    InstanceState.REQUESTED: frozenset(
        {
            InstanceState.STARTING,
            InstanceState.DRAINING,
            InstanceState.STOPPED,
            InstanceState.FAILED,
        }
    ),
    InstanceState.STARTING: frozenset(
        {InstanceState.READY, InstanceState.DRAINING, InstanceState.STOPPED, InstanceState.FAILED}
    ),
    InstanceState.READY: frozenset(
        {InstanceState.DRAINING, InstanceState.STOPPED, InstanceState.FAILED}
    ),
    InstanceState.DRAINING: frozenset(
        {InstanceState.STARTING, InstanceState.READY, InstanceState.STOPPED, InstanceState.FAILED}
    ),
    InstanceState.STOPPED: frozenset(),
    InstanceState.FAILED: frozenset(),
}
"""State to those that may follow it. A drain may be taken back until its stop was posted."""


def id_of(cluster: str, number: int) -> str:
    """Return the id of instance *number* of the cluster named *cluster*."""
    return f"{cluster}-{number:04d}"


@attrs.frozen
class Instance:
    """What the master knows of one instance."""

    id: str
    """``<cluster>-<nnnn>``: created by the control thread, never used again."""
    spec_hash: str
    """Hash of the spec that it was launched with."""
    state: InstanceState = InstanceState.REQUESTED
    since_s: float = 0.0
    """Monotonic second at which it entered the state."""
    requested_s: float = 0.0
    """Monotonic second at which it was first asked for."""
    reason: str = ""
    """Why it is in this state; empty when there is nothing to say."""
    container_id: str | None = None
    """The runtime's id of what hosts it; locally the process id."""
    node: str | None = None
    endpoint: Endpoint | None = None
    ranks: int = 1
    serving: bool = False
    """It is live, its models are settled, at least one of them is READY, and warm-up is done."""
    models: tuple[tuple[str, str, str], ...] = ()
    """(model, Triton's state, reason) as last read; sorted by model."""
    versions: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """(model, its READY versions) of each model that it serves; equal instances share one tuple."""
    busy: Sample[float] = attrs.field(default=Unknown("not scraped yet"))
    """Requests queued and executing."""
    ready_s: float | None = None
    """Monotonic second at which it first became ready; None before."""
    silent_s: float | None = None
    """Monotonic second since which it does not answer; None while it does."""
    asked_until_s: float | None = None
    """Monotonic second until which that is known, since it was asked; None: until now."""
    stuck_s: float | None = None
    """Monotonic second since which it answers but can never serve: Triton says that it is not
    live, or every model is settled and too few are READY."""
    gone: bool = False
    """It is certain that nothing listens any more; silence alone is never certain."""
    suspect: str = ""
    """Why a ready instance is kept out of the view; empty when it is in."""
    busy_s: float | None = None
    """Monotonic second at which ``busy`` was read."""
    missing_s: float | None = None
    """Monotonic second since which the runtime does not report it, although it did before."""
    condemned: bool = False
    """It drains because it is broken, and stops when it has left the view, even if it is busy."""
    evicted: bool = False
    """It drains because a person asked for it, or its place will be taken away. It is replaced,
    and does not return."""
    left_revision: int | None = None
    """The first view revision without it; None while it is in the view, or never was."""
    withdrawn_s: float | None = None
    """Monotonic second at which every required follower had acknowledged that revision."""
    stop_posted: bool = False
    """Its stop was posted, which cannot be undone."""
    drain: DrainProgress | None = None
    """The progress of its drain; None while it does not drain, or when nothing is known."""
    retiring: int | None = None
    """It serves until another instance can replace it, then drains: the number that the next
    instance would have had when that was requested. None: it stays."""
    others_then: int = 0
    """How many other instances were in the view at that moment."""
    adopted: bool = False
    """It was started under an earlier master, which may have put it into the view."""
    calls: CallProgress = NO_PROGRESS
    """The control calls that it has had."""
    stub_ended: str = ""
    """Which process of a Python model ended by itself, and how; empty: none, or Triton started it
    again."""
    retiring_for: str = ""
    """Why it retires; empty: a person asked for it."""
    retiring_code: str = ""
    """The code of that reason; empty: a person asked for it."""
    unwell: Unwell | None = None
    """The symptom that its requests show; None: none."""
    started_at: float = 0.0
    """Wall second at which its process began; 0: not known."""
    rss_mib: int | None = None
    """Memory that its processes hold; None: its runtime does not say."""
    fresh_mib: int | None = None
    """The most memory that they held within `FRESH_S`; None: this master did not see it then."""
    blamed: str = ""
    """The model that ``reason`` or ``suspect`` is about; empty: none."""

    @property
    def in_view(self) -> bool:
        """Whether traffic may be sent to it."""
        if self.state is not InstanceState.READY or self.suspect or self.endpoint is None:
            return False
        return not self.ejected

    @property
    def ejected(self) -> bool:
        """Whether it is out of the view because it is unwell."""
        return self.unwell is not None and self.unwell.ejected

    @property
    def model_names(self) -> tuple[str, ...]:
        """The names of its models, as last read."""
        return tuple(name for name, _, _ in self.models)

    @property
    def out_for(self) -> str:
        """Why a ready instance is kept out of the view; empty when it is in."""
        if self.suspect or self.state is not InstanceState.READY or self.unwell is None:
            return self.suspect
        return self.unwell.words if self.unwell.ejected else ""

    @property
    def wants_test(self) -> bool:
        """Whether test requests are to be sent to it."""
        return self.state is InstanceState.READY and self.unwell is not None and self.unwell.severe

    @property
    def returnable(self) -> bool:
        """Whether its drain may still be taken back, and it would serve then."""
        return (
            self.state is InstanceState.DRAINING
            and not (self.condemned or self.evicted or self.stop_posted or self.unloading)
            and self.ready_s is not None
            and self.serving
            and (self.unwell is None or not self.unwell.severe)
        )

    @property
    def unloading(self) -> bool:
        """Whether its models were asked to unload, so that it cannot serve any more."""
        return self.drain is not None and self.drain.unload_s is not None

    @property
    def untouched(self) -> bool:
        """Whether it was never in a view, so that it cannot have got any request."""
        return self.ready_s is None and not self.adopted

    @property
    def number(self) -> int:
        """The ``nnnn`` of its id; 0 for an id of another form."""
        digits = self.id.rpartition("-")[2]
        return int(digits) if digits.isdecimal() else 0

    @property
    def quiet(self) -> bool:
        """Whether it is known that nothing is queued or executing."""
        return isinstance(self.busy, Known) and self.busy.value == 0

    def silent_for_s(self, now_s: float) -> float:
        """Return for how long it has not answered although it was asked."""
        if self.silent_s is None:
            return 0.0
        until_s = now_s if self.asked_until_s is None else min(now_s, self.asked_until_s)
        return max(0.0, until_s - self.silent_s)

    def holding(self, rss_mib: int | None, now_s: float) -> "Instance":
        """Return the instance with *rss_mib* as the memory of its processes."""
        ready_s = now_s if self.ready_s is None else self.ready_s
        fresh_mib = self.fresh_mib
        if rss_mib is not None and not self.adopted and now_s - ready_s < FRESH_S:
            fresh_mib = max(fresh_mib or 0, rss_mib)
        return self.but(rss_mib=rss_mib, fresh_mib=fresh_mib)

    def become(
        self, state: InstanceState, now_s: float, reason: str = "", *, blamed: str = ""
    ) -> "Instance":
        """Return the instance in *state* since *now_s*; an illegal step is a ``ValueError``.

        *blamed* is the model that *reason* is about.
        """
        if state is self.state:
            return self
        if state not in TRANSITIONS[self.state]:
            raise ValueError(f"{self.id}: {self.state} cannot become {state}")
        return attrs.evolve(self, state=state, since_s=now_s, reason=reason, blamed=blamed)

    def but(self, **changes: object) -> "Instance":
        """Return the instance with *changes*, as `attrs.evolve` does, at half its cost."""
        # A tick does this for every instance, and a fleet may have ten thousand.
        values: list[Any] = list(_values(self))
        for name, value in changes.items():
            values[_PLACES[name]] = value
        return Instance(*values)


_NAMES = tuple(field.name for field in attrs.fields(Instance))
_PLACES = {name: place for place, name in enumerate(_NAMES)}
_values = operator.attrgetter(*_NAMES)
