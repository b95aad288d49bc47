"""How often a value was how large: what Prometheus calls a histogram. Pure."""

from bisect import bisect_left

import attrs

__all__ = ["Histogram"]


@attrs.frozen
class Histogram:
    """Counts by upper bound; a new one is made for each value."""

    bounds: tuple[float, ...]
    """Rising; a value counts in the first that is no smaller, or beyond them all."""
    counts: tuple[int, ...] = attrs.field()
    """One for each bound, and one more for what is beyond."""
    total: float = 0.0
    """The sum of all values."""

    @counts.default
    def _empty(self) -> tuple[int, ...]:
        return (0,) * (len(self.bounds) + 1)

    @property
    def count(self) -> int:
        """How many values there were."""
        return sum(self.counts)

    def seen(self, value: float) -> "Histogram":
        """Return it with one more *value*; one below 0 counts as 0."""
        value = max(0.0, value)
        place = bisect_left(self.bounds, value)
        counts = (*self.counts[:place], self.counts[place] + 1, *self.counts[place + 1 :])
        return attrs.evolve(self, counts=counts, total=self.total + value)
