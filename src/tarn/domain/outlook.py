"""What the fleet and its instances wait for, and until when: the facts behind `tarn why`.

For the size: what it is, what holds it there, and what happens next and when.
"""

import enum
import math

import attrs

from tarn.domain.counted import replicas
from tarn.domain.fleet import Fleet, Rules
from tarn.domain.fold_readings import THAW_AFTER_S
from tarn.domain.follow_up import open_sessions
from tarn.domain.instance import Instance, InstanceState
from tarn.domain.plan import STUCK_AFTER_S
from tarn.domain.renewal import lacks, no_room
from tarn.domain.samples import Sample, Unknown
from tarn.domain.scaling import Wish
from tarn.domain.sizing import Hold, SizeHold, in_words, judge

__all__ = [
    "Holds",
    "Prospect",
    "SizeOutlook",
    "WaitsFor",
    "coming_words",
    "holds",
    "prospect",
    "sentence",
    "size_outlook",
]


@attrs.frozen
class SizeOutlook:
    """The size, and how it follows the policy's wish. Times are monotonic seconds."""

    desired: int = 0
    ready: int = 0
    policy: str = ""
    """The scaling policy's name."""
    answered: bool = False
    """Whether the policy answered at all."""
    wanted: int | None = None
    """The size that it wants; None: it has no opinion, or has not answered."""
    reason: str = ""
    """Its reason, or why there is no answer."""
    allowed: int = 0
    """The wanted size within the limits; without one, the present size within the limits."""
    held: tuple[SizeHold, ...] = ()
    """What keeps the size from the wanted one, or will; empty: nothing does."""
    next_size: int | None = None
    """The next size if the wish stays; None: the size does not change by itself."""
    next_s: float | None = None
    """When the next size comes."""
    cooldown_s: float = 0.0
    """``scaling.cooldown``: the least time between two changes by the policy."""
    up_s: float = 0.0
    """``scaling.up.window``."""
    down_s: float = 0.0
    """``scaling.down.window``."""


def size_outlook(
    fleet: Fleet, rules: Rules, wish: Sample[Wish], now_s: float, at: float
) -> SizeOutlook:
    """Return the outlook of *fleet*'s size at *now_s*, which is the wall time *at*."""
    known = None if isinstance(wish, Unknown) else wish.value
    wanted = None if known is None else known.replicas
    scaling = rules.spec.scaling
    outlook = SizeOutlook(
        desired=fleet.desired,
        ready=len(fleet.view.members),
        policy=scaling.use,
        answered=known is not None,
        wanted=wanted,
        reason=wish.reason if isinstance(wish, Unknown) else wish.value.reason,
        allowed=fleet.limits(rules).clamp(fleet.desired if wanted is None else wanted),
        cooldown_s=scaling.cooldown_s,
        up_s=scaling.up.window_s,
        down_s=scaling.down.window_s,
    )
    silenced = _silenced(fleet, now_s, at)
    if silenced is not None:
        return attrs.evolve(outlook, held=(silenced,))
    if known is None:
        unknown = SizeHold(Hold.UNKNOWN, "a policy without an answer")
        return attrs.evolve(outlook, held=(unknown,))
    if wanted is None:
        return outlook
    to_come = _to_next(fleet, rules, known, now_s)
    return attrs.evolve(
        outlook, held=to_come.held, next_size=to_come.next_size, next_s=to_come.next_s
    )


def sentence(outlook: SizeOutlook, now_s: float) -> str:
    """Return one sentence, without its full stop: the size, and what happens next and when."""
    size = replicas(outlook.desired)
    if outlook.ready != outlook.desired:
        size += f" ({outlook.ready} ready)"
    said = _said(outlook)
    first = outlook.held[0] if outlook.held else None
    match first and first.by:
        case Hold.END:
            return f"{size}: the cluster ends"
        case Hold.MANUAL:
            return f"{size}, set by a person until `tarn scale --auto`; {said}"
        case Hold.PAUSE if first is not None:
            return f"{size}, kept by {first.said(now_s)}; {said}"
    if outlook.wanted is None:
        return f"{size}; the size is kept, since {said}"
    if outlook.wanted == outlook.desired:
        return f"{size}, as policy {outlook.policy} wants: {outlook.reason}; no change is due"
    why = " and ".join(held.reason for held in outlook.held)
    by = f", held back by {why}" if why else ""
    coming = coming_words(outlook, now_s) or f"stays at {outlook.desired}"
    return f"{size}; {said}; it {coming}{by}"


def coming_words(outlook: SizeOutlook, now_s: float) -> str:
    """Return the next change and when, as ``shrinks to 2 in 180 s``; empty without one."""
    if outlook.next_size is None or outlook.next_s is None:
        return ""
    moves = "grows" if outlook.next_size > outlook.desired else "shrinks"
    left_s = outlook.next_s - now_s
    when = f"in {in_words(left_s)}" if left_s > 0 else "now"
    return f"{moves} to {outlook.next_size} {when}"


def _said(outlook: SizeOutlook) -> str:
    """Return what the policy wants, and why."""
    if outlook.wanted is not None:
        what = f"wants {outlook.wanted}"
    else:
        what = "has no opinion" if outlook.answered else "has no answer"
    return f"policy {outlook.policy} {what}" + (f": {outlook.reason}" if outlook.reason else "")


def _silenced(fleet: Fleet, now_s: float, at: float) -> SizeHold | None:
    """Return why the policy's wish does not count at all; None: it does."""
    if fleet.ending:
        return SizeHold(Hold.END, "the end of the cluster")
    if fleet.manual is not None:
        return SizeHold(Hold.MANUAL, f"a person, who set {fleet.manual}")
    pause = fleet.pause
    if pause is None:
        return None
    why = f" ({pause.reason})" if pause.reason else ""
    return SizeHold(Hold.PAUSE, f"a pause of scaling{why}", now_s + pause.until - at)


def _to_next(fleet: Fleet, rules: Rules, wish: Wish, now_s: float) -> SizeOutlook:
    """Return what holds the size, and what comes next if *wish* stays."""
    # Goes forward in time from the end of one hold to the end of the next, until the size changes.
    verdict, moment_s = judge(fleet, rules, wish, now_s), now_s
    held = {one.by: one for one in verdict.held}
    while verdict.desired == fleet.desired:
        until = {one.by: one.until_s for one in verdict.held if one.until_s is not None}
        ahead = {by: until_s for by, until_s in until.items() if until_s > moment_s}
        if not ahead:
            return SizeOutlook(held=tuple(held.values()))
        # No other hold matters before the end of the cooldown.
        moment_s = ahead.get(Hold.COOLDOWN, min(ahead.values()))
        verdict = judge(fleet, rules, wish, moment_s)
        if verdict.desired == fleet.desired:
            held |= {one.by: one for one in verdict.held}
    return SizeOutlook(held=tuple(held.values()), next_size=verdict.desired, next_s=moment_s)


class WaitsFor(enum.StrEnum):
    """What an instance waits for."""

    PLACE = "place"
    """A container, a process or a GPU from the runtime."""
    MODELS = "models"
    """Its models to load, and its warm-up to end."""
    ANSWER = "answer"
    """An answer: it is silent."""
    FOLLOWERS = "followers"
    """The acknowledgement of followers that they send it no more requests."""
    QUIESCE = "quiesce"
    """The quiet time after that acknowledgement."""
    REQUESTS = "requests"
    """The end of the requests that are queued or executing in it."""
    UNLOAD = "unload"
    """The unloading of its models: Triton keeps each one until its last request has ended."""
    SESSIONS = "sessions"
    """The end of the sessions that followers have open to it."""
    REPLACEMENT = "replacement"
    """Another instance that serves all that it serves; then it drains, as a person requested."""
    TEST = "test"
    """The results of test requests: it, or its model, is unwell."""
    END = "end"
    """Its end: the runtime was asked to stop it."""


@attrs.frozen
class Prospect:
    """What one instance waits for, and until when at most."""

    waits_for: WaitsFor
    until_s: float | None = None
    """Monotonic second at which it is replaced, or its requests are cut; None: never."""
    followers: tuple[str, ...] = ()
    """Names of the followers that have not acknowledged, or have sessions open."""
    sessions: int = 0
    """How many sessions they have open."""
    lacks: str = ""
    """What would be missing without it, in words."""


@attrs.frozen
class Holds:
    """What holds the whole fleet back. Times are monotonic seconds; None: it does not apply."""

    halted: str = ""
    """Why launching was given up; empty while it goes on."""
    strikes: int = 0
    """Quick failures in a row."""
    retry_s: float | None = None
    """Nothing is launched before."""
    frozen_s: float | None = None
    """Since when silent instances are not replaced."""
    thaw_s: float | None = None
    """When they will be replaced again, at the latest."""
    cooldown_s: float | None = None
    """The policy does not change the size before."""
    size: SizeOutlook = attrs.field(factory=SizeOutlook)
    """What the policy wants, what keeps the size from it, and what comes next."""
    halted_by: str = ""
    """Id of the instance whose failure was the last before launching was given up."""


def holds(fleet: Fleet, rules: Rules, wish: Sample[Wish], now_s: float, at: float) -> Holds:
    """Return what holds *fleet* back at *now_s*, which is the wall time *at*."""
    until_s = None
    if fleet.changed_s is not None:
        until_s = fleet.changed_s + rules.spec.scaling.cooldown_s
    frozen_s = fleet.frozen_s
    return Holds(
        halted=fleet.halted,
        halted_by=fleet.halted_by,
        strikes=fleet.strikes,
        retry_s=fleet.retry_s if fleet.strikes and fleet.retry_s > now_s else None,
        frozen_s=frozen_s,
        thaw_s=None if frozen_s is None else frozen_s + THAW_AFTER_S,
        cooldown_s=until_s if until_s is not None and until_s > now_s else None,
        size=size_outlook(fleet, rules, wish, now_s, at),
    )


def prospect(instance: Instance, fleet: Fleet, rules: Rules) -> Prospect | None:
    """Return what *instance* waits for; None if it serves normally, or has ended."""
    match instance.state:
        case InstanceState.REQUESTED:
            return Prospect(WaitsFor.PLACE)
        case InstanceState.STARTING if not (instance.adopted and instance.silent_s is not None):
            # when a start that did not end well is given up
            limit_s, stuck_s = rules.spec.instance.start_timeout_s, instance.stuck_s
            until_s = instance.since_s + limit_s
            stuck_until_s = math.inf if stuck_s is None else stuck_s + STUCK_AFTER_S
            return Prospect(WaitsFor.MODELS, min(until_s, stuck_until_s))
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
    if instance.retiring is None:
        return Prospect(WaitsFor.TEST) if instance.wants_test else None
    lacking, no = lacks(instance, fleet.instances, fleet.desired), no_room(fleet, rules)
    lacking = f"{lacking}; none can start, since {no}" if lacking and no else lacking
    return Prospect(WaitsFor.REPLACEMENT, lacks=lacking)


def _draining(instance: Instance, fleet: Fleet, rules: Rules) -> Prospect:
    if instance.stop_posted or instance.untouched:
        return Prospect(WaitsFor.END)
    if instance.withdrawn_s is None:
        return Prospect(WaitsFor.FOLLOWERS, followers=_silent(instance, fleet, rules))
    if instance.condemned:
        return Prospect(WaitsFor.END)
    return _finishing(instance, fleet, rules, instance.withdrawn_s)


def _finishing(instance: Instance, fleet: Fleet, rules: Rules, withdrawn_s: float) -> Prospect:
    """Return what an instance waits for that gets no more requests."""
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
    if left is None:  # the view is incomplete, so it does not remove the instance yet
        return ()
    return tuple(
        name
        for name, follower in sorted(fleet.followers.items())
        if name in rules.required
        and follower.came
        and not follower.lost
        and follower.revision < left
    )
