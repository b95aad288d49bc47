"""One client's view of the instances: how busy each is, and which to leave alone."""

import math
import random
import threading
from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Protocol

import attrs

from tarn.client.targets import ServiceAddress
from tarn.domain.affinity import ranked
from tarn.interfaces import Clock
from tarn.triton.answers import Culprit

__all__ = [
    "LONGEST_BACK_OFF_S",
    "MODEL_FAILURES",
    "SERVER_FAILURES",
    "UNREPEATED_AFTER_S",
    "Affine",
    "AnswerRecord",
    "Busy",
    "InstancePool",
    "PoolMember",
    "PooledConnection",
    "back_off_s",
    "choose",
    "enough",
    "room",
]

# Also for instances that refuse connections.
FIRST_BACK_OFF_S, LONGEST_BACK_OFF_S = 0.2, 5.0
# One may be chance. More would cost too much: if the process of a model is gone, each failure takes
# a second, and half of the requests go there.
SERVER_FAILURES = 2
# How long a trial waits for a request that may be repeated; after that, any request is one.
UNREPEATED_AFTER_S = 30.0
# If half of the requests of a caller are wrong, one in thirty meets this many by chance.
MODEL_FAILURES = 5


class AnswerRecord:
    """The recent answers of one model at one instance."""

    __slots__ = ("failed", "since_s", "times", "tried", "until_s", "well_s")

    def __init__(self) -> None:
        # Failures in a row by fault of the server or the model.
        self.failed = 0
        # The time of the first of them.
        self.since_s = 0.0
        # The time of the newest good answer.
        self.well_s = float("-inf")
        # How often in a row it was left alone; 0 if it is not.
        self.times = 0
        # The end of the present back-off.
        self.until_s = 0.0
        # Whether a trial is in flight.
        self.tried = False

    @property
    def alone(self) -> bool:
        """Whether it is left alone, or on trial."""
        return self.times > 0

    def may_get(self, now_s: float, *, repeats: bool = True) -> bool:
        """Return whether a request may go there; *repeats* says that it may be repeated."""
        until_s = self.until_s if repeats else self.until_s + UNREPEATED_AFTER_S
        return self.times == 0 or (until_s <= now_s and not self.tried)

    def try_out(self) -> None:
        """Begin a trial with one request; no other goes there until it ends."""
        self.tried = True

    def answered_well(self, now_s: float) -> None:
        """Count a good answer."""
        self.well_s = now_s
        self.let_back()

    def let_back(self) -> None:
        """Forget the bad answers."""
        self.failed, self.times, self.until_s, self.tried = 0, 0, 0.0, False

    def told_nothing(self) -> None:
        """Count an end that says nothing about the instance; another trial may follow."""
        self.tried = False

    def answered_badly(self, now_s: float) -> bool:
        """Count a bad answer; return False if it was in flight when the instance was left alone."""
        if self.failed == 0:
            self.since_s = now_s
        self.failed += 1
        return self.tried or self.may_get(now_s)

    def leave_alone(self, now_s: float) -> None:
        """Leave the instance alone, for longer each time."""
        self.until_s, self.tried = now_s + back_off_s(self.times), False
        self.times += 1


def enough(record: AnswerRecord, whose: Culprit, others: Iterable[AnswerRecord]) -> bool:
    """Return whether *record* has enough failures for the instance to be left alone.

    Args:
        record: The record of the instance, with the newest answer.
        whose: Whose fault the newest answer is, the server's or the model's.
        others: The records of the same model at the other instances.
    """
    if whose is Culprit.SERVER:
        return record.failed >= SERVER_FAILURES
    well = (other.well_s >= record.since_s for other in others)
    return whose is Culprit.MODEL and record.failed >= MODEL_FAILURES and any(well)


def room(alone: int, count: int) -> bool:
    """Return whether one more of *count* instances may be left alone if *alone* already are."""
    return 2 * (alone + 1) <= count


def back_off_s(times: int) -> float:
    """Return for how long to leave an instance alone after *times* times in a row."""
    return min(FIRST_BACK_OFF_S * 2.0 ** min(times, 10), LONGEST_BACK_OFF_S)


class Busy(Protocol):
    """Something that has requests in flight."""

    in_flight: int


def choose(slots: Sequence[Busy], turn: int, draw: float) -> int:
    """Return the index of the less busy of two instances; the first one wins a tie.

    Args:
        slots: The instances that may get the request; at least one.
        turn: A number that grows by one with each request; it gives the first of the two.
        draw: A random number in [0, 1); it gives the second.
    """
    # The turn spreads the requests of a single client evenly; the draw keeps clients that do not
    # know each other from all choosing the idlest. The two are never the same instance: one that
    # hangs would then still get one request in n². The cost does not grow with the fleet.
    count = len(slots)
    first = turn % count
    second = (first + 1 + int(draw * (count - 1))) % count
    return second if slots[second].in_flight < slots[first].in_flight else first


# One may be chance, such as a server that has just closed an idle connection.
CUTS_TO_EJECT = 2
# Idle connections to one instance.
MOST_KEPT = 128


class PooledConnection(Protocol):
    """An idle connection."""

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
        # Whether it has left the view: requests in flight end, and no new ones begin.
        self.gone = False
        # Connections that were cut since its last answer.
        self.cuts = 0
        # Refused connections in a row; 0 if it is not ejected.
        self.failures = 0
        # The end of the present ejection.
        self.until_s = 0.0
        # Whether one request is in flight to try if it is back.
        self.tried = False
        # Its answers by model.
        self.models: dict[str, AnswerRecord] = {}

    def alone_for(self, model: str) -> bool:
        """Return whether it is left alone for bad answers of *model*."""
        record = self.models.get(model)
        return record is not None and record.alone


@attrs.frozen
class Affine:
    """What a request has in common with others, which should get the same instance."""

    key: bytes
    home: PoolMember | None = None
    """The instance that had the last of them."""
    imbalance: int = 0
    """How much of the mean load that instance may have, in percent; 0: any."""

    def choose(self, slots: Sequence[PoolMember]) -> int:
        """Return the index of the instance in *slots*: the home, or the one of the hash."""
        if self.home in slots:
            return slots.index(self.home)
        order = ranked(self.key, [s.target.instance_id or s.target.address for s in slots])
        if not self.imbalance:
            return order[0]
        load = sum(slot.in_flight for slot in slots) + 1
        most = math.ceil(load * self.imbalance / 100 / len(slots))
        return next(number for number in order if slots[number].in_flight < most)


class InstancePool:
    """The instances that may get requests. Thread-safe; its only I/O is closing connections.

    Args:
        clock: Monotonic seconds.
        draw: Returns random numbers in [0, 1).
    """

    def __init__(self, clock: Clock, draw: Callable[[], float] = random.random) -> None:
        self._clock = clock
        self._draw = draw
        self._changed = threading.Condition(threading.Lock())
        self._lock = self._changed  # a condition is its lock
        self._slots: tuple[PoolMember, ...] = ()
        self._ejected = 0
        # Model -> how many instances are left alone for its bad answers.
        self._alone: dict[str, int] = {}
        self._failing: list[Callable[[str, str, int], None]] = []
        self._turn = int(draw() * 1000)  # clients that start together begin at different instances
        self._listeners: list[Callable[[], None]] = []
        self._closed = False

    @property
    def slots(self) -> tuple[PoolMember, ...]:
        """The instances in the view, including ejected ones."""
        return self._slots

    def listen(self, changed: Callable[[], None]) -> None:
        """Call *changed* after each change of the view, on the thread that changed it."""
        self._listeners.append(changed)

    def listen_to_failures(self, failing: Callable[[str, str, int], None]) -> None:
        """Call *failing* with (instance id, model, bad answers) when an instance is left alone.

        It is also called for each later bad answer that prolongs this. Connections that were cut
        count as bad answers. It is called on the thread of the request, and must not block.
        """
        self._failing.append(failing)

    def set_members(self, targets: Iterable[ServiceAddress]) -> None:
        """Make *targets* the whole view, and close idle connections to other instances."""
        wanted = sorted(set(targets))
        with self._lock:
            old = {slot.target: slot for slot in self._slots}
            self._slots = tuple(
                old.pop(target) if target in old else PoolMember(target) for target in wanted
            )
            # The master has seen the instances of a new view alive, so ejections for connections
            # end. Those for bad answers stay: an instance can be alive and fail.
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
        """Add *targets* without removing any, as an incomplete view requires."""
        self.set_members([*targets, *(slot.target for slot in self._slots)])

    def take(
        self,
        tried: Collection[PoolMember] = (),
        model: str = "",
        *,
        repeats: bool = True,
        affine: Affine | None = None,
    ) -> PoolMember | None:
        """Return an instance for a request, and count it as in flight; None if there is none.

        Args:
            tried: Instances that failed this request; they are chosen only if no other is left.
            model: The model of the request; empty if it is for none.
            repeats: Whether it may be repeated, and so may be a trial of an instance that was left
                alone.
            affine: What it has in common with others; None: nothing, so the load decides.
        """
        with self._lock:
            slots = self._slots
            if tried or self._ejected or self._alone.get(model):
                slots = self._allowed(tried, model, repeats=repeats)
            if not slots:
                return None
            # Not for a retry: an instance that always fails would always be the next in turn.
            if not tried:
                self._turn += 1
            if affine is None:
                slot = slots[choose(slots, self._turn, self._draw())]
            else:
                slot = slots[affine.choose(slots)]
            slot.in_flight += 1
            if slot.failures:  # one request is the trial; the others wait for its result
                slot.until_s, slot.tried = self._clock.now_s() + LONGEST_BACK_OFF_S, True
            if slot.alone_for(model):
                slot.models[model].try_out()
        return slot

    def take_this(self, slot: PoolMember) -> None:
        """Count a request in flight at *slot*, even after it left the view."""
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
        """Count the end of a request.

        Args:
            slot: Its instance.
            connection: Its connection, to be kept for another request; None if it is closed.
            answered: Whether there was an answer, good or bad.
            model: The model of the request; empty if it was for none.
            whose: Whose fault a bad or a late answer is; None if the answer is good, or the
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
        """Count a cut connection to *slot*, on a request for *model*; several eject it.

        The listeners are called too, since Triton's counters do not show such failures.
        """
        with self._lock:
            slot.cuts += 1
            cuts = slot.cuts
        if cuts >= CUTS_TO_EJECT:
            self.eject(slot)
            if model:
                self._tell(slot, model, cuts if cuts == CUTS_TO_EJECT else 1)

    def lost(self, slot: PoolMember, model: str, *, connected: bool) -> None:
        """Count that *slot* did not answer a request that no other instance can answer."""
        if connected:
            self.cut(slot, model)
        else:
            self.eject(slot)

    def _tell(self, slot: PoolMember, model: str, failures: int) -> None:
        for failing in self._failing:
            failing(slot.target.instance_id, model, failures)

    def eject(self, slot: PoolMember) -> None:
        """Leave *slot* alone, for longer each time, or until the view changes."""
        with self._lock:
            alone = slot.failures > 0 and slot.until_s > self._clock.now_s()
            if alone and not slot.tried:  # the request was in flight before the ejection
                return
            slot.tried = False
            if slot.failures == 0 and not slot.gone:
                self._ejected += 1
            slot.until_s = self._clock.now_s() + back_off_s(slot.failures)
            slot.failures += 1

    def wait(self, limit_s: float) -> None:
        """Wait until the view changes or an ejection ends, at most *limit_s*.

        A closed pool does not wait, since there will be no new view.
        """
        with self._changed:
            if not self._closed and not self._allowed((), ""):
                self._changed.wait(self.pause_s(limit_s))

    def pause_s(self, limit_s: float) -> float:
        """Return how long to wait, at most *limit_s*, until the next ejection ends."""
        now_s = self._clock.now_s()
        ends = [slot.until_s - now_s for slot in self._slots if slot.failures]
        return max(0.01, min([limit_s, *ends]))

    def close(self) -> None:
        """Remove every instance, close idle connections, and wake waiting requests."""
        self._closed = True
        self.set_members(())

    def _allowed(
        self, tried: Collection[PoolMember], model: str, *, repeats: bool = True
    ) -> tuple[PoolMember, ...]:
        """Return the instances that may get a request, the best group that is not empty."""
        now_s = self._clock.now_s()
        sound = tuple(s for s in self._slots if not s.failures or s.until_s <= now_s)
        well = tuple(
            s
            for s in sound
            if model not in s.models or s.models[model].may_get(now_s, repeats=repeats)
        )
        return tuple(s for s in well if s not in tried) or well or sound

    def _judge(self, slot: PoolMember, model: str, whose: Culprit | None, *, answered: bool) -> int:
        """Count the end of a request for *model* at *slot*.

        Returns:
            The number of bad answers if *slot* is now left alone for them, else 0.
        """
        well = answered and whose is None
        if not well and whose not in (Culprit.SERVER, Culprit.MODEL):
            # No record is made for such an end: callers could invent names of models.
            if model in slot.models:
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
        """Return whether *slot* may be left alone for its newest answer, which is bad."""
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
        """Let instances back if too many of a changed view are left alone."""
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
