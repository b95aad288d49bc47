"""Which instance gets a request. Pure."""

from collections.abc import Sequence
from typing import Protocol

__all__ = ["Busy", "choose"]


class Busy(Protocol):
    """Something that has requests in flight."""

    in_flight: int


def choose(slots: Sequence[Busy], turn: int, draw: float) -> int:
    """Return the index of the less busy of two; the one whose turn it is wins a tie.

    The turn alone spreads a single caller evenly; the draw alone keeps callers that know nothing of
    each other from running together to the idlest. The two are never the same one: whoever hangs
    would meet itself, and get one request in n². Cost does not grow with the fleet.

    Args:
        slots: Those that may get it; at least one.
        turn: A number that grows by one with each request.
        draw: A random number in [0, 1).
    """
    count = len(slots)
    first = turn % count
    second = (first + 1 + int(draw * (count - 1))) % count
    return second if slots[second].in_flight < slots[first].in_flight else first
