"""Decide which port is looked at next, so that one master looks at any number evenly. Sans I/O.

Up to 3,000 ports, those of 1,500 instances, each port is looked at once in the usual interval. With
more, the interval grows in proportion, so that the work of a second stays the same. What matters
sooner (an instance that starts, drains or is doubted) is looked at more often, but all of it
together at most so often that the others hardly notice.
"""

import enum
import heapq
from collections import Counter
from collections.abc import Hashable
from typing import Generic, TypeVar

import attrs

__all__ = ["LookQueue", "LookStatus", "Pace"]

K = TypeVar("K", bound=Hashable)

LOOKS_A_SECOND = 3000
"""Usual looks of all ports together: two ports of each of 1,500 instances."""
HURRIED_A_SECOND = 300
"""Looks of all ports of one faster pace together."""
STARTING_S = 0.1
"""Between two looks at an instance that starts."""

# The golden ratio: its multiples modulo 1 fill an interval evenly for any number of ports.
_GOLDEN = 0.6180339887


class Pace(enum.Enum):
    """How often a port is looked at."""

    USUAL = "usual"
    SOON = "soon"
    """Not less often because the fleet is large: it drains, or is doubted."""
    STARTING = "starting"


@attrs.frozen
class LookStatus:
    """How often the master looks, and whether it manages to."""

    interval_s: float
    """Between two looks at an instance."""
    behind_s: float = 0.0
    """For how long looks have come later than a whole interval; 0: they do not."""


@attrs.define(eq=False)
class _PortTurn:
    due_s: float
    """When it is due, apart from an early look."""
    pace: Pace
    phase: float
    """Where in an interval its looks lie, 0 to 1, when many begin together."""
    spread: bool = True
    """Its next wait ends at its phase, as its last look may have come together with others."""
    looking: bool = False
    had_early: bool = False
    """An early look was asked for since the last one that was due."""
    again: bool = False
    """It was asked for while a look was under way."""
    early: bool = False
    """The present or the next look is that one."""
    turn: int = 0
    """The number of its valid line in the heap."""


class LookQueue(Generic[K]):
    """The ports to look at, by when they are due; times are the caller's monotonic seconds.

    Args:
        each_s: The usual interval of a fleet that is not large.
    """

    def __init__(self, each_s: float) -> None:
        self._each_s = each_s
        self._entries: dict[K, _PortTurn] = {}
        self._heap: list[tuple[float, int, K]] = []
        self._paces: Counter[Pace] = Counter()
        self._turns = self._added = 0

    def __len__(self) -> int:
        """Return how many ports there are."""
        return len(self._entries)

    @property
    def interval_s(self) -> float:
        """The time between two usual looks at one port."""
        return max(self._each_s, len(self._entries) / LOOKS_A_SECOND)

    @property
    def due_s(self) -> float | None:
        """When the next port is due; None: none will be before a look has ended."""
        heap = self._heap
        while heap and not self._is_valid(heap[0]):
            heapq.heappop(heap)
        return heap[0][0] if heap else None

    def add(self, key: K, now_s: float, pace: Pace = Pace.USUAL) -> None:
        """Look at *key* from now on."""
        self._added += 1
        phase = self._added * _GOLDEN % 1.0
        self._entries[key] = entry = _PortTurn(now_s, pace, phase)
        self._paces[pace] += 1
        self._put(key, entry, now_s)

    def remove(self, key: K) -> None:
        """Look at *key* no more."""
        entry = self._entries.pop(key, None)
        if entry is not None:
            self._paces[entry.pace] -= 1

    def set_pace(self, key: K, pace: Pace, now_s: float) -> None:
        """Look at *key* in this *pace* from now on."""
        entry = self._entries.get(key)
        if entry is None or entry.pace is pace:
            return
        self._paces[entry.pace] -= 1
        self._paces[pace] += 1
        before_s, entry.pace = self._interval_of(entry.pace), pace
        faster = self._interval_of(pace) < before_s
        entry.spread = not faster
        if faster and not entry.looking:
            entry.due_s = min(entry.due_s, now_s + self._interval_of(pace))
            if not entry.early:
                self._put(key, entry, entry.due_s)

    def hasten(self, key: K, now_s: float) -> None:
        """Look at *key* at once; only the first time between two looks that are due."""
        # Some servers close the connection after each answer, which asks for a look each time.
        entry = self._entries.get(key)
        if entry is None or entry.had_early:
            return
        entry.had_early = True
        if entry.looking:
            entry.again = True
        else:
            entry.early = True
            self._put(key, entry, now_s)

    def take(self, now_s: float, most: int) -> list[K]:
        """Return at most *most* ports that are due, the latest first; their looks begin now."""
        taken: list[K] = []
        while len(taken) < most and (due_s := self.due_s) is not None and due_s <= now_s:
            _, _, key = heapq.heappop(self._heap)
            self._entries[key].looking = True
            taken.append(key)
        return taken

    def done(self, key: K, now_s: float) -> None:
        """Note that the look at *key* has ended."""
        entry = self._entries.get(key)
        if entry is None or not entry.looking:
            return
        entry.looking = False
        if entry.early:
            entry.early = False
            self._put(key, entry, max(entry.due_s, now_s))
            return
        each_s = self._interval_of(entry.pace)
        wait_s = each_s * entry.phase if entry.spread else each_s
        # A look that took long, or came late, is not made up for by several.
        entry.due_s, entry.spread = max(entry.due_s + wait_s, now_s + wait_s / 4), False
        entry.had_early = entry.early = entry.again
        entry.again = False
        self._put(key, entry, now_s if entry.early else entry.due_s)

    def _interval_of(self, pace: Pace) -> float:
        usual_s = self.interval_s
        if pace is Pace.USUAL:
            return usual_s
        least_s = min(STARTING_S, self._each_s) if pace is Pace.STARTING else self._each_s
        return min(usual_s, max(least_s, self._paces[pace] / HURRIED_A_SECOND))

    def _put(self, key: K, entry: _PortTurn, at_s: float) -> None:
        self._turns += 1
        entry.turn = self._turns
        heapq.heappush(self._heap, (at_s, self._turns, key))

    def _is_valid(self, line: tuple[float, int, K]) -> bool:
        entry = self._entries.get(line[2])
        return entry is not None and entry.turn == line[1] and not entry.looking
