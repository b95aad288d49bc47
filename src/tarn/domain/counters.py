"""What instances count since their start, and how much that grew between two looks. Pure."""

from collections.abc import Mapping

import attrs

__all__ = ["Counters", "Growth", "after", "grew"]


@attrs.frozen
class Counters:
    """What one Triton, or one model in it, counted since its start."""

    requests: float = 0.0
    """That succeeded."""
    failures: float = 0.0
    request_us: float = 0.0
    """Microseconds from arrival to answer, summed over those that succeeded."""

    def plus(self, other: "Counters") -> "Counters":
        """Return the sum of both."""
        return Counters(
            self.requests + other.requests,
            self.failures + other.failures,
            self.request_us + other.request_us,
        )


@attrs.frozen
class Growth:
    """What was counted in *seconds* seconds."""

    seconds: float
    counters: Counters = attrs.field(factory=Counters)

    def plus(self, other: "Growth | None") -> "Growth":
        """Return both together; None adds nothing, not even time."""
        if other is None:
            return self
        return Growth(self.seconds + other.seconds, self.counters.plus(other.counters))


def grew(before: Counters, now: Counters) -> Counters:
    """Return what *now* has more than *before*.

    Counters that are lower than they were began again: all that they say is new.
    """
    if now.requests < before.requests or now.failures < before.failures:
        return now
    return Counters(
        now.requests - before.requests,
        now.failures - before.failures,
        max(0.0, now.request_us - before.request_us),
    )


def after(
    before: Mapping[str, Counters], now: Mapping[str, Counters | None]
) -> Mapping[str, Counters]:
    """Return the newest counters that are known of each in *now*; the others are forgotten."""
    newest = {key: said or before.get(key) for key, said in now.items()}
    return {key: said for key, said in newest.items() if said is not None}
