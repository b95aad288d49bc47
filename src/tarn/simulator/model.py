"""What is assumed of the instances and of the machines under them."""

import random

import attrs
from attrs.validators import ge, gt, in_, optional

__all__ = ["WorldModel"]

_DAWN = 1_767_571_200.0  # 2026-01-05T00:00:00Z, a Monday


@attrs.frozen
class WorldModel:
    """The world in numbers; it is all that a simulation knows besides the spec and the trace."""

    slots: int = attrs.field(default=16, validator=ge(1))
    """Requests that one instance executes at once."""
    service_s: float = attrs.field(default=0.1, validator=gt(0))
    """Seconds that a request executes, whatever the others do."""
    start_s: float = attrs.field(default=30.0, validator=ge(0))
    """From the grant of a place until the instance serves."""
    start_spread: float = attrs.field(default=0.0, validator=ge(0))
    """Starts take between ``start_s`` and this fraction more, each its own time."""
    grants_per_second: float | None = attrs.field(default=None, validator=optional(gt(0)))
    """Places that the runtime grants in a second; None: all at once."""
    room: int | None = attrs.field(default=None, validator=optional(ge(0)))
    """Instances that the nodes have room for, those that drain included; None: no limit."""
    failures_per_hour: float = attrs.field(default=0.0, validator=ge(0))
    """Of one serving instance; what it holds then is lost."""
    fail_at_s: tuple[float, ...] = ()
    """Moments at which the oldest serving instance fails."""
    sick_at_s: tuple[float, ...] = ()
    """Moments at which the oldest serving instance that is well falls ill, and says that it is
    well."""
    sickness: str = attrs.field(default="failing", validator=in_(("failing", "stalled")))
    """What an ill one does: it fails each request at once, or takes them in and answers none."""
    patience_s: float = attrs.field(default=30.0, validator=gt(0))
    """A request that found no instance for so long is lost; the default of our client."""
    step_s: float = attrs.field(default=1.0, validator=ge(0.1))
    """Seconds of one step."""
    seed: int = 0
    """Of the spread of starts and of the failures."""
    begins_at: float = _DAWN
    """Wall time of the trace's first second (Unix seconds), for policies that look at a calendar;
    by default midnight of a Monday, UTC."""
    begins: str = attrs.field(default="serving", validator=in_(("serving", "empty")))
    """``serving``: the first instances serve already; ``empty``: they have yet to start."""

    def starting_s(self, number: int) -> float:
        """Return how long the start of the *number*-th instance takes."""
        if not self.start_spread:
            return self.start_s
        drawn = random.Random(f"start {self.seed} {number}").random()  # noqa: S311 (no secret)
        return self.start_s * (1 + self.start_spread * drawn)

    def living_s(self, number: int) -> float:
        """Return after how long the *number*-th instance fails, since it began to serve."""
        if not self.failures_per_hour:
            return float("inf")
        drawn = random.Random(f"life {self.seed} {number}")  # noqa: S311 (no secret)
        return drawn.expovariate(self.failures_per_hour / 3600)
