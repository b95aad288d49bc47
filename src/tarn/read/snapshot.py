"""Snapshots of the cluster for readers. Making one is pure.

A snapshot contains the text of ``/instances``, which is requested most often; it is rendered again
only when the view has changed.
"""

import threading
from collections.abc import Callable, Mapping

import attrs

from tarn.domain import (
    ClusterState,
    Decision,
    DiscoveryView,
    Epoch,
    Event,
    Instance,
    Issue,
    Limits,
    Pause,
    Reading,
    Sample,
    Unknown,
    Wish,
)
from tarn.domain.affinity import AffinityStatus
from tarn.domain.control_calls import NO_CALLS, WantedCalls
from tarn.domain.fleet import DemandReport, Fleet, Rules
from tarn.domain.model_totals import ModelTotalsHistory
from tarn.domain.outlook import Holds, Prospect, holds, prospect
from tarn.domain.signals import SIGNALS, SignalSelection
from tarn.domain.sizing import fresh_demand
from tarn.domain.standing import standing
from tarn.domain.state import Update
from tarn.domain.tally import Tally

__all__ = [
    "Board",
    "Follower",
    "SignalStatus",
    "Snapshot",
    "SnapshotInputs",
    "blank_snapshot",
    "build_snapshot",
    "render_instances",
    "signal_status",
]

History = Mapping[str, tuple[tuple[float, Sample[float]], ...]]


@attrs.frozen
class SignalStatus:
    """One signal as it was seen last."""

    name: str
    sample: Sample[float]
    """The sample, with its age at ``looked_s``."""
    looked_s: float
    """Monotonic second at which it was taken."""
    unit: str
    """Empty: not known, as for plugins and for metrics of Triton that are read by name."""
    source: str
    """Where it comes from, in words."""
    read: bool
    """Whether the policy in use reads it."""


def signal_status(
    own: History, brought: History, kept: SignalSelection, ready: int
) -> tuple[SignalStatus, ...]:
    """Return the newest sample of each signal, those that the policy reads first.

    Args:
        own: `Signals.history`.
        brought: The histories of the signals of plugins.
        kept: What is kept because the policy reads it.
        ready: How many instances were looked at.
    """
    of = "1 instance" if ready == 1 else f"{ready} instances"
    every: list[SignalStatus] = []
    for name, rows in own.items():
        looked_s, sample = rows[-1]
        unit = SIGNALS[name].unit if name in SIGNALS else ""
        what = f"metric {kept.metrics[name]}" if name in kept.metrics else "metrics"
        source, read = f"{what} of {of}", name in kept.reads
        every.append(SignalStatus(name, sample, looked_s, unit, source, read))
    # Only the plugins' signals that the policy reads are computed at all.
    for name, rows in brought.items():
        looked_s, sample = rows[-1]
        every.append(SignalStatus(name, sample, looked_s, "", "a plugin", read=True))
    return tuple(sorted(every, key=lambda status: not status.read))


@attrs.frozen
class Follower:
    """The state of one follower."""

    name: str
    required: bool
    revision: int
    """The newest revision that it acknowledged in this epoch; -1: none."""
    age_s: float | None
    """Seconds since its last message; None: there was none."""
    lost: bool = False
    error: str = ""
    behind_s: float = 0.0
    """For how long it has not acknowledged the newest view; 0: it has."""
    sessions: int | None = None
    """Sessions that are open through it, as far as it counts them; None: it counts none."""


@attrs.frozen
class Snapshot:
    """Everything readers may see, taken at one moment; never changed afterwards."""

    at: float
    """Wall time, Unix seconds."""
    name: str
    runtime: str
    epoch: Epoch
    state: ClusterState
    reason: str
    """Why it is in this state; empty when there is nothing to say."""
    spec_revision: int
    """Counts the changes that users asked for; ``If-Match`` and ``ETag``."""
    desired: int
    limits: Limits
    manual: int | None
    pause: Pause | None
    instances: tuple[Instance, ...]
    """The instances alive, by id."""
    ended: tuple[Instance, ...]
    """The last twenty that stopped or failed, oldest first."""
    view: DiscoveryView
    followers: tuple[Follower, ...]
    events: tuple[Event, ...]
    decisions: tuple[Decision, ...]
    stale: bool
    """The master is fenced, so this is what it last knew."""
    readings: Mapping[str, Reading] = attrs.field(factory=dict, hash=False)
    """Instance id to its newest reading; for ``/metrics``."""
    event_totals: Mapping[str, int] = attrs.field(factory=dict, hash=False)
    """Code to how often it happened since this master started; never falls."""
    issues: tuple[Issue, ...] = ()
    """The present issues of the fleet and the master, then those of its runtime."""
    holds: Holds = attrs.field(factory=Holds)
    """What holds the whole fleet back, and until when."""
    signals: tuple[SignalStatus, ...] = ()
    """The newest sample of each signal, those that the policy reads first."""
    demand: DemandReport | None = None
    """The requests that wait for an instance now; None: none is known to wait."""
    prospects: Mapping[str, Prospect] = attrs.field(factory=dict, hash=False)
    """Instance id to what it waits for, for those that wait."""
    models: ModelTotalsHistory = attrs.field(factory=ModelTotalsHistory, hash=False)
    """Recent requests of each model, summed over the fleet."""
    instances_text: bytes = b""
    """``/instances`` as text: ``host:port`` of each ready instance, a line each."""
    tally: Tally = attrs.field(factory=lambda: Tally(0.0), hash=False)
    """The numbers that this master counts."""
    now_s: float = 0.0
    """The monotonic second of ``at``."""
    control: WantedCalls = NO_CALLS
    """The control calls that every instance must have had."""
    reason_models: tuple[str, ...] = ()
    """The models that ``reason`` is about."""
    affinity: AffinityStatus = attrs.field(factory=AffinityStatus)
    """The rules by which requests reach the same instance."""
    look_interval_s: float = 1.0
    """The time between two looks at an instance."""
    update: Update | None = None
    """The update that is on its way."""
    updated: Update | None = None
    """The newest update that has ended."""
    spec_hash: str = ""
    """Of the instances that the fleet is to have."""

    @property
    def faults(self) -> tuple[str, ...]:
        """One line for each problem, without names of models, users or hosts."""
        return tuple(dict.fromkeys(issue.public for issue in self.issues if issue.public))

    @property
    def warnings(self) -> tuple[str, ...]:
        """One line for each issue; it may contain names."""
        return tuple(issue.line for issue in self.issues)

    @property
    def ready(self) -> int:
        """How many instances are in the view."""
        return len(self.view.members)

    @property
    def instances_known(self) -> bool:
        """Whether a view without members means that no instance is ready."""
        # A new master has not yet seen the instances of an earlier one.
        return self.view.complete or bool(self.view.members)


@attrs.frozen
class SnapshotInputs:
    """The parts of a snapshot that do not come from the fleet."""

    now_s: float
    at: float
    stale: bool = False
    readings: Mapping[str, Reading] = attrs.field(factory=dict, hash=False)
    issues: tuple[Issue, ...] = ()
    failing: Mapping[str, str] = attrs.field(factory=dict, hash=False)
    """Discovery to why it could not publish the newest view."""
    wish: Sample[Wish] = attrs.field(default=Unknown("the policy has not answered yet"))
    signals: tuple[SignalStatus, ...] = ()
    tally: Tally = attrs.field(factory=lambda: Tally(0.0))
    models: ModelTotalsHistory = attrs.field(factory=ModelTotalsHistory)
    affinity: AffinityStatus = attrs.field(factory=AffinityStatus)
    look_interval_s: float = 1.0


def build_snapshot(
    fleet: Fleet, rules: Rules, around: SnapshotInputs, old: Snapshot | None
) -> Snapshot:
    """Return the snapshot of *fleet*; if the view is unchanged, its text comes from *old*."""
    stands = standing(fleet, rules, around.now_s)
    snapshot = Snapshot(
        at=around.at,
        name=fleet.name,
        runtime=rules.spec.runtime.use,
        epoch=fleet.epoch,
        state=stands.state,
        reason=stands.reason,
        reason_models=stands.models,
        spec_revision=fleet.spec_revision,
        desired=fleet.desired,
        limits=fleet.limits(rules),
        manual=fleet.manual,
        pause=fleet.pause,
        instances=fleet.instances,
        ended=fleet.ended,
        view=fleet.view,
        followers=_followers(fleet, rules, around),
        events=fleet.events,
        decisions=fleet.decisions,
        issues=around.issues,
        stale=around.stale,
        readings=around.readings,
        event_totals=fleet.event_totals,
        holds=holds(fleet, rules, around.wish, around.now_s, around.at),
        signals=around.signals,
        tally=around.tally,
        models=around.models,
        now_s=around.now_s,
        prospects=_prospects(fleet, rules),
        demand=fresh_demand(fleet, around.now_s),
        control=fleet.control,
        affinity=around.affinity,
        look_interval_s=around.look_interval_s,
        update=fleet.update,
        updated=fleet.updated,
        spec_hash=fleet.update.target if fleet.update is not None else rules.spec_hash,
    )
    same = old is not None and old.view is fleet.view
    text = old.instances_text if old and same else render_instances(snapshot)
    return attrs.evolve(snapshot, instances_text=text)


def render_instances(snapshot: Snapshot) -> bytes:
    """Return ``host:port`` of each instance in the view, a line each."""
    lines = [f"{member.endpoint.http}\n" for member in snapshot.view.members]
    return "".join(lines).encode("utf-8", "replace")


def _prospects(fleet: Fleet, rules: Rules) -> dict[str, Prospect]:
    waiting = ((i.id, prospect(i, fleet, rules)) for i in fleet.instances)
    return {id_: waits for id_, waits in waiting if waits is not None}


def _followers(fleet: Fleet, rules: Rules, around: SnapshotInputs) -> tuple[Follower, ...]:
    names = sorted({*fleet.followers, *rules.required, *rules.followers})
    return tuple(_follower(name, fleet, rules, around) for name in names)


def _follower(name: str, fleet: Fleet, rules: Rules, around: SnapshotInputs) -> Follower:
    known = fleet.followers.get(name)
    required = name in rules.required
    error = around.failing.get(name, "")
    if known is None:
        return Follower(name, required, -1, None, error=error)
    age_s = None if known.heard_s is None else around.now_s - known.heard_s
    return Follower(
        name,
        required,
        known.revision,
        age_s,
        known.lost,
        known.error or error,
        behind_s=max(0.0, around.now_s - around.tally.behind.get(name, around.now_s)),
        sessions=sum(known.sessions.values()) if known.sessions else None,
    )


def blank_snapshot(epoch: Epoch, rules: Rules, at: float) -> Snapshot:
    """Return the snapshot that is shown before the first tick, when nothing is known yet."""
    # Followers may ask before this master has looked at the instances of an earlier one. So the
    # view is incomplete and removes nothing, and the state is not one of a cluster that serves.
    empty = Fleet(rules.spec.name, epoch, 0, view=DiscoveryView(epoch, 0, complete=False))
    shown = build_snapshot(empty, rules, SnapshotInputs(0.0, at, stale=True), None)
    return attrs.evolve(shown, state=ClusterState.SUBMITTED, reason="the master takes up its work")


class Board:
    """Holds the newest snapshot; one writer (the control thread), any readers."""

    def __init__(self, first: Snapshot) -> None:
        self._current = first
        self._lock = threading.Lock()
        self._listeners: list[Callable[[Snapshot], None]] = []

    @property
    def current(self) -> Snapshot:
        """Return the newest snapshot; never blocks."""
        return self._current

    def publish(self, snapshot: Snapshot) -> None:
        """Replace the snapshot and tell the listeners. Control thread only."""
        self._current = snapshot
        with self._lock:
            listeners = tuple(self._listeners)
        for listener in listeners:
            listener(snapshot)

    def subscribe(self, listener: Callable[[Snapshot], None]) -> Callable[[], None]:
        """Call *listener* with each new snapshot, and return a function that ends this.

        It is called on the control thread, so it must only pass the snapshot on.
        """
        with self._lock:
            self._listeners.append(listener)

        def unsubscribe() -> None:
            with self._lock:
                if listener in self._listeners:
                    self._listeners.remove(listener)

        return unsubscribe
