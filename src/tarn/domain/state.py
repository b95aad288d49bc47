"""The states of a cluster, and what a state store saves of it for the next master."""

import enum
from collections.abc import Mapping

import attrs

from tarn.domain.control_calls import ControlCall
from tarn.domain.events import Event
from tarn.domain.scaling import Decision

__all__ = ["SCHEMA", "ClusterState", "EditionFiles", "Pause", "SavedState", "Update", "present"]


class ClusterState(enum.StrEnum):
    """The state of a cluster."""

    SUBMITTED = "submitted"
    STARTING = "starting"
    READY = "ready"
    DEGRADED = "degraded"
    """It serves less than it did or should: a model is unavailable somewhere, fewer instances
    serve than did, or too few for too long."""
    STOPPING = "stopping"
    STOPPED = "stopped"
    FAILED = "failed"


SCHEMA = 1
"""Version of the saved form; a master refuses a newer one."""


@attrs.frozen
class Pause:
    """A pause of scaling decisions; dead instances are still replaced."""

    until: float
    """Wall time, Unix seconds."""
    reason: str = ""


@attrs.frozen
class EditionFiles:
    """One edition of a cluster's spec, as a client sent it to a master."""

    digest: str
    """Of the content of all files; names the edition."""
    spec_hash: str
    """`Launch.spec_hash` of its instances. Editions that differ only in what a master does, such
    as the limits of the size, have the same."""
    files: Mapping[str, str] = attrs.field(hash=False, repr=False)
    """Name to content: `SPEC`, `STAGED` and, if the spec names one, `TEST_REQUESTS`."""


@attrs.frozen
class Update:
    """The way of a fleet from one spec to another. It ends when no instance has another spec."""

    number: int
    """Counts the updates of a cluster from 1."""
    before: str
    """Hash of the spec that the fleet comes from."""
    after: str
    """Hash of the spec that was asked for."""
    began_at: float
    """Wall time, Unix seconds."""
    first: int = 1
    """Number of its first new instance: what failed before says nothing of this update."""
    undone: str = ""
    """Why the fleet goes back to ``before``; empty: it goes on to ``after``."""
    paused: bool = False
    """No further instance is replaced until a person resumes it."""
    proven: frozenset[str] = frozenset()
    """Ids of the new instances that have proven themselves."""

    @property
    def target(self) -> str:
        """Hash of the spec that all instances are to have."""
        return self.before if self.undone else self.after


def present(editions: tuple[EditionFiles, ...], update: Update | None) -> EditionFiles:
    """Return the one of *editions* whose spec holds now; one that is undone does not."""
    return editions[0 if update is not None and update.undone else -1]


@attrs.frozen
class SavedState:
    """The part of a fleet that is saved. All times are wall seconds."""

    desired: int
    next_number: int = 1
    """The next instance number; ids are never reused."""
    spec_revision: int = 1
    """Counts the changes that users asked for; ``If-Match`` names it."""
    view_revision: int = 0
    wish_revision: int = 0
    manual: int | None = None
    """Size that a person set; None: the policy decides."""
    min: int | None = None
    """The limit set by ``adapt``; None: that of the spec."""
    max: int | None = None
    pause: Pause | None = None
    changed_at: float = 0.0
    """Last change of size by the policy; a time in the future counts as the present when read."""
    strikes: int = 0
    """Quick failures in a row."""
    retry_at: float = 0.0
    """Nothing is launched before; the time left is cut when read."""
    halted: str = ""
    """Why launching was given up; empty while it goes on."""
    halted_by: str = ""
    """Id of the instance whose failure was the last."""
    update: Update | None = None
    """The update that is on its way."""
    updates: int = 0
    """How many updates there were."""
    updated: Update | None = None
    """The newest update that has ended."""
    editions: tuple[EditionFiles, ...] = ()
    """The edition before, and the present one; during an update the one that it comes from, and
    the one that was asked for. Empty before the first update."""
    drains: tuple[tuple[str, float, str], ...] = ()
    """(instance id, since, reason) of each draining instance."""
    condemned: frozenset[str] = frozenset()
    """Ids of those that drain because they are broken."""
    evicted: frozenset[str] = frozenset()
    """Ids of those that drain because a person asked for it, or their place will be taken."""
    retiring: Mapping[str, int] = attrs.field(factory=dict, hash=False)
    """Id of each instance that serves until a replacement does, to the number of the next instance
    when that was requested."""
    others_then: Mapping[str, int] = attrs.field(factory=dict, hash=False)
    """Its id to how many others served at that moment."""
    stops: frozenset[str] = frozenset()
    """Ids of the instances whose stop was posted."""
    left: tuple[tuple[str, float, float], ...] = ()
    """(instance id, succeeded, failed): Triton's counters when the drain began."""
    unloads: frozenset[str] = frozenset()
    """Ids of the instances whose models were asked to unload; they cannot be taken back."""
    ending: bool = False
    """``down`` was requested: everything drains, nothing is launched."""
    decisions: tuple[Decision, ...] = ()
    """The newest decisions, so that the next master keeps cooldowns and explanations."""
    events: tuple[Event, ...] = ()
    """The newest events, so that the next master still shows them."""
    followers: frozenset[str] = frozenset()
    """Followers that have acknowledged views; drains of the next master wait for them at once."""
    followers_of: tuple[tuple[str, str], ...] = ()
    """(follower, principal): the name is reserved for the principal until it is back."""
    call_number: int = 0
    """Number of the newest control call that was ever asked for."""
    calls: tuple[ControlCall, ...] = ()
    """The control calls that every instance must have had."""
    former_calls: tuple[ControlCall, ...] = ()
    """Control calls that are wanted again if no instance can do the one that replaced them."""
    unsettled_calls: frozenset[int] = frozenset()
    """Numbers of the calls that some instance had still to answer."""
    calls_had: tuple[tuple[str, int, int, tuple[int, ...]], ...] = ()
    """(instance id, born, upto, also), as in `CallProgress`, of each instance that lacks a call."""
    calls_complete: tuple[str, ...] = ()
    """Ids of the instances that have had all calls."""
