"""What one client knows of the instances: how busy each is, and which to leave alone."""

import random
import threading
from collections import deque
from collections.abc import Callable, Collection, Iterable
from typing import Protocol

from tarn.client.choosing import choose
from tarn.client.ejecting import LONGEST_BACK_OFF_S, AnswerRecord, back_off_s, enough, room
from tarn.client.targets import ServiceAddress
from tarn.interfaces import Clock
from tarn.triton.answers import Culprit

__all__ = ["InstancePool", "PoolMember", "PooledConnection"]

CUTS_TO_EJECT = 2
"""One may be chance: a server that closed an idle connection just then."""
MOST_KEPT = 128
"""Idle connections to one instance."""


class PooledConnection(Protocol):
    """A connection that waits for its next request."""

    def close(self) -> None:
        """Close it; never blocks, idempotent."""


class PoolMember:
    """One instance as this client sees it. Its attributes belong to the `InstancePool`."""

    __slots__ = (
        "cuts", "failures", "gone", "idle", "in_flight", "models", "target", "tried", "until_s",
    )  # fmt: skip

    def __init__(self, target: ServiceAddress) -> None:
        self.target = target
        self.in_flight = 0
        self.idle: deque[PooledConnection] = deque()
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
        self.models: dict[str, AnswerRecord] = {}
        """What each model answered there."""

    def alone_for(self, model: str) -> bool:
        """Return whether it was left alone for what *model* answered, and has not answered well."""
        record = self.models.get(model)
        return record is not None and record.alone


class InstancePool:
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
        self._slots: tuple[PoolMember, ...] = ()
        self._ejected = 0
        self._alone: dict[str, int] = {}
        """How many are left alone for what a model answered."""
        self._failing: list[Callable[[str, str, int], None]] = []
        self._turn = int(draw() * 1000)  # clients that start together begin elsewhere
        self._listeners: list[Callable[[], None]] = []
        self._closed = False

    @property
    def slots(self) -> tuple[PoolMember, ...]:
        """Those in the view, ejected ones included."""
        return self._slots

    def listen(self, changed: Callable[[], None]) -> None:
        """Call *changed* after each change of the view, on the thread that brought it."""
        self._listeners.append(changed)

    def listen_to_failures(self, failing: Callable[[str, str, int], None]) -> None:
        """Call *failing* with (instance id, model, how many bad answers) when one is left alone.

        Connections that were cut count as bad answers. It is also called with each bad answer by
        which the instance stays left alone. On the thread of that request; must not block.
        """
        self._failing.append(failing)

    def set_members(self, targets: Iterable[ServiceAddress]) -> None:
        """Take *targets* as the whole view; the idle connections to others are closed at once.

        Every ejection for connections ends: who is in a newer view was seen alive. Those for bad
        answers do not, since who fails its users is alive.
        """
        wanted = sorted(set(targets))
        with self._lock:
            old = {slot.target: slot for slot in self._slots}
            self._slots = tuple(
                old.pop(target) if target in old else PoolMember(target) for target in wanted
            )
            self._ejected = 0
            for slot in self._slots:
                slot.cuts, slot.failures, slot.until_s, slot.tried = 0, 0, 0.0, False
            closing: list[PooledConnection] = []
            for slot in old.values():
                slot.gone = True
                closing += slot.idle
                slot.idle.clear()
            self._keep_half()
            self._changed.notify_all()
        for connection in closing:
            connection.close()
        for changed in tuple(self._listeners):
            changed()

    def add(self, targets: Iterable[ServiceAddress]) -> None:
        """Add *targets*, and remove nothing: an incomplete view is obeyed so."""
        self.set_members([*targets, *(slot.target for slot in self._slots)])

    def take(
        self, tried: Collection[PoolMember] = (), model: str = "", *, repeats: bool = True
    ) -> PoolMember | None:
        """Return an instance for one more request, which is then in flight; None: there is none.

        Args:
            tried: Those that failed this request already; one of them only when no other is left.
            model: Which model it is for; empty: for none.
            repeats: It may be repeated elsewhere; then it may try out whether one that was left
                alone answers well again.
        """
        with self._lock:
            slots = self._slots
            if tried or self._ejected or self._alone.get(model):
                slots = self._allowed(tried, model, repeats=repeats)
            if not slots:
                return None
            if not tried:  # or one that fails each time would have its turn each time
                self._turn += 1
            slot = slots[choose(slots, self._turn, self._draw())]
            slot.in_flight += 1
            if slot.failures:  # one request tries it out; the others wait for what becomes of it
                slot.until_s, slot.tried = self._clock.now_s() + LONGEST_BACK_OFF_S, True
            if slot.alone_for(model):  # the same
                slot.models[model].try_out()
        return slot

    def take_this(self, slot: PoolMember) -> None:
        """Count one more request in flight there, even after it left the view."""
        with self._lock:
            slot.in_flight += 1

    def give_back(
        self,
        slot: PoolMember,
        connection: PooledConnection | None,
        *,
        answered: bool,
        model: str = "",
        whose: Culprit | None = None,
    ) -> None:
        """Say that a request ended, and whether with an answer; *connection* may carry another.

        Args:
            slot: Where it was.
            connection: It may carry another request; None: there is none left.
            answered: There was an answer, good or bad.
            model: The model that was asked; empty: none was.
            whose: Whose fault a bad answer is, or that none came in time; None: it was good, or the
                connection ended.
        """
        failures = 0
        with self._lock:
            slot.in_flight -= 1
            if connection is not None and not slot.gone and len(slot.idle) < MOST_KEPT:
                slot.idle.append(connection)
                connection = None
            if answered and (slot.failures or slot.cuts):
                self._absolve(slot)
            if model and not slot.gone:
                failures = self._judge(slot, model, whose, answered=answered)
        if connection is not None:
            connection.close()
        if failures:
            self._tell(slot, model, failures)

    def cut(self, slot: PoolMember, model: str = "") -> None:
        """Note that a connection to *slot*, which asked *model*, was cut.

        An instance that does so again and again is left alone, and the listeners hear of it: such
        failures stand in no counter of Triton.
        """
        with self._lock:
            slot.cuts += 1
            cuts = slot.cuts
        if cuts >= CUTS_TO_EJECT:
            self.eject(slot)
            if model:
                self._tell(slot, model, cuts if cuts == CUTS_TO_EJECT else 1)

    def _tell(self, slot: PoolMember, model: str, failures: int) -> None:
        for failing in self._failing:
            failing(slot.target.instance_id, model, failures)

    def eject(self, slot: PoolMember) -> None:
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
            slot.until_s = self._clock.now_s() + back_off_s(slot.failures)
            slot.failures += 1

    def wait(self, limit_s: float) -> None:
        """Return after *limit_s*, or sooner: when the view changed, or an ejection ended.

        At once where it is closed: no view comes any more.
        """
        with self._changed:
            if not self._closed and not self._allowed((), ""):
                self._changed.wait(self.pause_s(limit_s))

    def pause_s(self, limit_s: float) -> float:
        """Return how long to wait at most until something may be different."""
        now_s = self._clock.now_s()
        ends = [slot.until_s - now_s for slot in self._slots if slot.failures]
        return max(0.01, min([limit_s, *ends]))

    def close(self) -> None:
        """Forget every instance, close what is idle, and wake whoever waits."""
        self._closed = True
        self.set_members(())

    def _allowed(
        self, tried: Collection[PoolMember], model: str, *, repeats: bool = True
    ) -> tuple[PoolMember, ...]:
        """Return who may get a request: one that answers badly only where there is no other."""
        now_s = self._clock.now_s()
        sound = tuple(s for s in self._slots if not s.failures or s.until_s <= now_s)
        well = tuple(
            s
            for s in sound
            if model not in s.models or s.models[model].may_get(now_s, repeats=repeats)
        )
        return tuple(s for s in well if s not in tried) or well or sound

    def _judge(self, slot: PoolMember, model: str, whose: Culprit | None, *, answered: bool) -> int:
        """Take the end of a request for *model* at *slot*.

        Returns:
            The bad answers for which it is left alone by this one; else 0.
        """
        well = answered and whose is None
        if not well and whose not in (Culprit.SERVER, Culprit.MODEL):
            if model in slot.models:  # no others are begun: callers invent names
                slot.models[model].told_nothing()
            return 0
        record, now_s = slot.models.setdefault(model, AnswerRecord()), self._clock.now_s()
        if whose is None:
            if record.alone:
                self._let_back(record, model)
            record.answered_well(now_s)
            return 0
        if not record.answered_badly(now_s):
            return 0
        told = 1 if record.alone else record.failed
        if not record.alone:
            if not self._may_leave(slot, model, record, whose):
                return 0
            self._alone[model] = self._alone.get(model, 0) + 1
        record.leave_alone(now_s)
        return told

    def _may_leave(
        self, slot: PoolMember, model: str, record: AnswerRecord, whose: Culprit
    ) -> bool:
        """Say whether *slot* may be left alone for its newest answer, which is bad."""
        others = [s for s in self._slots if s is not slot]
        records = (s.models[model] for s in others if model in s.models)
        if not enough(record, whose, records):
            return False
        return room(sum(s.failures > 0 or s.alone_for(model) for s in others), len(self._slots))

    def _let_back(self, record: AnswerRecord, model: str) -> None:
        self._alone[model] -= 1
        record.let_back()
        self._changed.notify_all()

    def _keep_half(self) -> None:
        """Count who is left alone in a view that changed, and let back who are too many."""
        for model in self._alone:
            alone = [s.models[model] for s in self._slots if s.alone_for(model)]
            self._alone[model] = len(alone)
            alone.sort(key=lambda record: record.until_s)
            while alone and not room(len(alone) - 1, len(self._slots)):
                self._let_back(alone.pop(0), model)

    def _absolve(self, slot: PoolMember) -> None:
        slot.cuts = 0
        if slot.failures and not slot.gone:
            self._ejected -= 1
            self._changed.notify_all()
        slot.failures, slot.until_s, slot.tried = 0, 0.0, False
