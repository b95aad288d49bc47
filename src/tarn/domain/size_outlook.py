"""What the size is, what holds it there, and what happens next and when. Pure."""

import attrs

from tarn.domain.counted import replicas
from tarn.domain.fleet import Fleet, Rules
from tarn.domain.samples import Sample, Unknown
from tarn.domain.scaling import Wish
from tarn.domain.size_holds import Hold, SizeHold, in_words
from tarn.domain.sizing import judge

__all__ = ["SizeOutlook", "coming_words", "sentence", "size_outlook"]


@attrs.frozen
class SizeOutlook:
    """The size, and what comes of the policy's wish. Times are monotonic seconds."""

    desired: int = 0
    ready: int = 0
    policy: str = ""
    """The scaling policy's name."""
    answered: bool = False
    """Whether the policy answered at all."""
    wanted: int | None = None
    """What it wants; None: it has no opinion, or no answer."""
    reason: str = ""
    """Its reason, or why there is no answer."""
    allowed: int = 0
    """What the limits make of what is wanted, and of the size where nothing is."""
    held: tuple[SizeHold, ...] = ()
    """What keeps the size from what is wanted, or would; empty: nothing does."""
    next_size: int | None = None
    """The size that comes next if the wish stays; None: none does by itself."""
    next_s: float | None = None
    """When."""
    cooldown_s: float = 0.0
    """As it is set: the least time between two changes by the policy."""
    up_s: float = 0.0
    """How far back growing looks."""
    down_s: float = 0.0
    """How far back shrinking looks."""


def size_outlook(
    fleet: Fleet, rules: Rules, wish: Sample[Wish], now_s: float, at: float
) -> SizeOutlook:
    """Return how *fleet*'s size stands at *now_s*, which is the wall time *at*."""
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
    """Return in one sentence, without its full stop, what is and what happens next and when."""
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
    return f"{size}; {said}; {_to_come(outlook, now_s)}"


def coming_words(outlook: SizeOutlook, now_s: float) -> str:
    """Return what comes next and when: ``shrinks to 2 in 180 s``; empty where nothing does."""
    if outlook.next_size is None or outlook.next_s is None:
        return ""
    moves = "grows" if outlook.next_size > outlook.desired else "shrinks"
    left_s = outlook.next_s - now_s
    when = f"in {in_words(left_s)}" if left_s > 0 else "now"
    return f"{moves} to {outlook.next_size} {when}"


def _said(outlook: SizeOutlook) -> str:
    """Return what the policy says."""
    if outlook.wanted is not None:
        what = f"wants {outlook.wanted}"
    else:
        what = "has no opinion" if outlook.answered else "has no answer"
    return f"policy {outlook.policy} {what}" + (f": {outlook.reason}" if outlook.reason else "")


def _to_come(outlook: SizeOutlook, now_s: float) -> str:
    why = " and ".join(held.reason for held in outlook.held)
    by = f", held back by {why}" if why else ""
    if outlook.next_size is None:
        return f"it stays at {outlook.desired}{by}"
    return f"it {coming_words(outlook, now_s)}{by}"


def _silenced(fleet: Fleet, now_s: float, at: float) -> SizeHold | None:
    """Return why the policy is not heard at all; None: it is."""
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
    """Return what holds and what comes next if *wish* stays: one hold after the other lets go."""
    verdict, moment_s = judge(fleet, rules, wish, now_s), now_s
    held = {one.by: one for one in verdict.held}
    while verdict.desired == fleet.desired:
        until = {one.by: one.until_s for one in verdict.held if one.until_s is not None}
        ahead = {by: until_s for by, until_s in until.items() if until_s > moment_s}
        if not ahead:
            return SizeOutlook(held=tuple(held.values()))
        moment_s = ahead.get(Hold.COOLDOWN, min(ahead.values()))  # nothing moves before its end
        verdict = judge(fleet, rules, wish, moment_s)
        if verdict.desired == fleet.desired:
            held |= {one.by: one for one in verdict.held}
    return SizeOutlook(held=tuple(held.values()), next_size=verdict.desired, next_s=moment_s)
