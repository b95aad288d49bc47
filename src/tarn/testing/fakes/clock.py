"""A clock that stands until it is moved."""

import threading

__all__ = ["FakeClock"]


class FakeClock:
    """Time that passes only by `advance`; usable from any thread.

    Args:
        now_s: Monotonic seconds at the start.
        at: Wall time at the start, Unix seconds.
    """

    def __init__(self, now_s: float = 1000.0, at: float = 1_700_000_000.0) -> None:
        self._lock = threading.Lock()
        self._now_s = now_s
        self._at = at

    def now_s(self) -> float:
        """Return monotonic seconds."""
        with self._lock:
            return self._now_s

    def at(self) -> float:
        """Return wall time, Unix seconds."""
        with self._lock:
            return self._at

    def advance(self, by_s: float) -> None:
        """Let *by_s* seconds pass on both clocks; a negative number is a ``ValueError``."""
        if by_s < 0:
            raise ValueError(f"time does not go back: {by_s!r} s")
        with self._lock:
            self._now_s += by_s
            self._at += by_s

    def jump(self, at: float) -> None:
        """Set the wall time, as an administrator might; the monotonic one goes on."""
        with self._lock:
            self._at = at
