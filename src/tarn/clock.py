"""The real clock."""

import time

__all__ = ["SystemClock"]


class SystemClock:
    """Monotonic and wall time of this machine."""

    def now_s(self) -> float:
        """Return monotonic seconds; they do not pass while a machine sleeps."""
        return time.monotonic()

    def at(self) -> float:
        """Return Unix seconds, UTC."""
        return time.time()
