"""Things that happened, and how equal ones are counted instead of repeated."""

import attrs

__all__ = ["Event", "aggregate"]

AGGREGATE_WITHIN_S = 600.0
"""Equal events (code, subject, message) this close together become one with a count."""


@attrs.frozen
class Event:
    """One kind of happening to one subject."""

    code: str
    """``TARN-nnnn``; its severity and meaning stand in ``tarn.domain.codes``."""
    subject: str
    """Instance id, provider or cluster name."""
    message: str
    first: float
    """Wall time, Unix seconds."""
    last: float
    count: int = 1


def aggregate(events: tuple[Event, ...], new: Event, *, keep: int = 500) -> tuple[Event, ...]:
    """Return *events* with *new* counted in or appended; the oldest beyond *keep* are dropped."""
    for index in range(len(events) - 1, max(-1, len(events) - 50), -1):
        old = events[index]
        same = (old.code, old.subject, old.message) == (new.code, new.subject, new.message)
        if same and new.first - old.last <= AGGREGATE_WITHIN_S:
            merged = attrs.evolve(old, last=new.last, count=old.count + new.count)
            return (*events[:index], *events[index + 1 :], merged)
    return (*events, new)[-keep:]
