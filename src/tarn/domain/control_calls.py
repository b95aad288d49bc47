"""Control calls: which model, trace and log calls each instance must have had. Pure.

The *wanted calls* are the newest call for each thing that can be changed: each model, the trace
settings of all models or of one, the log settings. TARN keeps the calls, not their effects, and
sends each of them to each instance once. So a reload reaches every instance once, and TARN does
not undo what a person changes in one Triton by hand.

Triton 2.51 behaves as follows (measured). It answers a load when the model is READY or has failed.
A second load of the same model loads it again, and the older version serves meanwhile. A load that
fails leaves the older version in place. Triton refuses a model that is not in the repository with
500, and answers 400 for one that fails.
"""

import enum
from collections.abc import Callable, Iterable, Iterator

import attrs

__all__ = [
    "MOST_ATTEMPTS",
    "MOST_BYTES",
    "MOST_CALLS",
    "NO_CALLS",
    "NO_PROGRESS",
    "CallKind",
    "CallOutcome",
    "CallProgress",
    "CallRefusal",
    "ControlCall",
    "WantedCalls",
    "next_call",
    "when_again",
]

MOST_CALLS = 500
"""Most calls that are kept: each is examined in ticks, shown, and saved."""
MOST_BYTES = 192 * 1024
"""Most bytes of all calls together: they are saved with each state, perhaps over a network."""
MOST_ATTEMPTS = 4
"""After this many refusals in a row, a call is not sent to the instance again. The count begins
again after the instance was away: one that restarts may refuse for other reasons."""
# The same, however often it was away: a load may be what takes it away each time.
MOST_ATTEMPTS_EVER = 20
FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 30.0
KEEP_OVER = 50
LONGEST_ERROR = 1024


class CallKind(enum.StrEnum):
    """What a call does."""

    LOAD = "load"
    UNLOAD = "unload"
    TRACE = "trace"
    LOG = "log"


@attrs.frozen
class ControlCall:
    """One call that every instance must have had once."""

    number: int
    """Counts the calls of a cluster; a newer call has a higher number."""
    kind: CallKind
    model: str = ""
    """Empty: the call is about the whole server."""
    body: str = "{}"
    """A JSON object: the parameters of a load or an unload, or all settings that were asked for."""
    asked_at: float = 0.0
    """Wall time, Unix seconds."""
    request: str = ""
    """The asker's id of the call, so that repeating a request makes no new call; empty: none."""

    @property
    def slot(self) -> tuple[str, str]:
        """What it changes: a newer call with the same slot replaces it."""
        of_model = self.kind in (CallKind.LOAD, CallKind.UNLOAD)
        return ("model" if of_model else str(self.kind)), self.model

    @property
    def plain(self) -> bool:
        """Whether it loads the model as a start does, without parameters of its own."""
        return self.kind is CallKind.LOAD and self.body == "{}"

    @property
    def said(self) -> str:
        """The call in words."""
        if self.kind in (CallKind.LOAD, CallKind.UNLOAD):
            return f"{self.kind} of {self.model}"
        return f"{self.kind} settings{f' of {self.model}' if self.model else ''}"


@attrs.frozen
class CallOutcome:
    """The result of a call that is not wanted any more."""

    call: ControlCall
    refused: tuple[tuple[str, str], ...] = ()
    """(instance id, why) of the instances that refused it; empty: all carried it out."""
    overtaken_by: int = 0
    """Number of the call that replaced it; 0: none did."""


@attrs.frozen
class CallRefusal:
    """One instance's refusal of one call."""

    number: int
    error: str
    attempts: int
    """Attempts in a row since the instance was last seen again."""
    retry_s: float
    """Monotonic second before which the call is not sent again."""
    attempts_ever: int = 1

    @property
    def final(self) -> bool:
        """Whether the call is not sent again."""
        return self.attempts >= MOST_ATTEMPTS or self.attempts_ever >= MOST_ATTEMPTS_EVER


@attrs.frozen
class WantedCalls:
    """The calls that every instance must have had."""

    number: int = 0
    """Number of the newest call that was ever asked for."""
    calls: tuple[ControlCall, ...] = ()
    """Calls about models first, since settings of a model need the model; then by number."""
    former: tuple[ControlCall, ...] = ()
    """Calls that some instance has had, and that a newer call replaced. Each is wanted again if
    no instance can carry out the newer one."""
    unsettled: frozenset[int] = frozenset()
    """Numbers of calls that some instance has still to answer."""
    over: tuple[CallOutcome, ...] = attrs.field(default=(), eq=False)
    """The newest calls that are not wanted any more, oldest first."""

    def of(self, slot: tuple[str, str]) -> ControlCall | None:
        """Return the wanted call with *slot*."""
        return next((call for call in self.calls if call.slot == slot), None)

    def numbers(self) -> frozenset[int]:
        """Return the numbers of the calls for which the progress of instances is kept."""
        return frozenset(call.number for call in (*self.calls, *self.former))

    @property
    def size(self) -> int:
        """Bytes of all bodies, models and request ids."""
        calls = (*self.calls, *self.former)
        return sum(len(f"{c.model}{c.body}{c.request}".encode("utf-8", "replace")) for c in calls)

    def asked(self, call: ControlCall, had: Callable[[int], bool]) -> "WantedCalls":
        """Return the calls with *call*, the newest.

        *had* says whether some instance has had the call of a number.
        """
        old = self.of(call.slot)
        former = self.former
        if old is not None and had(old.number):
            former = (*(one for one in former if one.slot != call.slot), old)
        over = self.over if old is None else self._over(old, overtaken_by=call.number)
        gone = {call.slot}
        if call.kind is CallKind.UNLOAD:
            # Triton takes no trace settings for a model that is not loaded.
            gone.add(("trace", call.model))
            former = tuple(one for one in former if one.slot != ("trace", call.model))
        kept = (one for one in self.calls if one.slot not in gone)
        calls = _ordered((*kept, call))
        unsettled = (self.unsettled | {call.number}) & {one.number for one in calls}
        return attrs.evolve(
            self,
            number=call.number,
            calls=calls,
            former=former,
            unsettled=unsettled,
            over=over,
        )

    def settled(self, call: ControlCall, *, keep: bool) -> "WantedCalls":
        """Return the calls after every instance has answered *call*, and one carried it out.

        Without *keep* the call is removed, since a start does the same.
        """
        former = tuple(one for one in self.former if one.slot != call.slot)
        unsettled = self.unsettled - {call.number}
        if keep:
            return attrs.evolve(self, former=former, unsettled=unsettled)
        calls = tuple(one for one in self.calls if one.number != call.number)
        return attrs.evolve(
            self, calls=calls, former=former, unsettled=unsettled, over=self._over(call)
        )

    def dropped(self, call: ControlCall, refused: Iterable[tuple[str, str]]) -> "WantedCalls":
        """Return the calls without *call*, which no instance could do, and with the one before."""
        back = tuple(one for one in self.former if one.slot == call.slot)
        former = tuple(one for one in self.former if one.slot != call.slot)
        kept = (one for one in self.calls if one.number != call.number)
        return attrs.evolve(
            self,
            calls=_ordered((*kept, *back)),
            former=former,
            unsettled=self.unsettled - {call.number},
            over=self._over(call, tuple(refused)),
        )

    def _over(
        self,
        call: ControlCall,
        refused: tuple[tuple[str, str], ...] = (),
        overtaken_by: int = 0,
    ) -> tuple[CallOutcome, ...]:
        return (*self.over, CallOutcome(call, refused, overtaken_by))[-KEEP_OVER:]

    def requested(self, request: str) -> ControlCall | None:
        """Return the call with the asker's id *request*, if it is still kept."""
        if not request:
            return None
        known = (*self.calls, *(outcome.call for outcome in self.over))
        return next((call for call in known if call.request == request), None)

    @property
    def loaded(self) -> frozenset[str]:
        """Models that a call loads."""
        return frozenset(c.model for c in self.calls if c.kind is CallKind.LOAD)

    @property
    def unloaded(self) -> frozenset[str]:
        """Models that a call unloads: an instance need not serve them."""
        return frozenset(c.model for c in self.calls if c.kind is CallKind.UNLOAD)


NO_CALLS = WantedCalls()


def _ordered(calls: Iterable[ControlCall]) -> tuple[ControlCall, ...]:
    return tuple(sorted(calls, key=lambda call: (call.slot[0] != "model", call.number)))


@attrs.frozen
class CallProgress:
    """Which calls one instance has had."""

    born: int = 0
    """Number of the newest call when the instance was asked for. Its start reads the repository
    later than that."""
    upto: int = 0
    """It has had every wanted call with this number or a lower one."""
    also: frozenset[int] = frozenset()
    """Numbers above ``upto`` that it has had, too."""
    refused: tuple[CallRefusal, ...] = ()
    at_work: int = 0
    """Number of the call that it has not answered yet; 0: none."""

    def has(self, number: int) -> bool:
        """Say whether it has had the call *number*."""
        return number <= self.upto or number in self.also

    def refusal(self, number: int) -> CallRefusal | None:
        """Return its newest refusal of the call *number*."""
        return next((one for one in self.refused if one.number == number), None)

    def gave_up(self, number: int) -> bool:
        """Say whether it refused the call *number* for good."""
        refusal = self.refusal(number)
        return refusal is not None and refusal.final

    def pending(self, wanted: WantedCalls) -> Iterator[ControlCall]:
        """Yield the calls that it has neither had nor finally refused, in their order."""
        if self.upto >= wanted.number:
            return
        for call in wanted.calls:
            if not self.has(call.number) and not self.gave_up(call.number):
                yield call

    def sent(self, number: int) -> "CallProgress":
        """Return the progress while the call *number* waits for its answer."""
        return attrs.evolve(self, at_work=number)

    def did(self, number: int, wanted: WantedCalls) -> "CallProgress":
        """Return the progress after the call *number* was done."""
        refused = tuple(one for one in self.refused if one.number != number)
        after = attrs.evolve(self, also=self.also | {number}, refused=refused, at_work=0)
        return after.pruned(wanted)

    def said_no(self, number: int, error: str, now_s: float, wanted: WantedCalls) -> "CallProgress":
        """Return the progress after the call *number* was refused with *error*."""
        old = self.refusal(number)
        attempts, ever = (1, 1) if old is None else (old.attempts + 1, old.attempts_ever + 1)
        retry_s = now_s + when_again(attempts)
        if len(error) > LONGEST_ERROR:  # it is kept for each instance
            error = f"{error[:LONGEST_ERROR]} …"
        refusal = CallRefusal(number, error, attempts, retry_s, ever)
        others = (one for one in self.refused if one.number != number)
        return attrs.evolve(self, refused=(*others, refusal), at_work=0).pruned(wanted)

    def unanswered(self) -> "CallProgress":
        """Return the progress after a call that could not be sent."""
        return attrs.evolve(self, at_work=0)

    def seen_again(self) -> "CallProgress":
        """Return the progress of an instance that was away: it is tried again at once."""
        again = (
            one if one.final else attrs.evolve(one, attempts=0, retry_s=float("-inf"))
            for one in self.refused
        )
        return attrs.evolve(self, refused=tuple(again))

    def pruned(self, wanted: WantedCalls) -> "CallProgress":
        """Return the same progress without what *wanted* no longer needs."""
        numbers = wanted.numbers()
        lacking = [number for number in numbers if not self.has(number)]
        upto = max(self.upto, min(lacking) - 1 if lacking else wanted.number)
        also = frozenset(n for n in self.also if n > upto and n in numbers)
        refused = tuple(r for r in self.refused if r.number in numbers and r.number > upto)
        if (upto, also, refused) == (self.upto, self.also, self.refused):
            return self
        return attrs.evolve(self, upto=upto, also=also, refused=refused)


NO_PROGRESS = CallProgress()


def next_call(
    wanted: WantedCalls, progress: CallProgress, now_s: float
) -> tuple[ControlCall | None, float | None]:
    """Return (the call to send now, None), or (None, the seconds to wait).

    The seconds are None when nothing is left to send. A refused call does not hold up later ones.
    """
    waits: list[float] = []
    for call in progress.pending(wanted):
        refusal = progress.refusal(call.number)
        if refusal is None or refusal.retry_s <= now_s:
            return call, None
        waits.append(refusal.retry_s - now_s)
    return None, min(waits, default=None)


def when_again(attempts: int) -> float:
    """Return the seconds to wait after the given number of failed attempts."""
    return float(min(FIRST_PAUSE_S * 2.0 ** min(attempts - 1, 10), LONGEST_PAUSE_S))
