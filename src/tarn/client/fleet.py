"""What one client knows of the instances: how busy each is, and which to leave alone."""

import random
import threading
from collections import deque
from collections.abc import Callable, Collection, Iterable
from typing import Protocol

from tarn.client.choosing import choose
from tarn.client.targets import Target
from tarn.interfaces import Clock

__all__ = ["Fleet", "Kept", "Slot"]

FIRST_BACK_OFF_S, LONGEST_BACK_OFF_S = 0.2, 5.0
CUTS_TO_EJECT = 2
"""One may be chance: a server that closed an idle connection just then."""
MOST_KEPT = 128
"""Idle connections to one instance."""


class Kept(Protocol):
    """A connection that waits for its next request."""

    def close(self) -> None:
        """Close it; never blocks, idempotent."""


class Slot:
    """One instance as this client sees it. Its attributes belong to the `Fleet`."""

    __slots__ = ("cuts", "failures", "gone", "idle", "in_flight", "target", "tried", "until_s")

    def __init__(self, target: Target) -> None:
        self.target = target
        self.in_flight = 0
        self.idle: deque[Kept] = deque()
        self.gone = False
        """Left the view: what is in flight ends, nothing new begins."""
        self.cuts = 0
        """Connections that were cut since its last answer."""
        self.failures = 0
        """Refused connections in a row; 0: not ejected."""
        self.until_s = 0.0
        """Until when it is left alone."""
        self.tried = False
        """One request tries out whether it is back."""


class Fleet:
    """The instances that may get requests. Thread-safe; nothing here does I/O but closing.

    Args:
        clock: Monotonic seconds.
        draw: Makes random numbers in [0, 1).
    """

    def __init__(self, clock: Clock, draw: Callable[[], float] = random.random) -> None:
        self._clock = clock
        self._draw = draw
        self._changed = threading.Condition(threading.Lock())
        self._lock = self._changed  # a condition is its lock
        self._slots: tuple[Slot, ...] = ()
        self._ejected = 0
        self._turn = int(draw() * 1000)  # clients that start together begin elsewhere
        self._listeners: list[Callable[[], None]] = []
        self._closed = False

    @property
    def slots(self) -> tuple[Slot, ...]:
        """Those in the view, ejected ones included."""
        return self._slots

    def listen(self, changed: Callable[[], None]) -> None:
        """Call *changed* after each change of the view, on the thread that brought it."""
        self._listeners.append(changed)

    def obey(self, targets: Iterable[Target]) -> None:
        """Take *targets* as the whole view; the idle connections to others are closed at once.

        Every ejection ends: who is in a newer view was seen alive.
        """
        wanted = sorted(set(targets))
        with self._lock:
            old = {slot.target: slot for slot in self._slots}
            self._slots = tuple(
                old.pop(target) if target in old else Slot(target) for target in wanted
            )
            self._ejected = 0
            for slot in self._slots:
                slot.cuts, slot.failures, slot.until_s, slot.tried = 0, 0, 0.0, False
            closing: list[Kept] = []
            for slot in old.values():
                slot.gone = True
                closing += slot.idle
                slot.idle.clear()
            self._changed.notify_all()
        for connection in closing:
            connection.close()
        for changed in tuple(self._listeners):
            changed()

    def add(self, targets: Iterable[Target]) -> None:
        """Add *targets*, and remove nothing: an incomplete view is obeyed so."""
        self.obey([*targets, *(slot.target for slot in self._slots)])

    def take(self, tried: Collection[Slot] = ()) -> Slot | None:
        """Return an instance for one more request, which is then in flight; None: there is none.

        Args:
            tried: Those that failed this request already; one of them only when no other is left.
        """
        with self._lock:
            slots = self._slots
            if tried or self._ejected:
                slots = self._allowed(tried)
            if not slots:
                return None
            if not tried:  # or one that fails each time would have its turn each time
                self._turn += 1
            slot = slots[choose(slots, self._turn, self._draw())]
            slot.in_flight += 1
            if slot.failures:  # one request tries it out; the others wait for what becomes of it
                slot.until_s, slot.tried = self._clock.now_s() + LONGEST_BACK_OFF_S, True
        return slot

    def take_this(self, slot: Slot) -> None:
        """Count one more request in flight there, even after it left the view."""
        with self._lock:
            slot.in_flight += 1

    def give_back(self, slot: Slot, connection: Kept | None, *, answered: bool) -> None:
        """Say that a request ended, and whether with an answer; *connection* may carry another."""
        with self._lock:
            slot.in_flight -= 1
            if connection is not None and not slot.gone and len(slot.idle) < MOST_KEPT:
                slot.idle.append(connection)
                connection = None
            if answered and (slot.failures or slot.cuts):
                self._absolve(slot)
        if connection is not None:
            connection.close()

    def cut(self, slot: Slot) -> None:
        """Note that a connection to *slot* was cut; who does it again and again is left alone."""
        with self._lock:
            slot.cuts += 1
            often = slot.cuts >= CUTS_TO_EJECT
        if often:
            self.eject(slot)

    def eject(self, slot: Slot) -> None:
        """Leave *slot* alone, for longer each time, or until the view changes.

        One that is left alone already fails no more by what was in flight there before.
        """
        with self._lock:
            alone = slot.failures > 0 and slot.until_s > self._clock.now_s()
            if alone and not slot.tried:
                return
            slot.tried = False
            if slot.failures == 0 and not slot.gone:
                self._ejected += 1
            back_off_s = FIRST_BACK_OFF_S * 2.0 ** min(slot.failures, 10)
            slot.failures += 1
            slot.until_s = self._clock.now_s() + min(back_off_s, LONGEST_BACK_OFF_S)

    def wait(self, limit_s: float) -> None:
        """Return after *limit_s*, or sooner: when the view changed, or an ejection ended.

        At once where it is closed: no view comes any more.
        """
        with self._changed:
            if not self._closed and not self._allowed(()):
                self._changed.wait(self.pause_s(limit_s))

    def pause_s(self, limit_s: float) -> float:
        """Return how long to wait at most until something may be different."""
        now_s = self._clock.now_s()
        ends = [slot.until_s - now_s for slot in self._slots if slot.failures]
        return max(0.01, min([limit_s, *ends]))

    def close(self) -> None:
        """Forget every instance, close what is idle, and wake whoever waits."""
        self._closed = True
        self.obey(())

    def _allowed(self, tried: Collection[Slot]) -> tuple[Slot, ...]:
        now_s = self._clock.now_s()
        sound = tuple(s for s in self._slots if not s.failures or s.until_s <= now_s)
        return tuple(s for s in sound if s not in tried) or sound

    def _absolve(self, slot: Slot) -> None:
        slot.cuts = 0
        if slot.failures and not slot.gone:
            self._ejected -= 1
            self._changed.notify_all()
        slot.failures, slot.until_s, slot.tried = 0, 0.0, False
