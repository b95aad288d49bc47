"""What keeps a fleet from the size that is wanted: each with its reason, and until when."""

import enum
import math

import attrs

__all__ = ["Held", "Hold"]


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
class Held:
    """One thing that holds, in words."""

    by: Hold
    reason: str
    until_s: float | None = None
    """Monotonic second at which it lets go if the wish stays; None: not by itself."""

    def said(self, now_s: float) -> str:
        """Return the reason, and the seconds left."""
        if self.until_s is None:
            return self.reason
        left_s = max(0, math.ceil(self.until_s - now_s))
        return f"{self.reason}; {left_s} s left"
