"""Everything the control thread carries from one tick to the next, as one value."""

from collections.abc import Iterable, Mapping

import attrs

from tarn.domain.control_calls import NO_CALLS, CallProgress, WantedCalls
from tarn.domain.counted import requests_refused, requests_wait
from tarn.domain.events import NOBODY, Event, EventCause, EventNote, Requester, aggregate
from tarn.domain.instance import Ejection, FirstSign, FleetWideFailure, Instance, InstanceState
from tarn.domain.outcomes import OutcomeHistory
from tarn.domain.scaling import Decision, Limits, Lookback
from tarn.domain.spec import ClusterSpec
from tarn.domain.state import EditionFiles, Pause, Update, present
from tarn.domain.view import DiscoveryView, Epoch

__all__ = ["DemandReport", "Fleet", "FollowerState", "HintCheck", "ReportedFailures", "Rules"]

KEEP_ENDED = 20
KEEP_DECISIONS = 100


@attrs.frozen
class FollowerState:
    """The newest message of one follower in this epoch."""

    revision: int = -1
    """The newest revision that it acknowledged; -1: none yet."""
    heard_s: float | None = None
    lease_until_s: float | None = None
    """None: it runs in this process, so it has no lease."""
    error: str = ""
    came: bool = False
    """It has acknowledged a view to this master or an earlier one, so drains wait for it."""
    lost: bool = False
    """Its lease ran out, so drains do not wait for it any more."""
    sessions: Mapping[str, int] = attrs.field(factory=dict, hash=False)
    """Instance id to open sessions in its newest message; for an instance that is missing here,
    the number is not known."""
    counted_s: float = float("-inf")
    """Monotonic second at which it counted them."""
    sequences: Mapping[str, int] = attrs.field(factory=dict, hash=False)
    """Instance id to the sequences that must end there; they are in ``sessions``, too."""
    held_by: str = ""
    """`Requester.principal` of the only one who may acknowledge under this name. Empty: the name
    is still free."""


@attrs.frozen
class ReportedFailures:
    """A client's report about a model on an instance: a hint, not proof."""

    source: str
    """The name that the client gives itself."""
    principal: str
    """Its `Requester.principal`; empty when the report did not come over the API."""
    instance_id: str
    model: str
    count: int
    """Bad answers since its last report that the caller did not cause."""
    heard_s: float


@attrs.frozen
class HintCheck:
    """Test requests that the master sends because of a hint, and their results.

    A hint is a report of a client, or what a single look at the counters has shown.
    """

    instance_id: str
    model: str
    principal: str
    """Who gave the hint; empty: the master found it itself."""
    since_s: float
    tests: int = 0
    """Number of the newest test request that counted."""
    failed: int = 0
    """Test requests in a row that failed."""
    answer: str = ""
    """The answer to the newest failed one."""
    over: bool = False
    """No more test requests are sent for it."""
    noticed: str = ""
    """What a look at the counters has shown; empty: only clients reported it."""


@attrs.frozen
class DemandReport:
    """The newest message that requests wait for an instance."""

    source: str
    """Empty: only an earlier master received it."""
    waiting: int
    """Requests held now; 0 if only an earlier master received it."""
    heard_s: float
    refused: int = 0
    """Requests refused since its message before; they show that an instance is needed, but not
    how many."""

    @property
    def said(self) -> str:
        """The counts in words; empty when both are 0."""
        held = requests_wait(self.waiting) if self.waiting else ""
        refused = requests_refused(self.refused) if self.refused else ""
        return " and ".join(filter(None, (held, refused)))


@attrs.frozen
class Rules:
    """The spec, and what a tick needs of it, computed once."""

    spec: ClusterSpec
    spec_hash: str
    required: frozenset[str] = frozenset()
    """Names of the followers that a drain waits for."""
    ceiling: int | None = None
    ceiling_reason: str = ""
    followers: frozenset[str] = frozenset()
    """Names of the discoveries and agents in the spec; they are shown before they come, too."""


@attrs.frozen
class Fleet:
    """One cluster as its master knows it. Times are monotonic seconds unless named ``at``."""

    name: str
    epoch: Epoch
    desired: int
    instances: tuple[Instance, ...] = ()
    """The instances alive, by id."""
    ended: tuple[Instance, ...] = ()
    """The newest instances that stopped or failed, oldest first."""
    next_number: int = 1
    spec_revision: int = 1
    view: DiscoveryView = attrs.field()
    wish_revision: int = 0
    manual: int | None = None
    min: int | None = None
    max: int | None = None
    pause: Pause | None = None
    update: Update | None = None
    """The update that is on its way; None: all instances have the spec of the rules, or will."""
    updates: int = 0
    """How many updates there were."""
    updated: Update | None = None
    """The newest update that has ended."""
    editions: tuple[EditionFiles, ...] = ()
    """The edition before, if there is one, and the present one; during an update the one that it
    comes from, and the one that was asked for."""
    changed_s: float | None = None
    """When the policy last changed the size."""
    strikes: int = 0
    """Quick failures in a row."""
    retry_s: float = 0.0
    """Monotonic second before which nothing is launched."""
    halted: str = ""
    """Why launching was given up; empty while it goes on."""
    halted_by: str = ""
    """Id of the instance whose failure was the last; empty: not known."""
    ending: bool = False
    frozen_s: float | None = None
    """Since when replacements are frozen because the master itself may be at fault."""
    blind: str = ""
    """What the master lacks, so that it cannot look at some instance; empty: nothing. While it is
    set, no instance is suspected or replaced for its silence."""
    served: int = 0
    """The most of the desired instances that have served at once."""
    short_s: float | None = None
    """Since when fewer than desired are ready."""
    mixed_s: float | None = None
    """Since when instances in the view serve different models or versions."""
    unprobed: frozenset[str] = frozenset()
    """Instances of an earlier master that have not answered yet, those found late too. While there
    are any, the view is incomplete."""
    started_s: float = 0.0
    followers: Mapping[str, FollowerState] = attrs.field(factory=dict, hash=False)
    lookback: Lookback = attrs.field()
    """The policy's recent wishes. It begins with the first size, so that a new master does not
    shrink a fleet at once."""
    demand: DemandReport | None = None
    """None: no request ever waited for an instance."""
    told_failures: tuple[ReportedFailures, ...] = ()
    """Recent reports of clients about instances, the newest last."""
    hint_checks: tuple[HintCheck, ...] = ()
    """The newest check of each instance, the newest last."""
    decisions: tuple[Decision, ...] = ()
    events: tuple[Event, ...] = ()
    event_totals: Mapping[str, int] = attrs.field(factory=dict, hash=False)
    """Code to how often it happened under this master; never falls."""
    outcomes: OutcomeHistory = attrs.field(factory=OutcomeHistory, repr=False, hash=False)
    """Results of the requests of the last seconds."""
    noticed: Mapping[tuple[str, str], FirstSign] = attrs.field(factory=dict, hash=False)
    """(instance id or model, symptom) to what one look has shown; a second look must agree."""
    ejections: Mapping[str, Ejection] = attrs.field(factory=dict, hash=False)
    """Instance id to how often it was ejected; only instances that are alive."""
    alike: tuple[FleetWideFailure, ...] = ()
    """Models that fail on all instances alike, by name."""
    relapses: int = 0
    """Unwell instances in a row that had themselves replaced an unwell one."""
    replaced_s: float | None = None
    """When an unwell instance was last replaced."""
    replaced_from: int = 1
    """Number of the first instance that was created after the first of these replacements."""
    sized_by: Requester | None = None
    """Who set the manual size, or asked for the end; None: no person, or an earlier master."""
    control: WantedCalls = NO_CALLS
    """The control calls that every instance must have had."""
    calls_of_absent: Mapping[str, CallProgress] = attrs.field(factory=dict, hash=False)
    """The control calls of an earlier master's instances that are not found yet."""

    @view.default
    def _empty_view(self) -> DiscoveryView:
        return DiscoveryView(self.epoch, 0, complete=True)

    @lookback.default
    def _first_lookback(self) -> Lookback:
        return Lookback.began(self.desired, self.started_s)

    @property
    def edition(self) -> EditionFiles:
        """The edition whose spec holds now."""
        return present(self.editions, self.update)

    def of(self, *states: InstanceState) -> tuple[Instance, ...]:
        """Return the alive instances in any of *states*."""
        return tuple(i for i in self.instances if i.state in states)

    def limits(self, rules: Rules) -> Limits:
        """Return the limits in force: those of ``adapt``, else of the spec; and the ceiling."""
        replicas = rules.spec.replicas
        low = replicas.min if self.min is None else self.min
        high = replicas.max if self.max is None else self.max
        return Limits(low, high, rules.ceiling, rules.ceiling_reason)

    def note(  # noqa: PLR0913 (the parts of an event)
        self,
        at: float,
        code: str,
        subject: str,
        message: str,
        cause: EventCause = NOBODY,
        *,
        models: tuple[str, ...] = (),
    ) -> "Fleet":
        """Return the fleet with one more event."""
        return self.notes(at, [EventNote(code, subject, message, models)], cause)

    def notes(
        self,
        at: float,
        entries: Iterable[EventNote | tuple[str, str, str]],
        cause: EventCause = NOBODY,
    ) -> "Fleet":
        """Return the fleet with more events, (code, subject, message) each, all from *cause*."""
        events, totals = self.events, dict(self.event_totals)
        epoch, noted = str(self.epoch), sum(totals.values())
        for code, subject, message, *more in entries:
            noted += 1
            about = more[0] if more else ()
            id_ = f"{epoch}.{noted}"
            new = Event(code, subject, message, at, at, 1, id_, epoch, cause, about)
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
        """Return the fleet with the size of *decision*, which gets its number."""
        number = self.decisions[-1].number + 1 if self.decisions else 1
        decision = attrs.evolve(decision, number=number)
        decisions = (*self.decisions, decision)[-KEEP_DECISIONS:]
        return attrs.evolve(self, desired=decision.desired, decisions=decisions)
