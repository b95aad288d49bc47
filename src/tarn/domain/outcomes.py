"""What became of the requests that each instance got, model by model, over the last seconds. Pure.

Triton's health says that its server answers; only outcomes say that its models do. They are read
from the counters that are scraped anyway. The history holds the newest counters of each instance
and some older ones, so that the growth over a few spans can be told: the shortest span with enough
requests speaks first, so that a failure is seen within seconds under load, and within the window
where requests are few.
"""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import NamedTuple, Protocol

import attrs

__all__ = [
    "OutcomeGrowth",
    "OutcomeHistory",
    "Outcomes",
    "RequestCounts",
    "Stall",
    "TestResult",
    "grown",
]

SPANS = 10
"""Spans into which the window is divided."""
_SHORT_S = 1.0
"""Shorter requests need not be learned from: no stall is as short."""
LOOK_EACH_S = 0.9
"""More looks tell nothing: Triton is scraped once a second."""
LONGEST_MOST_S = 60.0
"""Longer requests than this are not learned from: one hang of an hour is not a rule."""


@attrs.frozen
class RequestCounts:
    """What one Triton counts of one model since the model was loaded."""

    completed: float = 0.0
    """Requests that ended well."""
    failed: float = 0.0
    """Requests that failed in the model or in the server: for Triton's reasons ``BACKEND`` and
    ``OTHER``. What its queue rejects (``REJECTED``) and what the caller cancels (``CANCELED``) is
    not its fault. Where Triton gives no reasons, all of them."""
    pending: float | None = None
    """Requests that wait now; None: this Triton does not say."""
    executing: float | None = None
    """Requests that execute now; None: Triton never says so of a model."""
    compute_us: float = 0.0
    """Microseconds in the model's own code, summed over the completed requests."""
    inferences: float = 0.0
    """Inferences: a request with a batch of four counts four."""
    executions: float = 0.0
    """Calls of the model; inferences divided by these are the mean batch size."""

    @property
    def mean_s(self) -> float | None:
        """The mean seconds that a request computes; None before the first one has completed."""
        return self.compute_us / self.completed / 1e6 if self.completed else None


@attrs.frozen
class TestResult:
    """The newest test request to an instance, and its answer."""

    __test__ = False  # by its name it could be taken for a class of tests

    asked_s: float
    """Monotonic second at which it was sent."""
    ok: bool
    """It was answered as it should be."""
    said: str = ""
    """Triton's own error, or that there was no answer; empty when it was answered well."""
    number: int = 1
    """Counts the test requests to this instance."""
    model: str = ""
    """The model that was asked."""
    late: bool = False
    """It took all of its time. A busy instance does the same: its queue is long, or full."""
    proven: bool = True
    """Some instance has answered the same request well, so a bad answer is not the request's fault.
    """

    @property
    def error(self) -> str:
        """The first line of what was said of a bad answer."""
        return self.said.partition("\n")[0] or "it failed"


class OutcomeGrowth(NamedTuple):
    """What one model did on one instance over a span."""

    completed: float
    failed: float
    compute_us: float = 0.0
    inferences: float = 0.0
    executions: float = 0.0

    @property
    def ended(self) -> float:
        """Requests that completed or failed."""
        return self.completed + self.failed

    @property
    def share(self) -> float:
        """The failed ones among them, in [0, 1]."""
        return self.failed / self.ended if self.ended else 0.0


def grown(old: RequestCounts, new: RequestCounts) -> OutcomeGrowth:
    """Return what *new* has more than *old*; counters that fell began again at 0."""
    if new.completed < old.completed or new.failed < old.failed:
        old = _NOTHING
    return OutcomeGrowth(
        new.completed - old.completed,
        new.failed - old.failed,
        max(0.0, new.compute_us - old.compute_us),
        max(0.0, new.inferences - old.inferences),
        max(0.0, new.executions - old.executions),
    )


class Stall(NamedTuple):
    """Requests for one model wait in one instance, and none of them is answered well.

    Failures end no stall: a dead Python process works its queue off at one failure a second.
    """

    since_s: float
    """Monotonic second of the last look at which one had completed, or none waited."""
    seen_s: float
    """Monotonic second of the newest look that found it so."""
    pending: float


Outcomes = Mapping[str, RequestCounts]
"""Model to what is counted of it."""
Key = tuple[str, str]
"""An instance id and a model."""


class _Read(Protocol):
    """What is looked at of a `tarn.domain.Reading`."""

    @property
    def outcomes(self) -> Outcomes: ...

    @property
    def counted_s(self) -> float | None: ...


class _CountsAt(NamedTuple):
    at_s: float
    of: Mapping[str, Outcomes]
    """By instance id."""


@attrs.frozen
class OutcomeHistory:
    """The newest counters of each instance, older ones for the window, and what stands still."""

    looks: tuple[_CountsAt, ...] = attrs.field(default=(), hash=False)
    """Oldest first; the last one is the newest look, the others are about a span apart."""
    failing: Mapping[str, tuple[str, ...]] = attrs.field(factory=dict, hash=False)
    """Model to the instances on which a request failed since the look before."""
    stalls: Mapping[Key, Stall] = attrs.field(factory=dict, hash=False)
    longest: Mapping[str, float] = attrs.field(factory=dict, hash=False)
    """Model to the seconds that the longest request seen computed, or for which none completed
    while some waited, and then one did: so long it may take."""
    slow_s: float = float("-inf")
    """When compute times were compared last."""

    @property
    def at_s(self) -> float:
        """When it looked last."""
        return self.looks[-1].at_s if self.looks else float("-inf")

    @property
    def newest(self) -> Mapping[str, Outcomes]:
        """The newest counters, by instance id."""
        return self.looks[-1].of if self.looks else {}

    def due(self, now_s: float) -> bool:
        """Say whether it is time for another look."""
        return now_s - self.at_s >= LOOK_EACH_S

    def rests(self, readings: Mapping[str, _Read]) -> bool:
        """Say whether nothing has happened since the last look, and nothing waits."""
        if self.failing or self.stalls:
            return False
        newest, count = self.newest, 0
        for id_, read in readings.items():
            outcomes = read.outcomes
            if outcomes:
                count += 1
                if newest.get(id_) is not outcomes or any(o.pending for o in outcomes.values()):
                    return False
        return count == len(newest)

    def looked(
        self, readings: Mapping[str, _Read], now_s: float, window_s: float
    ) -> "OutcomeHistory":
        """Return it with one more look."""
        now = {id_: read.outcomes for id_, read in readings.items() if read.outcomes}
        before = self.newest
        old_looks = self._without(now.keys() - before.keys())
        failing: dict[str, list[str]] = {}
        stalls: dict[Key, Stall] = {}
        longest = dict(self.longest)
        for id_, outcomes in now.items():
            old = before.get(id_, _NO_OUTCOMES)
            for model, new in outcomes.items():
                was = old.get(model, new)
                if new.failed > was.failed:
                    failing.setdefault(model, []).append(id_)
                if new.completed > was.completed:
                    us = (new.compute_us - was.compute_us) / (new.completed - was.completed)
                    if us > longest.get(model, _SHORT_S) * 1e6:
                        longest[model] = min(us / 1e6, LONGEST_MOST_S)
                elif new.pending:
                    stall = self._stall((id_, model), readings[id_].counted_s, new.pending)
                    if stall is not None:
                        stalls[id_, model] = stall
        return OutcomeHistory(
            _kept(old_looks, _CountsAt(now_s, now), window_s),
            {model: tuple(ids) for model, ids in failing.items()},
            stalls,
            self._learned(now, stalls, longest),
            self.slow_s,
        )

    def _stall(self, key: Key, counted_s: float | None, pending: float) -> Stall | None:
        """Return the stall of *key*, whose counters were read at *counted_s*, begun or gone on."""
        if counted_s is None:
            return None
        stall = self.stalls.get(key)
        if stall is None:
            since_s = min(self.at_s, counted_s) if self.looks else counted_s
            return Stall(since_s, counted_s, pending)
        return Stall(stall.since_s, max(stall.seen_s, counted_s), pending)

    def _without(self, back: AbstractSet[str]) -> tuple[_CountsAt, ...]:
        """Return the looks without those that are *back*: nobody saw what they did meanwhile.

        Counters of two sources (metrics, then statistics) do not go on from one another, either.
        """
        if not any(id_ in look.of for id_ in back for look in self.looks):
            return self.looks
        return tuple(
            _CountsAt(at_s, {id_: one for id_, one in of.items() if id_ not in back})
            for at_s, of in self.looks
        )

    def _learned(
        self,
        now: Mapping[str, Outcomes],
        stalls: Mapping[Key, Stall],
        longest: dict[str, float],
    ) -> Mapping[str, float]:
        """Return *longest* with the stalls that have just ended by an answer."""
        for id_, model in self.stalls.keys() - stalls.keys():
            new, old = now.get(id_, {}).get(model), self.newest.get(id_, {}).get(model)
            if new is not None and old is not None and new.completed > old.completed:
                stall = self.stalls[id_, model]
                for_s = min(stall.seen_s - stall.since_s, LONGEST_MOST_S)
                longest[model] = max(longest.get(model, 0.0), for_s)
        return longest

    def waits(self, instance_id: str, model: str) -> bool:
        """Say whether requests wait there and none completes."""
        return (instance_id, model) in self.stalls

    def enough(
        self, instance_id: str, model: str, since_s: float, least: float
    ) -> tuple[int, OutcomeGrowth | None]:
        """Return the place of the newest look since which *least* requests ended, and the growth.

        Only looks at *since_s* or later count. None: there were not so many.
        """
        looks = self.looks
        new = looks[-1].of.get(instance_id, {}).get(model)
        for place in range(len(looks) - 2, -1, -1):
            at_s, of = looks[place]
            if new is None or at_s < since_s:
                break
            old = of.get(instance_id, {}).get(model)
            if old is not None:
                ended = new.completed - old.completed + new.failed - old.failed
                if ended >= least or new.completed < old.completed:
                    one = grown(old, new)
                    if one.ended >= least:
                        return place, one
        return 0, None

    def since_about(self, since_s: float, instance_id: str, model: str) -> OutcomeGrowth | None:
        """Return the growth since the newest look at *since_s* or before; the oldest, else."""
        looks = self.looks[:-1]
        if not looks:
            return None
        place = max((p for p, look in enumerate(looks) if look.at_s <= since_s), default=0)
        return self.since(place, instance_id, model)

    def since(self, place: int, instance_id: str, model: str) -> OutcomeGrowth | None:
        """Return the growth since the look at *place*; None where it is not known."""
        old = self.looks[place].of.get(instance_id, {}).get(model)
        new = self.newest.get(instance_id, {}).get(model)
        return None if old is None or new is None else grown(old, new)


def _kept(
    looks: tuple[_CountsAt, ...], newest: _CountsAt, window_s: float
) -> tuple[_CountsAt, ...]:
    """Return *looks* with the *newest*: about a span apart, and none beyond the window but one."""
    if len(looks) > 1 and looks[-1].at_s - looks[-2].at_s < window_s / SPANS:
        looks = looks[:-1]
    old = 0
    while old + 1 < len(looks) and newest.at_s - looks[old + 1].at_s >= window_s:
        old += 1
    return (*looks[old:], newest)


_NOTHING = RequestCounts()
_NO_OUTCOMES: Outcomes = {}
