"""Everything the control thread carries from one tick to the next, as one value."""

from collections.abc import Iterable, Mapping

import attrs

from tarn.domain.control_calls import NO_CALLS, CallProgress, WantedCalls
from tarn.domain.counted import requests_refused, requests_wait
from tarn.domain.epoch import Epoch
from tarn.domain.events import NOBODY, Event, EventCause, Requester, aggregate
from tarn.domain.instance import Instance, InstanceState
from tarn.domain.limits import Limits
from tarn.domain.lookback import Lookback
from tarn.domain.outcomes import OutcomeHistory
from tarn.domain.scaling import Decision
from tarn.domain.spec import ClusterSpec
from tarn.domain.state import Pause
from tarn.domain.unwell import Ejection, FirstSign, FleetWideFailure
from tarn.domain.view import DiscoveryView

__all__ = ["DemandReport", "Fleet", "FollowerState", "HintCheck", "ReportedFailures", "Rules"]

KEEP_ENDED = 20
KEEP_DECISIONS = 100


@attrs.frozen
class FollowerState:
    """What one follower last said in this epoch."""

    revision: int = -1
    """Last acknowledged; -1: it never came."""
    heard_s: float | None = None
    lease_until_s: float | None = None
    """None: it lives in this process, so it has no lease to lose."""
    error: str = ""
    came: bool = False
    """It has acknowledged to this master or an earlier one: drains wait for it."""
    lost: bool = False
    """Its lease ran out: drains do not wait for it any more."""
    sessions: Mapping[str, int] = attrs.field(factory=dict, hash=False)
    """Instance id to open sessions, as its newest word says; of an instance that is not named it
    says nothing."""
    counted_s: float = float("-inf")
    """When it counted them."""
    held_by: str = ""
    """Whose name it is, as `Requester.principal`: nobody else may acknowledge under it. Empty:
    anybody may still be the first."""


@attrs.frozen
class ReportedFailures:
    """What a client says of a model on an instance: a hint, since anybody who may infer can lie."""

    source: str
    """The name that the client gives itself."""
    principal: str
    """Who it proved to be, as `Requester.principal`; empty where nobody asked over the API."""
    instance_id: str
    model: str
    count: int
    """Bad answers that the caller did not cause, since it said so last."""
    heard_s: float


@attrs.frozen
class HintCheck:
    """Test requests that the master sends because of a hint, and what came of them.

    A hint is what clients told, or what a single look at the counters has shown.
    """

    instance_id: str
    model: str
    principal: str
    """Whose hint it was; empty: the master's own."""
    since_s: float
    tests: int = 0
    """Number of the newest test request that counted."""
    failed: int = 0
    """Test requests in a row that failed."""
    answer: str = ""
    """What the newest failed one brought."""
    over: bool = False
    """No more test requests are sent for it."""
    noticed: str = ""
    """What a look at the counters has shown; empty: clients told of it, and nothing else does."""


@attrs.frozen
class DemandReport:
    """Who last said that requests wait for an instance, how many, and when."""

    source: str
    """Empty where only an earlier master heard it."""
    waiting: int
    """Held now; 0 where only an earlier master heard it."""
    heard_s: float
    refused: int = 0
    """Refused since the word before: that one is wanted, and not how many."""

    @property
    def said(self) -> str:
        """What was counted, in words; empty when nothing was."""
        held = requests_wait(self.waiting) if self.waiting else ""
        refused = requests_refused(self.refused) if self.refused else ""
        return " and ".join(filter(None, (held, refused)))


@attrs.frozen
class Rules:
    """What a tick decides by: the spec, and what was made of it once."""

    spec: ClusterSpec
    spec_hash: str
    required: frozenset[str] = frozenset()
    """Names of the followers that a drain waits for."""
    ceiling: int | None = None
    ceiling_reason: str = ""
    followers: frozenset[str] = frozenset()
    """Names of the discoveries and agents of the spec: shown before they come, too."""


@attrs.frozen
class Fleet:
    """One cluster as its master knows it. Times are monotonic seconds unless named ``at``."""

    name: str
    epoch: Epoch
    desired: int
    instances: tuple[Instance, ...] = ()
    """Alive ones, by id."""
    ended: tuple[Instance, ...] = ()
    """The last few that stopped or failed, oldest first."""
    next_number: int = 1
    spec_revision: int = 1
    view: DiscoveryView = attrs.field()
    wish_revision: int = 0
    manual: int | None = None
    min: int | None = None
    max: int | None = None
    pause: Pause | None = None
    changed_s: float | None = None
    """When the policy last changed the size."""
    strikes: int = 0
    """Quick failures in a row."""
    retry_s: float = 0.0
    """No launch before."""
    halted: str = ""
    """Why launching was given up."""
    ending: bool = False
    frozen_s: float | None = None
    """Since when replacements are frozen because the observer is suspect."""
    blind: str = ""
    """What the master itself lacks, so that it cannot look at some instance; empty: nothing. While
    it lacks it nobody is doubted or replaced for a silence."""
    served: int = 0
    """How many of the desired instances served at once, the most there were."""
    short_s: float | None = None
    """Since when fewer than desired are ready."""
    mixed_s: float | None = None
    """Since when instances in the view serve different things."""
    unprobed: frozenset[str] = frozenset()
    """Recovered instances, those found late too, that have not answered yet: until then the view is
    incomplete."""
    started_s: float = 0.0
    followers: Mapping[str, FollowerState] = attrs.field(factory=dict, hash=False)
    lookback: Lookback = attrs.field()
    """What the policy wished lately; begins with the first size, so that a new master does not
    shrink what it has hardly looked at."""
    demand: DemandReport | None = None
    """None: nobody ever waited for an instance."""
    told_failures: tuple[ReportedFailures, ...] = ()
    """What clients said of instances lately, the newest last."""
    hint_checks: tuple[HintCheck, ...] = ()
    """The newest check of each instance that a client's hint led to, the newest last."""
    decisions: tuple[Decision, ...] = ()
    events: tuple[Event, ...] = ()
    event_totals: Mapping[str, int] = attrs.field(factory=dict, hash=False)
    """Code to how often it happened under this master; never falls."""
    outcomes: OutcomeHistory = attrs.field(factory=OutcomeHistory, repr=False, hash=False)
    """What became of the requests of the last seconds."""
    noticed: Mapping[tuple[str, str], FirstSign] = attrs.field(factory=dict, hash=False)
    """(instance id or model, symptom) to what was seen: two looks in a row must agree."""
    ejections: Mapping[str, Ejection] = attrs.field(factory=dict, hash=False)
    """Instance id to how often it was ejected; of those alive only."""
    alike: tuple[FleetWideFailure, ...] = ()
    """Models that fail on all instances alike, by name."""
    relapses: int = 0
    """Unwell instances in a row that had taken the place of an unwell one."""
    replaced_s: float | None = None
    """When an unwell instance was last replaced."""
    replaced_from: int = 1
    """Number of the first instance that came after the first one of them was replaced."""
    sized_by: Requester | None = None
    """Who set the manual size, or asked for the end; None: nobody, or an earlier master's word."""
    control: WantedCalls = NO_CALLS
    """The control calls that every instance must have had."""
    calls_of_absent: Mapping[str, CallProgress] = attrs.field(factory=dict, hash=False)
    """Which of them instances of an earlier master had that are not found yet."""

    @view.default
    def _empty_view(self) -> DiscoveryView:
        return DiscoveryView(self.epoch, 0, complete=True)

    @lookback.default
    def _first_lookback(self) -> Lookback:
        return Lookback.began(self.desired, self.started_s)

    def of(self, *states: InstanceState) -> tuple[Instance, ...]:
        """Return the alive instances in any of *states*."""
        return tuple(i for i in self.instances if i.state in states)

    def limits(self, rules: Rules) -> Limits:
        """Return the bounds in force: what ``adapt`` set, else the spec's, and the ceiling."""
        replicas = rules.spec.replicas
        low = replicas.min if self.min is None else self.min
        high = replicas.max if self.max is None else self.max
        return Limits(low, high, rules.ceiling, rules.ceiling_reason)

    def note(
        self, at: float, code: str, subject: str, message: str, cause: EventCause = NOBODY
    ) -> "Fleet":
        """Return the fleet with one more event."""
        return self.notes(at, [(code, subject, message)], cause)

    def notes(
        self, at: float, entries: Iterable[tuple[str, str, str]], cause: EventCause = NOBODY
    ) -> "Fleet":
        """Return the fleet with more events: (code, subject, message) each, all from *cause*."""
        events, totals = self.events, dict(self.event_totals)
        epoch, noted = str(self.epoch), sum(totals.values())
        for code, subject, message in entries:
            noted += 1
            new = Event(code, subject, message, at, at, 1, f"{epoch}.{noted}", epoch, cause)
            events = aggregate(events, new)
            totals[code] = totals.get(code, 0) + 1
        if events is self.events:
            return self
        return attrs.evolve(self, events=events, event_totals=totals)

    def with_instances(self, instances: Iterable[Instance]) -> "Fleet":
        """Return the fleet with *instances* sorted into alive and ended."""
        alive: list[Instance] = []
        over: list[Instance] = []
        for instance in instances:
            gone = instance.state in (InstanceState.STOPPED, InstanceState.FAILED)
            (over if gone else alive).append(instance)
        ended = self.ended if not over else (*self.ended, *over)[-KEEP_ENDED:]
        return attrs.evolve(self, instances=tuple(alive), ended=ended)

    def decided(self, decision: Decision) -> "Fleet":
        """Return the fleet with its new size and one more decision, which gets its number."""
        number = self.decisions[-1].number + 1 if self.decisions else 1
        decision = attrs.evolve(decision, number=number)
        decisions = (*self.decisions, decision)[-KEEP_DECISIONS:]
        return attrs.evolve(self, desired=decision.desired, decisions=decisions)
