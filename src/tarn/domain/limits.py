"""The bounds of a fleet's size."""

import attrs

__all__ = ["Limits"]


@attrs.frozen
class Limits:
    """How many replicas a cluster may have, and who says so."""

    min: int
    """Fewest replicas; 0 lets the cluster sleep."""
    max: int
    """Most replicas that the user allows."""
    ceiling: int | None = None
    """Most replicas that a farm grants at present; None without a farm."""
    ceiling_reason: str = ""
    """Why the ceiling is where it is, in words."""
    expires_at: float | None = None
    """Wall time (Unix seconds) at which the ceiling's lease ends; None: never."""

    def clamp(self, wanted: int) -> int:
        """Return *wanted* moved into the bounds; a ceiling below ``min`` wins."""
        top = self.max if self.ceiling is None else min(self.max, self.ceiling)
        return min(max(wanted, self.min), top)
