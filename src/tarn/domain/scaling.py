"""What a policy sees and says, and what was made of it."""

import attrs

from tarn.domain.events import EventCause, Requester
from tarn.domain.instance import Instance
from tarn.domain.limits import Limits
from tarn.domain.samples import Known, Sample, Unknown

__all__ = ["Decision", "FleetView", "Wish"]


@attrs.frozen
class Wish:
    """A policy's answer: how many replicas, and why; None keeps the present size."""

    replicas: int | None
    reason: str
    urgent: bool = False
    """A growth that waits neither for the cooldown nor for ``scaling.up.window``."""


@attrs.frozen
class Decision:
    """One answer to "how many": wanted, what the limits made of it, and the reason in words."""

    at: float
    """Wall time, Unix seconds."""
    wanted: int | None
    desired: int
    by: str
    """``policy <name>``, ``scale`` (a person), ``demand`` (requests wait) or ``start``."""
    reason: str
    held_back: str = ""
    """Why desired differs from wanted: limits, cooldown, pause, ceiling; empty when it does not."""
    number: int = 0
    """Counts the decisions of the cluster, over its masters; 0: it was made and not enacted."""
    asker: Requester | None = None
    """Who asked for this size; None where nobody did."""

    @property
    def cause(self) -> EventCause:
        """What its events come from."""
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

    Always there: those of `tarn.domain.signals`, which says what each is. Besides them: what the
    policy's factory says that it ``reads``. A sample is Unknown when one ready instance did not
    say, or none is ready.
    """
    decisions: tuple[Decision, ...] = ()
    """The most recent last; at most 100."""
    waiting: int = 0
    """Requests that followers and clients hold because there is no instance. Refused ones are none:
    one client that tries again may be refused a hundred times a second."""
    at: float = 0.0
    """Wall time, Unix seconds: for policies that go by the calendar."""

    def latest(self, signal: str) -> Sample[float]:
        """Return the newest sample of *signal*; Unknown when there never was one."""
        history = self.signals.get(signal, ())
        return history[-1][1] if history else Unknown(f"no sample of {signal} yet")

    def mean(self, signal: str, window_s: float) -> Sample[float]:
        """Return the mean of what is known of *signal* over the last *window_s* seconds.

        Unknown while its newest sample is: an old mean says nothing of now.
        """
        newest = self.latest(signal)
        if isinstance(newest, Unknown):
            return newest
        since_s = self.now_s - window_s
        within = [
            s.value for at_s, s in self.signals[signal] if at_s >= since_s and isinstance(s, Known)
        ]
        return Known(sum(within) / len(within), newest.age_s) if within else newest
