"""What is waited for, and until when: the facts that `tarn why` makes its sentences of."""

import enum

import attrs

from tarn.domain.fleet import Fleet, Rules
from tarn.domain.follow_up import open_sessions
from tarn.domain.guard import THAW_AFTER_S
from tarn.domain.instance import Instance, InstanceState
from tarn.domain.plan import STUCK_AFTER_S
from tarn.domain.replacing import lacks, no_room
from tarn.domain.samples import Sample
from tarn.domain.scaling import Wish
from tarn.domain.size_outlook import SizeOutlook, size_outlook

__all__ = ["Holds", "Prospect", "WaitsFor", "holds", "prospect"]


class WaitsFor(enum.StrEnum):
    """What an instance waits for."""

    PLACE = "place"
    """A container, a process, a GPU: the runtime's to grant."""
    MODELS = "models"
    """Its models to load, and its warm-up."""
    ANSWER = "answer"
    """An answer: it is silent."""
    FOLLOWERS = "followers"
    """The acknowledgement of followers that they send it nothing more."""
    QUIESCE = "quiesce"
    """The quiet time after that word."""
    REQUESTS = "requests"
    """The end of what is queued or executing in it."""
    UNLOAD = "unload"
    """Its models to be gone: Triton keeps each one until the last request in it ended."""
    SESSIONS = "sessions"
    """The end of the sessions that followers have open to it."""
    REPLACEMENT = "replacement"
    """Another instance that serves all that it serves; then it drains, as a person asked."""
    TEST = "test"
    """Test requests to say whether it is well: it is unwell, or its model is."""
    END = "end"
    """Its end: the stop was asked of the runtime."""


@attrs.frozen
class Prospect:
    """What one instance waits for, and what happens when that does not come."""

    waits_for: WaitsFor
    until_s: float | None = None
    """Monotonic second at which it is replaced, or what it still does is cut; None: never."""
    followers: tuple[str, ...] = ()
    """Who has not acknowledged, or has sessions open, by name."""
    sessions: int = 0
    """How many are open there."""
    lacks: str = ""
    """What would be lost without it, in words."""


@attrs.frozen
class Holds:
    """What holds the whole fleet back. Times are monotonic seconds; None: it does not hold."""

    halted: str = ""
    """Why launching was given up; empty while it goes on."""
    strikes: int = 0
    """Quick failures in a row."""
    retry_s: float | None = None
    """No launch before."""
    frozen_s: float | None = None
    """Since when silent instances are not replaced."""
    thaw_s: float | None = None
    """When they are again, at the latest."""
    cooldown_s: float | None = None
    """No change of size by the policy before."""
    size: SizeOutlook = attrs.field(factory=SizeOutlook)
    """What the policy wants, what keeps the size from it, and what comes next."""


def holds(fleet: Fleet, rules: Rules, wish: Sample[Wish], now_s: float, at: float) -> Holds:
    """Return what holds *fleet* back at *now_s* (wall time *at*); what is over is left out."""
    until_s = None
    if fleet.changed_s is not None:
        until_s = fleet.changed_s + rules.spec.scaling.cooldown_s
    frozen_s = fleet.frozen_s
    return Holds(
        halted=fleet.halted,
        strikes=fleet.strikes,
        retry_s=fleet.retry_s if fleet.strikes and fleet.retry_s > now_s else None,
        frozen_s=frozen_s,
        thaw_s=None if frozen_s is None else frozen_s + THAW_AFTER_S,
        cooldown_s=until_s if until_s is not None and until_s > now_s else None,
        size=size_outlook(fleet, rules, wish, now_s, at),
    )


def prospect(instance: Instance, fleet: Fleet, rules: Rules) -> Prospect | None:
    """Return what *instance* waits for; None for one that is as it should be, or over."""
    match instance.state:
        case InstanceState.REQUESTED:
            return Prospect(WaitsFor.PLACE)
        case InstanceState.STARTING if not (instance.adopted and instance.silent_s is not None):
            return Prospect(WaitsFor.MODELS, _given_up_s(instance, rules))
        case InstanceState.STARTING | InstanceState.READY if instance.silent_s is not None:
            frozen = fleet.frozen_s is not None and not instance.gone
            until_s = instance.silent_s + rules.spec.instance.replace_after_s
            return Prospect(WaitsFor.ANSWER, None if frozen else until_s)
        case InstanceState.READY:
            return _serving(instance, fleet, rules)
        case InstanceState.DRAINING:
            return _draining(instance, fleet, rules)
    return None


def _serving(instance: Instance, fleet: Fleet, rules: Rules) -> Prospect | None:
    if instance.retiring is not None:
        return Prospect(WaitsFor.REPLACEMENT, lacks=_lacking(instance, fleet, rules))
    return Prospect(WaitsFor.TEST) if instance.wants_test else None


def _lacking(instance: Instance, fleet: Fleet, rules: Rules) -> str:
    lacking, no = lacks(instance, fleet.instances, fleet.desired), no_room(fleet, rules)
    return f"{lacking}; none can start, since {no}" if lacking and no else lacking


def _given_up_s(instance: Instance, rules: Rules) -> float:
    """Return when a start that did not end well is given up."""
    limit_s = instance.since_s + rules.spec.instance.start_timeout_s
    stuck_s = instance.stuck_s
    return limit_s if stuck_s is None else min(limit_s, stuck_s + STUCK_AFTER_S)


def _draining(instance: Instance, fleet: Fleet, rules: Rules) -> Prospect:
    if instance.stop_posted or instance.untouched:
        return Prospect(WaitsFor.END)
    if instance.withdrawn_s is None:
        return Prospect(WaitsFor.FOLLOWERS, followers=_silent(instance, fleet, rules))
    if instance.condemned:
        return Prospect(WaitsFor.END)
    return _finishing(instance, fleet, rules, instance.withdrawn_s)


def _finishing(instance: Instance, fleet: Fleet, rules: Rules, withdrawn_s: float) -> Prospect:
    """Return what one waits for that nobody sends to any more."""
    drain = rules.spec.drain
    quiesced_s = withdrawn_s + drain.quiesce_s
    cut_s = max(quiesced_s, instance.since_s + drain.timeout_s)
    holding = () if instance.gone else open_sessions(instance, fleet)
    if holding:
        names, count = tuple(name for name, _ in holding), sum(count for _, count in holding)
        return Prospect(WaitsFor.SESSIONS, cut_s, names, count)
    if instance.unloading:
        return Prospect(WaitsFor.UNLOAD, cut_s)
    if not instance.quiet:
        return Prospect(WaitsFor.REQUESTS, cut_s)
    return Prospect(WaitsFor.QUIESCE, quiesced_s)


def _silent(instance: Instance, fleet: Fleet, rules: Rules) -> tuple[str, ...]:
    """Return the required followers that may still send to *instance*."""
    left = instance.left_revision
    if left is None:  # the view is not yet complete: nobody is asked to take anybody out
        return ()
    return tuple(
        name
        for name, follower in sorted(fleet.followers.items())
        if name in rules.required
        and follower.came
        and not follower.lost
        and follower.revision < left
    )
