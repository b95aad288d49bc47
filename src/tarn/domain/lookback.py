"""What the policy wished lately: how far back a scaling direction looks. Pure.

Two monotonic queues, one for the least and one for the greatest of a sliding window: each wish
enters and leaves a queue once, so a tick costs the same however long the windows are.
"""

from bisect import bisect_right
from collections.abc import Callable
from operator import ge, le

import attrs

from tarn.domain.scaling import Wish

__all__ = ["Lookback", "PastSize"]


@attrs.frozen
class PastSize:
    """A size that was wished, or kept where nothing was, and until when that held."""

    replicas: int
    until_s: float


@attrs.frozen
class Lookback:
    """The wish in force, and those before it as far as they still matter."""

    wish: Wish | None = None
    """None: there is no opinion, or none that counts; that is a wish for the present size."""
    least: tuple[PastSize, ...] = ()
    """Oldest first, each greater than the one before it."""
    greatest: tuple[PastSize, ...] = ()
    """Oldest first, each less than the one before it."""
    silent_s: float | None = None
    """Since when there has been no opinion, while the wish before still counts as in force."""

    @classmethod
    def began(cls, replicas: int, at_s: float) -> "Lookback":
        """Return one that begins with the size there was at *at_s*, and no opinion."""
        first = (PastSize(replicas, at_s),)
        return cls(None, first, first)

    def heard(
        self, wish: Wish | None, present: int, now_s: float, up_s: float, down_s: float
    ) -> "Lookback":
        """Return it with *wish* in force from now on.

        A wish holds until the next one comes, so the one before ends now; the very same one again
        is no news.

        Args:
            wish: The policy's; None where it has no opinion, or where none counts.
            present: The size that counts where there was no opinion.
            now_s: Monotonic seconds.
            up_s: How far back growing looks.
            down_s: How far back shrinking looks.
        """
        before = self.wish
        if wish is before and self.silent_s is None:
            return self
        least, greatest = _within(self.least, now_s, up_s), _within(self.greatest, now_s, down_s)
        if wish is None or before is None or wish.replicas != before.replicas:
            held = present if before is None or before.replicas is None else before.replicas
            past = PastSize(held, now_s)
            least = _pushed(least, past, ge) if up_s else ()
            greatest = _pushed(greatest, past, le) if down_s else ()
        return Lookback(wish, least, greatest)

    def unheard(self, now_s: float) -> "Lookback":
        """Return it without an opinion for a moment: what was wished is in force still."""
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
    """Return *queue* without what ended before the window."""
    old = 0
    while old < len(queue) and queue[old].until_s + window_s <= now_s:
        old += 1
    return queue[old:] if old else queue


def _pushed(
    queue: tuple[PastSize, ...], past: PastSize, hides: Callable[[int, int], bool]
) -> tuple[PastSize, ...]:
    """Return *queue* with *past*, and without what that hides for as long as it counts."""
    left = len(queue)
    while left and hides(queue[left - 1].replicas, past.replicas):
        left -= 1
    return (*queue[:left], past)


def _first(queue: tuple[PastSize, ...], now_s: float, window_s: float, otherwise: int) -> int:
    return next((p.replicas for p in queue if p.until_s + window_s > now_s), otherwise)
