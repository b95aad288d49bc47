"""What keeps a fleet from the size that is wanted: each with its reason, and until when."""

import enum
import math

import attrs

__all__ = ["Hold", "SizeHold", "in_words"]

_IN_MINUTES_FROM_S = 600
_IN_HOURS_FROM_S = 7200


class Hold(enum.StrEnum):
    """What holds a size back."""

    END = "end"
    """``down`` was asked: the size is 0 for good."""
    MANUAL = "manual"
    """A person set the size; the policy is not heard."""
    PAUSE = "pause"
    """Scaling is paused."""
    UNKNOWN = "unknown"
    """The policy has no answer, or no opinion: the present size is kept."""
    LIMITS = "limits"
    """The least and the most replicas that are allowed."""
    CEILING = "ceiling"
    """The most that a farm grants at present."""
    UP_WINDOW = "up_window"
    """Less was wanted within ``scaling.up.window``."""
    DOWN_WINDOW = "down_window"
    """More was wanted within ``scaling.down.window``."""
    DEMAND = "demand"
    """Requests waited for the last instance lately."""
    COOLDOWN = "cooldown"
    """The policy changed the size within ``scaling.cooldown``."""


@attrs.frozen
class SizeHold:
    """One thing that holds, in words."""

    by: Hold
    reason: str
    """Said after "held back by"."""
    until_s: float | None = None
    """Monotonic second at which it lets go if the wish stays; None: not by itself."""

    def said(self, now_s: float) -> str:
        """Return the reason, and the time left."""
        if self.until_s is None:
            return self.reason
        return f"{self.reason}, {in_words(self.until_s - now_s)} left"


def in_words(seconds: float) -> str:
    """Return a time to come, rounded up: in seconds up to ten minutes, then in minutes or hours."""
    whole = max(0, math.ceil(seconds))
    if whole < _IN_MINUTES_FROM_S:
        return f"{whole} s"
    if whole < _IN_HOURS_FROM_S:
        return f"{math.ceil(whole / 60)} min"
    return f"{math.ceil(whole / 3600)} h"
