"""How the work of a master ended."""

import enum

__all__ = ["ControlResult"]


class ControlResult(enum.StrEnum):
    """How the work of a control thread ended."""

    LEFT = "left"
    """Asked to leave: the fleet stays."""
    ENDED = "ended"
    """The cluster was ended, and nothing of it runs."""
    SUPERSEDED = "superseded"
    """A newer master is at work: nothing was touched."""
    FAILED = "failed"
    """The runtime's own work ended by an error: the fleet stays, for the next master."""
