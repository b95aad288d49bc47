"""Results of the requests of each instance and model over the last seconds. Pure.

Triton's health shows that its server answers; only the results of requests show that its models do.
They come from counters that are scraped anyway. The history holds the newest counters of each
instance and some older ones, so that the growth over several spans is known. The shortest span with
enough requests is judged first. So a failure is found within seconds under load, and within the
window when requests are few.
"""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import NamedTuple, Protocol

import attrs

from tarn.domain.counters import NOTHING, CounterSet

__all__ = [
    "OutcomeHistory",
    "Outcomes",
    "RequestCounts",
    "Stall",
    "TestResult",
]

# Spans into which the window is divided.
SPANS = 10
# Shorter requests need not be learned from: no stall is as short.
_SHORT_S = 1.0
# More looks tell nothing: Triton is scraped once a second.
LOOK_EACH_S = 0.9
# Longer requests than this are not learned from: one hang of an hour is not a rule.
LONGEST_MOST_S = 60.0


@attrs.frozen
class RequestCounts:
    """One Triton's counters of one model since the model was loaded."""

    counted: CounterSet = NOTHING
    """``failed`` leaves out requests that the queue rejected or the caller cancelled, since these
    are not the model's fault. If Triton gives no reasons, it has all failures."""
    pending: float | None = None
    """Requests that wait now; None: this Triton does not report it."""

    @property
    def completed(self) -> float:
        """Requests that ended well."""
        return self.counted.completed

    @property
    def computed(self) -> float:
        """Completed requests that the model computed; the others came from the response cache."""
        return self.counted.computed

    @property
    def failed(self) -> float:
        """Requests that failed through the server's fault."""
        return self.counted.failed

    @property
    def compute_us(self) -> float:
        """Microseconds in the model's own code, summed over the computed requests."""
        return self.counted.compute_us

    @property
    def mean_s(self) -> float | None:
        """Mean seconds that a request computes; None before the first one was computed."""
        return self.compute_us / self.computed / 1e6 if self.computed else None


@attrs.frozen
class TestResult:
    """The newest test request to an instance, and its answer."""

    __test__ = False  # for collectors of tests, which look at names only

    asked_s: float
    """Monotonic second at which it was sent."""
    ok: bool
    """The answer was good."""
    said: str = ""
    """Triton's own error, or that there was no answer; empty when the answer was good."""
    number: int = 1
    """Counts the test requests to this instance."""
    model: str = ""
    """The model that it was sent to."""
    late: bool = False
    """There was no answer within the time limit. That also happens to an instance that is only
    busy, with a long queue."""
    proven: bool = True
    """Some instance has answered the same request well, so a bad answer is not the request's fault.
    """

    @property
    def error(self) -> str:
        """The first line of a bad answer."""
        return self.said.partition("\n")[0] or "it failed"


class Stall(NamedTuple):
    """Requests for one model wait in one instance, and none of them is answered well."""

    # Failures do not end a stall: with a dead Python process, one request fails each second.

    since_s: float
    """Monotonic second of the last look at which one had completed, or none waited."""
    seen_s: float
    """Monotonic second of the newest look that found the stall."""
    pending: float


Outcomes = Mapping[str, RequestCounts]
"""Model to its counters."""
# An instance id and a model.
Key = tuple[str, str]


class _Read(Protocol):
    """The part of a `tarn.domain.Reading` that is needed here."""

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
    """The newest counters of each instance, older ones within the window, and the stalls."""

    looks: tuple[_CountsAt, ...] = attrs.field(default=(), hash=False)
    """Looks, oldest first; all but the newest are about a span apart."""
    failing: Mapping[str, tuple[str, ...]] = attrs.field(factory=dict, hash=False)
    """Model to the instances on which a request failed since the look before."""
    stalls: Mapping[Key, Stall] = attrs.field(factory=dict, hash=False)
    longest: Mapping[str, float] = attrs.field(factory=dict, hash=False)
    """Model to the longest time that a request is known to have taken: the longest compute time
    seen, or the longest stall that ended with a good answer."""
    slow_s: float = float("-inf")
    """Monotonic second at which compute times were last compared."""

    @property
    def at_s(self) -> float:
        """Monotonic second of the newest look."""
        return self.looks[-1].at_s if self.looks else float("-inf")

    @property
    def newest(self) -> Mapping[str, Outcomes]:
        """The newest counters, by instance id."""
        return self.looks[-1].of if self.looks else {}

    def due(self, now_s: float) -> bool:
        """Say whether it is time for another look."""
        return now_s - self.at_s >= LOOK_EACH_S

    def rests(self, readings: Mapping[str, _Read]) -> bool:
        """Say whether no counter has changed since the last look, and no request waits."""
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
                more = NOTHING if was is new else new.counted.since(was.counted)
                if more.failed:
                    failing.setdefault(model, []).append(id_)
                if more.completed:
                    us = more.compute_us / more.computed if more.computed else 0.0
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
        """Return the new or continued stall of *key*, whose counters were read at *counted_s*."""
        if counted_s is None:
            return None
        stall = self.stalls.get(key)
        if stall is None:
            since_s = min(self.at_s, counted_s) if self.looks else counted_s
            return Stall(since_s, counted_s, pending)
        return Stall(stall.since_s, max(stall.seen_s, counted_s), pending)

    def _without(self, back: AbstractSet[str]) -> tuple[_CountsAt, ...]:
        """Return the looks without the instances *back*, whose requests were not seen meanwhile."""
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
        """Return *longest* with the stalls that have just ended with a good answer."""
        for id_, model in self.stalls.keys() - stalls.keys():
            new, old = now.get(id_, {}).get(model), self.newest.get(id_, {}).get(model)
            if new is not None and old is not None and new.counted.since(old.counted).completed:
                stall = self.stalls[id_, model]
                for_s = min(stall.seen_s - stall.since_s, LONGEST_MOST_S)
                longest[model] = max(longest.get(model, 0.0), for_s)
        return longest

    def waits(self, instance_id: str, model: str) -> bool:
        """Say whether requests for *model* wait there and none completes."""
        return (instance_id, model) in self.stalls

    def enough(
        self, instance_id: str, model: str, since_s: float, least: float
    ) -> tuple[int, CounterSet | None]:
        """Return the place of the newest look since which *least* requests ended, and the growth.

        Only looks at *since_s* or later count. The growth is None if fewer requests ended.
        """
        looks = self.looks
        new = looks[-1].of.get(instance_id, {}).get(model)
        for place in range(len(looks) - 2, -1, -1):
            at_s, of = looks[place]
            if new is None or at_s < since_s:
                break
            old = of.get(instance_id, {}).get(model)
            if old is not None:
                one = new.counted.since(old.counted)
                if one.ended >= least:
                    return place, one
        return 0, None

    def since_about(self, since_s: float, instance_id: str, model: str) -> CounterSet | None:
        """Return the growth since the newest look at or before *since_s*, else since the oldest."""
        looks = self.looks[:-1]
        if not looks:
            return None
        place = max((p for p, look in enumerate(looks) if look.at_s <= since_s), default=0)
        return self.since(place, instance_id, model)

    def since(self, place: int, instance_id: str, model: str) -> CounterSet | None:
        """Return the growth since the look at *place*; None: not known."""
        old = self.looks[place].of.get(instance_id, {}).get(model)
        new = self.newest.get(instance_id, {}).get(model)
        return None if old is None or new is None else new.counted.since(old.counted)


def _kept(
    looks: tuple[_CountsAt, ...], newest: _CountsAt, window_s: float
) -> tuple[_CountsAt, ...]:
    """Return *looks* with the *newest*: about a span apart, and at most one beyond the window."""
    if len(looks) > 1 and looks[-1].at_s - looks[-2].at_s < window_s / SPANS:
        looks = looks[:-1]
    old = 0
    while old + 1 < len(looks) and newest.at_s - looks[old + 1].at_s >= window_s:
        old += 1
    return (*looks[old:], newest)


_NO_OUTCOMES: Outcomes = {}
