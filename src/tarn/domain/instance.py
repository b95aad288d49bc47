"""One managed Triton server, and the states of its life."""

import enum
import operator
from typing import Any

import attrs

from tarn.domain.control_calls import NO_PROGRESS, CallProgress
from tarn.domain.draining import DrainProgress
from tarn.domain.endpoint import Endpoint
from tarn.domain.samples import Known, Sample, Unknown
from tarn.domain.unwell import Unwell

__all__ = ["ALIVE", "FRESH_S", "PLACED", "TRANSITIONS", "Instance", "InstanceState", "id_of"]


class InstanceState(enum.StrEnum):
    """Where an instance is in its life; *suspect* is a mark on ready, not a state."""

    REQUESTED = "requested"
    STARTING = "starting"
    READY = "ready"
    DRAINING = "draining"
    STOPPED = "stopped"
    FAILED = "failed"


ALIVE = frozenset(
    {InstanceState.REQUESTED, InstanceState.STARTING, InstanceState.READY, InstanceState.DRAINING}
)
"""States in which an instance asks for or holds something of the runtime."""
PLACED = frozenset({InstanceState.STARTING, InstanceState.READY, InstanceState.DRAINING})
"""States in which an instance has a process, as far as the master knows."""

FRESH_S = 600.0
"""What an instance holds so soon after it became ready is what it takes, and no leak."""

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
"""Which state may follow which. A drain may be taken back until its stop was posted."""


def id_of(cluster: str, number: int) -> str:
    """Return the id of instance *number* of *cluster*, the name of a cluster."""
    return f"{cluster}-{number:04d}"


@attrs.frozen
class Instance:
    """What the master knows of one instance."""

    id: str
    """``<cluster>-<nnnn>``: minted by the control thread, never reused."""
    spec_hash: str
    """Which launch it came from."""
    state: InstanceState = InstanceState.REQUESTED
    since_s: float = 0.0
    """Monotonic seconds at which the state was entered."""
    requested_s: float = 0.0
    """Monotonic seconds at which it was first asked for."""
    reason: str = ""
    """Why it is in this state, in words; empty when there is nothing to say."""
    container_id: str | None = None
    """What the runtime calls the thing that hosts it; locally the process id."""
    node: str | None = None
    endpoint: Endpoint | None = None
    ranks: int = 1
    serving: bool = False
    """Live, every model it should serve settled, at least one READY, warm-up done."""
    models: tuple[tuple[str, str, str], ...] = ()
    """(model, Triton's state, reason) as last read; sorted by model."""
    versions: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """(model, its READY versions) of each one that it serves; one and the same for equal ones."""
    busy: Sample[float] = attrs.field(default=Unknown("not scraped yet"))
    """Requests queued and executing."""
    ready_s: float | None = None
    """Monotonic seconds at which it first became ready; None before."""
    silent_s: float | None = None
    """Monotonic seconds since which it does not answer; None while it does."""
    stuck_s: float | None = None
    """Monotonic seconds since which it answers and can never serve: Triton says that it is not
    live, or every model is settled and too few are READY."""
    gone: bool = False
    """It is certain that nothing listens any more; silence alone is never certain."""
    suspect: str = ""
    """Why a ready instance is kept out of the view; empty when it is in."""
    busy_s: float | None = None
    """Monotonic seconds at which ``busy`` was read."""
    missing_s: float | None = None
    """Monotonic seconds since which the runtime says nothing of it, though it did before."""
    condemned: bool = False
    """Draining because it is broken: stopped once withdrawn, without waiting for quiet."""
    evicted: bool = False
    """Draining because a person asked for it, or its place will be taken: replaced, and never
    returned."""
    left_revision: int | None = None
    """The first view revision without it; None while it is in, or never was."""
    withdrawn_s: float | None = None
    """Monotonic seconds at which every required follower had acknowledged that revision."""
    stop_posted: bool = False
    """Its stop was posted: no way back."""
    drain: DrainProgress | None = None
    """What is known of its drain; None while it does not drain, or when nothing is known."""
    retiring: int | None = None
    """A person asked for its drain when the next instance's number was this one: it serves until
    another one can take its place. None: it stays."""
    others_then: int = 0
    """How many others were in the view at that moment."""
    adopted: bool = False
    """Started under an earlier master, which may have sent traffic to it."""
    calls: CallProgress = NO_PROGRESS
    """Which control calls it has had."""
    stub_ended: str = ""
    """Which process of one of its Python models ended by itself, and how, in words; empty while
    none is known that Triton did not start again."""
    retiring_for: str = ""
    """Why it retires, in words; empty: a person asked for it."""
    unwell: Unwell | None = None
    """What the outcomes of its requests say against it; None: nothing does."""
    started_at: float = 0.0
    """Wall second at which its process began; 0: not known."""
    rss_mib: int | None = None
    """Memory that its processes hold; None: its runtime does not say."""
    fresh_mib: int | None = None
    """The most that they held while it was fresh; None: this master did not see it then."""

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
    def out_for(self) -> str:
        """Why a ready instance is kept out of the view; empty when it is in."""
        if self.suspect or self.state is not InstanceState.READY or self.unwell is None:
            return self.suspect
        return self.unwell.words if self.unwell.ejected else ""

    @property
    def wants_test(self) -> bool:
        """Whether a test request is to be sent to it, again and again."""
        return self.state is InstanceState.READY and self.unwell is not None and self.unwell.severe

    @property
    def returnable(self) -> bool:
        """Whether its drain may still be taken back; what does not answer is useless."""
        return (
            self.state is InstanceState.DRAINING
            and not (self.condemned or self.evicted or self.stop_posted or self.unloading)
            and self.ready_s is not None
            and self.serving
            and (self.unwell is None or not self.unwell.severe)
        )

    @property
    def unloading(self) -> bool:
        """Whether its models were asked to unload, so that it is useless now."""
        return self.drain is not None and self.drain.unload_s is not None

    @property
    def untouched(self) -> bool:
        """Whether it never was in any view, so that nobody can have sent it anything."""
        return self.ready_s is None and not self.adopted

    @property
    def number(self) -> int:
        """The ``nnnn`` of its id; 0 for an id that was not minted here."""
        digits = self.id.rpartition("-")[2]
        return int(digits) if digits.isdecimal() else 0

    @property
    def quiet(self) -> bool:
        """Known to have nothing queued and nothing executing."""
        return isinstance(self.busy, Known) and self.busy.value == 0

    def holding(self, rss_mib: int | None, now_s: float) -> "Instance":
        """Return the instance whose processes hold *rss_mib* now."""
        ready_s = now_s if self.ready_s is None else self.ready_s
        fresh_mib = self.fresh_mib
        if rss_mib is not None and not self.adopted and now_s - ready_s < FRESH_S:
            fresh_mib = max(fresh_mib or 0, rss_mib)
        return self.but(rss_mib=rss_mib, fresh_mib=fresh_mib)

    def become(self, state: InstanceState, now_s: float, reason: str = "") -> "Instance":
        """Return the instance in *state* since *now_s*; an illegal step is a ``ValueError``."""
        if state is self.state:
            return self
        if state not in TRANSITIONS[self.state]:
            raise ValueError(f"{self.id}: {self.state} cannot become {state}")
        return attrs.evolve(self, state=state, since_s=now_s, reason=reason)

    def but(self, **changes: object) -> "Instance":
        """Return `attrs.evolve` of the instance at half its cost: a tick does it for each one."""
        values: list[Any] = list(_values(self))
        for name, value in changes.items():
            values[_PLACES[name]] = value
        return Instance(*values)


_NAMES = tuple(field.name for field in attrs.fields(Instance))
_PLACES = {name: place for place, name in enumerate(_NAMES)}
_values = operator.attrgetter(*_NAMES)
