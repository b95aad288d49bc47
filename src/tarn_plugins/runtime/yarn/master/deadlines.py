"""What is late, and after how long; seconds."""

__all__ = ["END_HEARD_S", "QUICK_S", "STALE_AFTER_S", "STARVED_S"]

QUICK_S = 30.0
"""An instance that ends sooner, unasked, says something about its node."""
END_HEARD_S = 15.0
"""A stopped container's end is known within a few heartbeats; later, its message was lost."""
STARVED_S = 30.0
"""An ask that waited so long may be met by a node that is avoided only."""
STALE_AFTER_S = 180.0
"""NodeManagers that a restarted ResourceManager has not heard yet come back within this."""
