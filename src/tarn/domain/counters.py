"""Counters that begin at 0 together, and the one rule for their growth. Pure.

Triton counts for as long as a version of a model is loaded. Its counters only rise. Lower ones
mean that the version was loaded again, or its process was started again; then everything that they
count is new. This rule holds for one version of one model in one instance. It would be wrong for a
sum over models, which falls whenever one of them is unloaded. So `InstanceCounters` applies the
rule first and adds up afterwards. Its total never falls, and history, metrics, signals, drains and
usage all get the same number from it.
"""

import functools
from collections.abc import Iterable, Mapping, Sequence
from operator import add, lt, sub
from typing import NamedTuple, TypeVar

import attrs

__all__ = [
    "COUNTERS",
    "NOTHING",
    "OPTIONAL_COUNTERS",
    "CounterSet",
    "InstanceCounters",
    "Line",
    "grown",
    "newest_known",
    "summed",
]

Number = TypeVar("Number", int, float)

# Triton counts in 64 bits, so a value from here on cannot be a count.
_TOO_MANY = 2.0**64


def _fell(before: Sequence[Number], now: Sequence[Number]) -> bool:
    """Say whether counting began again: the one rule, decided nowhere else."""
    # If one counter fell, all that belong to it began again, the ones that did not fall too.
    return any(map(lt, now, before))


def grown(before: Sequence[Number], now: Sequence[Number]) -> Sequence[Number]:
    """Return by how much each counter grew; all of them begin at 0 together."""
    return now if _fell(before, now) else tuple(map(sub, now, before))


class CounterSet(NamedTuple):
    """Counters of one thing, or of several together, since they began at 0."""

    completed: float = 0.0
    """Requests that ended well."""
    failed: float = 0.0
    """Requests that failed, for any reason."""
    request_us: float = 0.0
    """Microseconds from arrival to answer, summed over the completed requests."""
    queue_us: float = 0.0
    """Microseconds that the same requests waited."""
    compute_us: float = 0.0
    """Microseconds that they spent in the model's own code."""
    inferences: float = 0.0
    """A request with a batch of four counts four."""
    executions: float = 0.0
    """Calls of the model; inferences divided by these are the mean batch size."""
    rejected: float = 0.0
    """Failed requests that are not the server's fault: its queue was full, or the caller went away
    (Triton's reasons ``REJECTED`` and ``CANCELED``)."""
    cache_hits: float = 0.0
    """Completed requests that the response cache answered; the model computed nothing for them."""
    cache_misses: float = 0.0
    """Completed requests whose answer was not in the response cache."""
    cache_hit_us: float = 0.0
    """Microseconds of looking up, for the hits."""
    cache_miss_us: float = 0.0
    """Microseconds of looking up and storing, for the misses."""
    first_responses: float = 0.0
    """Requests whose first response was timed, for decoupled models long before the last one."""
    first_response_us: float = 0.0
    """Microseconds from their arrival to their first response."""

    def since(self, before: "CounterSet") -> "CounterSet":
        """Return the growth since *before*; everything if counting began again."""
        # In a large fleet most instances count nothing from one look to the next.
        return NOTHING if self == before else CounterSet._make(grown(before, self))

    def goes_on_from(self, before: "CounterSet") -> bool:
        """Say whether counting went on since *before*, and did not begin again.

        Two sums cannot be compared when it did not: a sum falls with each part that is removed.
        """
        return not _fell(before, self)

    def plus(self, more: "CounterSet") -> "CounterSet":
        """Return the sum of both."""
        return CounterSet._make(map(add, self, more))

    @property
    def ended(self) -> float:
        """Requests that ended, well or not."""
        return self.completed + self.failed

    @property
    def computed(self) -> float:
        """Completed requests that the model computed."""
        # One scrape may hold a hit that is not among the completed ones yet.
        return max(0.0, self.completed - self.cache_hits)

    @property
    def share(self) -> float:
        """The share of failed requests among those that ended, in [0, 1]."""
        return self.failed / self.ended if self.ended else 0.0

    @property
    def countable(self) -> bool:
        """Whether each counter is a possible count: not NaN, infinite, or below 0."""
        # min() may pass over a NaN, but then the sum is one, and below nothing
        return min(self) >= 0.0 and sum(self) < _TOO_MANY


NOTHING = CounterSet()

COUNTERS: Mapping[str, str] = {
    "requests_total": "completed",
    "failures_total": "failed",
    "queue_us_total": "queue_us",
    "request_us_total": "request_us",
}
"""Name in a reading to the field here, for the counters that are read for the whole instance."""

OPTIONAL_COUNTERS: Mapping[str, str] = {
    "cache_hits_total": "cache_hits",
    "cache_misses_total": "cache_misses",
    "first_responses_total": "first_responses",
    "first_response_us_total": "first_response_us",
}
"""The same for counters that only some Tritons have."""


def summed(counted: Iterable[CounterSet]) -> CounterSet:
    """Return the sum of all of them."""
    return functools.reduce(
        CounterSet.plus, (one for one in counted if one is not NOTHING), NOTHING
    )


Line = tuple[str, str]
"""A model and one of its versions: what begins at 0 together."""


@attrs.frozen(eq=False)
class InstanceCounters:
    """All that one Triton counts, from look to look."""

    lines: Mapping[Line, CounterSet] = attrs.field(factory=dict)
    """As they were read last."""
    models: Mapping[str, CounterSet] = attrs.field(factory=dict)
    """Each model to what its versions counted since it was loaded; never falls while one of them
    stays loaded."""
    total: CounterSet = NOTHING
    """What the first look said, and all that was counted since; never falls."""
    resets: int = 0
    """How often a line vanished or began again: what it counted since the look before that was not
    seen."""
    source: str | None = None
    """Where the lines come from; None: there was no look yet."""

    def looked(
        self, lines: Mapping[Line, CounterSet], source: str = ""
    ) -> tuple["InstanceCounters", Mapping[str, CounterSet]]:
        """Return it after another look, and by what each model grew since the one before.

        At the first look that is all that it says.

        Args:
            lines: What is counted now; one that is not there was unloaded.
            source: Counters of two sources do not go on from one another: at a look that has
                another one than the look before, nothing grew.
        """
        if lines is self.lines:
            return self, {}
        changed = {line: now for line, now in lines.items() if now != self.lines.get(line)}
        # Refused as a whole: a sum without one of its parts would be taken for a reset.
        if not all(now.countable for now in changed.values()):
            return self, {}
        if self.source not in (None, source):
            sums = _by_model(lines)
            models = {model: self.models.get(model, said) for model, said in sums.items()}
            return InstanceCounters(lines, models, self.total, self.resets + 1, source), {}
        more = _by_model(
            {line: now.since(self.lines.get(line, NOTHING)) for line, now in changed.items()}
        )
        begun = {
            line
            for line, now in changed.items()
            if line not in self.lines or not now.goes_on_from(self.lines[line])
        }
        goes_on = {line[0] for line in lines if line not in begun}
        before = {model: self.models[model] for model in goes_on}
        models = {m: before.get(m, NOTHING).plus(more.get(m, NOTHING)) for m, _ in lines}
        gone = sum(line not in lines for line in self.lines)
        resets = self.resets + gone + sum(line in self.lines for line in begun)
        total = self.total.plus(summed(more.values()))
        return InstanceCounters(lines, models, total, resets, source), more


def _by_model(lines: Mapping[Line, CounterSet]) -> dict[str, CounterSet]:
    sums: dict[str, CounterSet] = {}
    for (model, _), counted in lines.items():
        sums[model] = sums[model].plus(counted) if model in sums else counted
    return sums


def newest_known(
    before: Mapping[str, CounterSet], now: Mapping[str, CounterSet | None]
) -> Mapping[str, CounterSet]:
    """Return the newest known counters of each key in *now*; other keys are dropped."""
    newest = {key: before.get(key) if said is None else said for key, said in now.items()}
    return {key: said for key, said in newest.items() if said is not None}
