"""What a master must not forget: saved by the StateStore, read by the next master."""

from collections.abc import Mapping

import attrs

from tarn.domain.control_calls import ControlCall
from tarn.domain.events import Event
from tarn.domain.scaling import Decision

__all__ = ["SCHEMA", "Pause", "SavedState"]

SCHEMA = 1
"""Version of the saved form; a newer one is refused in words, never guessed."""


@attrs.frozen
class Pause:
    """Scaling decisions stop until then; dead instances are still replaced."""

    until: float
    """Wall time, Unix seconds."""
    reason: str = ""


@attrs.frozen
class SavedState:
    """Desired and manual size, pause, counters, drains, back-offs: all times are wall seconds."""

    desired: int
    next_number: int = 1
    """The next instance number; ids are never reused."""
    spec_revision: int = 1
    """Counts what users asked; ``If-Match`` names it."""
    view_revision: int = 0
    wish_revision: int = 0
    manual: int | None = None
    """Size that a person set; None: the policy decides."""
    min: int | None = None
    """Set by ``adapt``; None: the spec's."""
    max: int | None = None
    pause: Pause | None = None
    changed_at: float = 0.0
    """Last change of size by the policy; clamped to the present when read."""
    strikes: int = 0
    """Quick failures in a row."""
    retry_at: float = 0.0
    """No launch before; clamped when read."""
    halted: str = ""
    """Why launching was given up; empty while it goes on."""
    drains: tuple[tuple[str, float, str], ...] = ()
    """(instance id, since, reason) of drains in work."""
    condemned: frozenset[str] = frozenset()
    """Those drains that replace a broken instance."""
    evicted: frozenset[str] = frozenset()
    """Those drains that a person asked for, or whose place will be taken."""
    retiring: Mapping[str, int] = attrs.field(factory=dict, hash=False)
    """Instances that serve until a replacement does, and the next instance's number at the moment
    at which a person asked for that."""
    others_then: Mapping[str, int] = attrs.field(factory=dict, hash=False)
    """How many others served at that moment."""
    stops: frozenset[str] = frozenset()
    """Instances whose stop was posted."""
    left: tuple[tuple[str, float, float], ...] = ()
    """(instance id, succeeded, failed): what its Triton's counters said when its drain began."""
    unloads: frozenset[str] = frozenset()
    """Instances whose models were asked to unload: no way back."""
    ending: bool = False
    """``down`` was asked: everything drains, nothing is launched."""
    decisions: tuple[Decision, ...] = ()
    """The last few, so that cooldowns and explanations survive."""
    events: tuple[Event, ...] = ()
    """The last ones, so that a new master still tells them."""
    followers: frozenset[str] = frozenset()
    """Who has acknowledged views: the next master's drains wait for them from its first moment."""
    followers_of: tuple[tuple[str, str], ...] = ()
    """(follower, whose name it is): nobody else may acknowledge under it before they are back."""
    call_number: int = 0
    """The newest control call that was ever asked for."""
    calls: tuple[ControlCall, ...] = ()
    """The control calls that every instance must have had."""
    former_calls: tuple[ControlCall, ...] = ()
    """Those that are wanted again when nobody can do what took their place."""
    unsettled_calls: frozenset[int] = frozenset()
    """Those that some instance had still to answer."""
    calls_had: tuple[tuple[str, int, int, tuple[int, ...]], ...] = ()
    """(instance id, born, upto, also) as in `CallProgress`, of those that lack one."""
    calls_complete: tuple[str, ...] = ()
    """Ids of the instances that have had all."""
