"""What a policy sees, its wishes, and the decisions about the size. Pure."""

import math
from bisect import bisect_right
from collections.abc import Callable, Iterable
from operator import ge, le

import attrs

from tarn.domain.events import EventCause, Requester
from tarn.domain.instance import Instance, InstanceState
from tarn.domain.samples import Known, Sample, Unknown

__all__ = [
    "FULL_FROM",
    "KINDS",
    "NOTHING",
    "OF_FULL",
    "Capacity",
    "Decision",
    "FleetView",
    "Limits",
    "Lookback",
    "PastSize",
    "Wish",
    "capacity",
    "executed_when_full",
    "idle",
    "is_nothing",
    "load_of_callers",
]

KINDS = ("policy", "scale", "limits", "demand", "down", "start")
"""What decides about the size."""


@attrs.frozen
class Limits:
    """How many replicas a cluster may have."""

    min: int
    """Fewest replicas; 0 lets the cluster sleep."""
    max: int
    """Most replicas that the user allows."""
    ceiling: int | None = None
    """Most replicas that a farm grants at present; None without a farm."""
    ceiling_reason: str = ""
    """Why the ceiling has this value."""
    expires_at: float | None = None
    """Wall time (Unix seconds) at which the ceiling's lease ends; None: never."""

    def clamp(self, wanted: int) -> int:
        """Return *wanted* moved into the limits; a ceiling below ``min`` wins."""
        top = self.max if self.ceiling is None else min(self.max, self.ceiling)
        return min(max(wanted, self.min), top)


@attrs.frozen
class Wish:
    """A policy's answer: how many replicas, and why; None keeps the present size."""

    replicas: int | None
    reason: str
    urgent: bool = False
    """True: a growth does not wait for the cooldown or for ``scaling.up.window``."""


@attrs.frozen
class Decision:
    """One decision about the size: the wanted and the decided number, and the reason."""

    at: float
    """Wall time, Unix seconds."""
    wanted: int | None
    desired: int
    by: str
    """One of `KINDS`; a policy is named: ``policy <name>``."""
    reason: str
    held_back: str = ""
    """Why ``desired`` differs from ``wanted``: limits, cooldown, ceiling; empty: it does not."""
    number: int = 0
    """Counts the decisions of the cluster under all its masters; 0: it was not carried out."""
    asker: Requester | None = None
    """Who asked for this size; None: no person did."""

    @property
    def kind(self) -> str:
        """What decided, as one of `KINDS`."""
        return self.by if self.by in KINDS else "policy"

    @property
    def cause(self) -> EventCause:
        """The cause of the events that follow from it."""
        return EventCause(self.number or None, self.asker)


@attrs.frozen
class FleetView:
    """Everything a policy may look at; policies keep no state of their own."""

    now_s: float
    desired: int
    limits: Limits
    instances: tuple[Instance, ...] = ()
    signals: dict[str, tuple[tuple[float, Sample[float]], ...]] = attrs.field(
        factory=dict, hash=False
    )
    """Signal name to (monotonic seconds, sample), oldest first, fleet-wide.

    The signals of `tarn.domain.signals`, which explains each, are always there; besides them, those
    that the policy's factory ``reads``. A sample is Unknown if one ready instance did not report
    it, or no instance is ready.
    """
    decisions: tuple[Decision, ...] = ()
    """The most recent last; at most 100."""
    waiting: int = 0
    """Requests that followers and clients hold because there is no instance. Refused requests do
    not count, since one client may be refused a hundred times a second."""
    at: float = 0.0
    """Wall time, Unix seconds: for policies that go by the calendar."""

    def latest(self, signal: str) -> Sample[float]:
        """Return the newest sample of *signal*; Unknown if there is none."""
        history = self.signals.get(signal, ())
        return history[-1][1] if history else Unknown(f"no sample of {signal} yet")

    def mean(self, signal: str, window_s: float) -> Sample[float]:
        """Return the mean of the known samples of *signal* in the last *window_s* seconds.

        It is Unknown if the newest sample is.
        """
        newest = self.latest(signal)  # without it, a mean would be of the past only
        if isinstance(newest, Unknown):
            return newest
        since_s = self.now_s - window_s
        within = [
            s.value for at_s, s in self.signals[signal] if at_s >= since_s and isinstance(s, Known)
        ]
        return Known(sum(within) / len(within), newest.age_s) if within else newest


# Two monotonic queues, one for the least and one for the greatest of a sliding window: each wish
# enters and leaves a queue once, so a tick costs the same however long the windows are.


@attrs.frozen
class PastSize:
    """An earlier wish, or the size that was kept without one, and until when it held."""

    replicas: int
    until_s: float


@attrs.frozen
class Lookback:
    """The wish in force, and the earlier ones that still matter."""

    wish: Wish | None = None
    """None: the policy has no opinion, or it does not count. That is a wish for the present size.
    """
    least: tuple[PastSize, ...] = ()
    """Oldest first, each greater than the one before it."""
    greatest: tuple[PastSize, ...] = ()
    """Oldest first, each less than the one before it."""
    silent_s: float | None = None
    """Since when the policy has had no opinion, while its last wish still counts."""

    @classmethod
    def began(cls, replicas: int, at_s: float) -> "Lookback":
        """Return one that begins at *at_s* with the size *replicas*, and no opinion."""
        first = (PastSize(replicas, at_s),)
        return cls(None, first, first)

    def heard(
        self, wish: Wish | None, present: int, now_s: float, up_s: float, down_s: float
    ) -> "Lookback":
        """Return it with *wish* in force from now on, until the next one comes.

        Args:
            wish: The policy's wish; None: it has no opinion, or its opinion does not count.
            present: The size that counts if there was no opinion before.
            now_s: Monotonic seconds.
            up_s: ``scaling.up.window``.
            down_s: ``scaling.down.window``.
        """
        before = self.wish
        if wish is before and self.silent_s is None:  # the same answer of the policy again
            return self
        least, greatest = _within(self.least, now_s, up_s), _within(self.greatest, now_s, down_s)
        if wish is None or before is None or wish.replicas != before.replicas:
            held = present if before is None or before.replicas is None else before.replicas
            past = PastSize(held, now_s)
            least = _pushed(least, past, ge) if up_s else ()
            greatest = _pushed(greatest, past, le) if down_s else ()
        return Lookback(wish, least, greatest)

    def unheard(self, now_s: float) -> "Lookback":
        """Return it while the policy has no opinion; its last wish stays in force."""
        return self if self.silent_s is not None else attrs.evolve(self, silent_s=now_s)

    def least_since(self, now_s: float, window_s: float, wanted: int) -> int:
        """Return the least wish that held within *window_s*; *wanted* is the one in force."""
        return min(wanted, _first(self.least, now_s, window_s, wanted))

    def greatest_since(self, now_s: float, window_s: float, wanted: int) -> int:
        """Return the greatest wish that held within *window_s*; *wanted* is the one in force."""
        return max(wanted, _first(self.greatest, now_s, window_s, wanted))

    def rises_s(self, replicas: int, window_s: float) -> float | None:
        """Return when the least wish rises above *replicas* if the one in force stays."""
        place = bisect_right(self.least, replicas, key=lambda past: past.replicas)
        return self.least[place - 1].until_s + window_s if place else None

    def falls_s(self, replicas: int, window_s: float) -> float | None:
        """Return when the greatest wish falls below *replicas* if the one in force stays."""
        place = bisect_right(self.greatest, -replicas, key=lambda past: -past.replicas)
        return self.greatest[place - 1].until_s + window_s if place else None


def _within(queue: tuple[PastSize, ...], now_s: float, window_s: float) -> tuple[PastSize, ...]:
    """Return *queue* without the sizes that ended before the window."""
    old = 0
    while old < len(queue) and queue[old].until_s + window_s <= now_s:
        old += 1
    return queue[old:] if old else queue


def _pushed(
    queue: tuple[PastSize, ...], past: PastSize, hides: Callable[[int, int], bool]
) -> tuple[PastSize, ...]:
    """Return *queue* with *past*, and without the older sizes that *past* makes irrelevant."""
    left = len(queue)
    while left and hides(queue[left - 1].replicas, past.replicas):
        left -= 1
    return (*queue[:left], past)


def _first(queue: tuple[PastSize, ...], now_s: float, window_s: float, otherwise: int) -> int:
    return next((p.replicas for p in queue if p.until_s + window_s > now_s), otherwise)


NOTHING = 1e-6
"""A signal below this counts as zero: a fading rate or a sum of floats never becomes exactly 0."""
FULL_FROM = 0.25
"""An instance is full when at least this share of its executing requests waits."""
OF_FULL = 0.75
"""The share of a full replica's executing requests to aim at; with more, requests wait."""
# A start is late after this many times the slowest start that was seen.
_LATE_AFTER = 2.0
# Samples with a full instance that are needed: a single one can fall into a short burst.
_FULL_SAMPLES = 3
# So many requests must have ended for a queue that does not change to say something.
_ENDED = 4.0
_QUEUE = ("in_flight", "pending", "executing", "requests_per_s", "when_full")
# The time over which the executing requests are averaged.
_LATELY_S = 10.0


@attrs.frozen
class Capacity:
    """How many instances serve, and how many are on their way."""

    # A mean over the ready instances leaves out those that start. A policy that does not count them
    # would ask for more at every look, for as long as a start takes.

    ready: int
    """Ready instances, suspect ones too since they have work, without those ejected as unwell."""
    coming: int
    """Requested or starting, and expected soon."""
    late: int
    """Requested or starting for more than twice as long as any ready one took: do not wait."""
    start_s: float = 0.0
    """Seconds from the request to ready of the slowest ready instance; 0: not known."""
    older: int = 0
    """Ready instances that were so before the first of the coming ones was asked for; all ready
    ones if none comes. It does not change while instances start."""


def capacity(fleet: FleetView) -> Capacity:
    """Count the instances that serve, and those that are coming."""
    slowest_s, ready, ages_s = 0.0, 0, []
    for instance in fleet.instances:
        if instance.state is InstanceState.READY:
            ready += not instance.ejected
            # When an adopted one was asked for is not known.
            if instance.ready_s is not None and not instance.adopted:
                slowest_s = max(slowest_s, instance.ready_s - instance.requested_s)
        elif instance.state in (InstanceState.REQUESTED, InstanceState.STARTING):
            ages_s.append(fleet.now_s - instance.requested_s)
    late_s = _LATE_AFTER * slowest_s
    late = sum(age_s > late_s for age_s in ages_s) if late_s else 0
    return Capacity(ready, len(ages_s) - late, late, slowest_s, ready - _newer(fleet, ages_s))


def _newer(fleet: FleetView, ages_s: Iterable[float]) -> int:
    """Count those that became ready after the first of the coming ones was asked for."""
    oldest_s = max(ages_s, default=0.0)
    return sum(
        instance.state is InstanceState.READY
        and not instance.ejected
        and fleet.now_s - instance.ready_s < oldest_s
        for instance in fleet.instances
        if instance.ready_s is not None and oldest_s
    )


def executed_when_full(fleet: FleetView, ready: int) -> float | None:
    """Return how many requests each of the *ready* instances executes at once when it is full.

    It is never 0. None: the samples that are kept do not show it.
    """
    seen = [s.value for _, s in fleet.signals.get("when_full", ()) if isinstance(s, Known)]
    if len(seen) < _FULL_SAMPLES:
        return None
    executing = fleet.mean("executing", _LATELY_S)
    # An instance with several models may be full in one of them only, and execute more in others.
    lately = executing.value / ready if ready and isinstance(executing, Known) else 0.0
    return max(lately, sum(seen) / len(seen)) or None


def load_of_callers(fleet: FleetView) -> float | None:
    """Return the requests in flight if they come from callers that wait for their answers.

    None: nothing shows that; then the load is what arrives.
    """
    # Such callers send no more than the full instances answer, so arrivals show the capacity and
    # not the load. All of their requests would execute at once if none had to wait. They are known
    # by their queue: while instances are full, the queue of independent callers changes by the
    # square root of the requests that ended, or steadily. That of callers that wait stays.
    seen: list[float] = []
    ended, rate, later_s = 0.0, 0.0, fleet.now_s
    for look in zip(*(reversed(fleet.signals.get(name, ())) for name in _QUEUE), strict=False):
        known = [sample.value for _, sample in look if isinstance(sample, Known)]
        if len(known) < len(_QUEUE):
            return None
        in_flight, pending, executing, per_s, _ = known
        if pending < executing * FULL_FROM:
            return None
        at_s = look[0][0]
        ended += rate * (later_s - at_s)
        rate, later_s = per_s, at_s
        seen.append(in_flight)
        if len(seen) >= _FULL_SAMPLES and ended >= _ENDED:
            return seen[0] if max(seen) - min(seen) <= math.sqrt(ended) / 2 else None
    return None


def idle(fleet: FleetView) -> bool:
    """Say whether it is known that no request waits, executes or ended lately."""
    return not fleet.waiting and all(is_nothing(fleet, n) for n in ("in_flight", "requests_per_s"))


def is_nothing(fleet: FleetView, signal: str) -> bool:
    """Say whether *signal* is known to be zero, within rounding."""
    sample = fleet.latest(signal)
    return isinstance(sample, Known) and abs(sample.value) < NOTHING
