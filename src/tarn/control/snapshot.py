"""One frozen picture of the cluster, with the bytes that are asked for most already rendered."""

import threading
from collections.abc import Callable, Mapping

import attrs

from tarn.control.signal_status import SignalStatus
from tarn.domain import (
    ClusterState,
    Decision,
    DiscoveryView,
    Epoch,
    Event,
    Instance,
    Limits,
    Pause,
    Reading,
)
from tarn.domain.control_calls import NO_CALLS, WantedCalls
from tarn.domain.fleet import DemandReport
from tarn.domain.model_totals import ModelTotalsHistory
from tarn.domain.outlook import Holds, Prospect
from tarn.domain.tally import Tally

__all__ = ["Board", "Follower", "Snapshot"]


@attrs.frozen
class Follower:
    """What is known of one follower."""

    name: str
    required: bool
    revision: int
    """Last acknowledged in this epoch; -1 before the first."""
    age_s: float | None
    """Since its last message; None before the first."""
    lost: bool = False
    error: str = ""
    behind_s: float = 0.0
    """For how long it has not acknowledged the newest view; 0: it has."""
    sessions: int | None = None
    """Open through it, to the instances of which it counts them; None: it counts none."""


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
    """Why it is in this state, in words; empty when there is nothing to say."""
    spec_revision: int
    """Counts what users asked; ``If-Match`` and ``ETag``."""
    desired: int
    limits: Limits
    manual: int | None
    pause: Pause | None
    instances: tuple[Instance, ...]
    """Alive ones, by id."""
    ended: tuple[Instance, ...]
    """The last twenty that stopped or failed, oldest first."""
    view: DiscoveryView
    followers: tuple[Follower, ...]
    events: tuple[Event, ...]
    decisions: tuple[Decision, ...]
    faults: tuple[str, ...]
    """One line for each thing that is wrong; model, user and host names never stand here."""
    warnings: tuple[str, ...]
    """One line for each thing a person should know, for ``status`` (may hold names)."""
    stale: bool
    """The master is fenced: this is what it last knew."""
    readings: Mapping[str, Reading] = attrs.field(factory=dict, hash=False)
    """Instance id to what was last scraped of it; for ``/metrics``."""
    event_totals: Mapping[str, int] = attrs.field(factory=dict, hash=False)
    """Code to how often it happened since this master started; never falls."""
    troubles: tuple[tuple[str, str, str], ...] = ()
    """(code or '', subject or '', what is wrong): the faults and warnings, each told once for those
    with access; may hold names."""
    holds: Holds = attrs.field(factory=Holds)
    """What holds the whole fleet back, and until when."""
    signals: tuple[SignalStatus, ...] = ()
    """The newest of each, those that the policy reads first."""
    demand: DemandReport | None = None
    """Who waits for an instance now; None: nobody says so."""
    prospects: Mapping[str, Prospect] = attrs.field(factory=dict, hash=False)
    """Instance id to what it waits for; only of those that wait."""
    models: ModelTotalsHistory = attrs.field(factory=ModelTotalsHistory, hash=False)
    """What each model did lately, summed over the fleet."""
    instances_text: bytes = b""
    """``/instances`` as text: ``host:port`` of each ready instance, a line each."""
    tally: Tally = attrs.field(factory=lambda: Tally(0.0), hash=False)
    """What this master counted."""
    now_s: float = 0.0
    """The monotonic second of ``at``."""
    control: WantedCalls = NO_CALLS
    """The control calls that every instance must have had."""

    @property
    def ready(self) -> int:
        """How many instances are in the view."""
        return len(self.view.members)

    @property
    def instances_known(self) -> bool:
        """Say whether a view without members means that nobody is ready.

        A new master has yet to see those that an earlier one left.
        """
        return self.view.complete or bool(self.view.members)


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
        """Call *listener* on the control thread for each new snapshot; it must only hand over.

        Returns what ends the subscription.
        """
        with self._lock:
            self._listeners.append(listener)

        def unsubscribe() -> None:
            with self._lock:
                if listener in self._listeners:
                    self._listeners.remove(listener)

        return unsubscribe
