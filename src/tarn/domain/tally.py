"""The numbers that a master counts besides its events. Pure; no number ever falls."""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from itertools import takewhile

import attrs

from tarn.domain.facts import Ended, ExitStatus, Fact
from tarn.domain.fleet import Fleet
from tarn.domain.instance import Instance, InstanceState

__all__ = ["DIRECTIONS", "FAILURES", "OUTCOMES", "PHASES", "RESULTS", "Histogram", "Tally"]


@attrs.frozen
class Histogram:
    """Counts by upper bound; a new one is made for each value."""

    bounds: tuple[float, ...]
    """Upper bounds, rising; a value counts in the first that is at least as large."""
    counts: tuple[int, ...] = attrs.field()
    """One count for each bound, and one for the values beyond the last."""
    total: float = 0.0
    """The sum of all values."""

    @counts.default
    def _empty(self) -> tuple[int, ...]:
        return (0,) * (len(self.bounds) + 1)

    @property
    def count(self) -> int:
        """The number of values."""
        return sum(self.counts)

    def seen(self, value: float) -> "Histogram":
        """Return it with one more *value*; a negative one counts as 0."""
        value = max(0.0, value)
        place = bisect_left(self.bounds, value)
        counts = (*self.counts[:place], self.counts[place] + 1, *self.counts[place + 1 :])
        return attrs.evolve(self, counts=counts, total=self.total + value)


_SIGNALS, _SHELL = 64, 128
_FAILED, _DRAINED = "TARN-1105", "TARN-1114"

FAILURES: Mapping[str, str] = {
    "start": "it ended before it was ready",
    "never_ready": "it ran, and was ended before it was ready",
    "silent": "it served, stopped answering, and was replaced",
    "exit": "it ended by itself",
    "signal": "it was killed",
    "runtime": "the runtime ended it: preemption, memory",
    "node": "its node caused it",
    "lost": "the runtime does not know it any more",
    "other": "not known",
}
"""All reasons why an instance failed."""
OUTCOMES: Mapping[str, str] = {
    "clean": "everything was finished",
    "lost": "requests failed while it drained",
    "cut": "something was at work when it was stopped",
    "unknown": "it could not be seen",
}
"""All results of a drain; the worst one that applies counts."""
RESULTS: Mapping[str, str] = {
    "finished": "they succeeded",
    "lost": "they failed",
    "cut": "they were at work when the instance was stopped",
}
"""All results of the requests of a draining instance."""
DIRECTIONS = ("up", "down")
PHASES: Mapping[str, str] = {
    "requested": "until it has a place and a process",
    "starting": "until it serves",
    "whole": "from the request to the first ready",
}
"""The parts of a start."""

_START_BOUNDS = (0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0)
_DRAIN_BOUNDS = (0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0)
_TICK_BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)

Counts = Mapping[str, float]


def _nothing(words: Iterable[str]) -> Mapping[str, float]:
    return dict.fromkeys(words, 0.0)


@attrs.frozen(eq=False)
class Tally:
    """The counts so far."""

    started_at: float
    """Wall time at which this master began, Unix seconds."""
    ticks: Histogram = attrs.field(factory=lambda: Histogram(_TICK_BOUNDS))
    """Seconds that each step of the control thread took."""
    late: int = 0
    """Steps that came so late that silences of instances do not count."""
    starts: Mapping[str, Histogram] = attrs.field(
        factory=lambda: dict.fromkeys(PHASES, Histogram(_START_BOUNDS))
    )
    """Phase to the seconds that it took, for instances that were started under this master."""
    failures: Counts = attrs.field(factory=lambda: _nothing(FAILURES))
    drains: Counts = attrs.field(factory=lambda: _nothing(OUTCOMES))
    drained: Counts = attrs.field(factory=lambda: _nothing(RESULTS))
    """Requests of draining instances, as far as they were seen."""
    drain_s: Histogram = attrs.field(factory=lambda: Histogram(_DRAIN_BOUNDS))
    decisions: Mapping[tuple[str, str], int] = attrs.field(factory=dict)
    """(of `KINDS`, of `DIRECTIONS`) to how many."""
    behind: Mapping[str, float] = attrs.field(factory=dict)
    """Follower to the monotonic second since which it has not acknowledged the newest view."""

    def ticked(self, took_s: float) -> "Tally":
        """Return it after one step of the control thread."""
        return attrs.evolve(self, ticks=self.ticks.seen(took_s))

    def was_late(self) -> "Tally":
        """Return it after a step that came late."""
        return attrs.evolve(self, late=self.late + 1)

    def counted(
        self, before: Fleet, after: Fleet, facts: tuple[Fact, ...], now_s: float
    ) -> "Tally":
        """Return it with everything that changed between two fleets.

        Args:
            before: The fleet that was counted last.
            after: The fleet now.
            facts: The runtime's facts, which say how instances ended.
            now_s: The monotonic second of *after*.
        """
        behind = _behind(self.behind, after, now_s)
        if before is after and behind == self.behind:
            return self
        ended = tuple(takewhile(lambda i: i not in before.ended, reversed(after.ended)))
        old = {} if before.instances is after.instances else {i.id: i for i in before.instances}
        failures = _failures(self.failures, ended, facts, _more(before, after, _FAILED))
        over = [i for i in ended if _was_drained(i)]
        return attrs.evolve(
            self,
            behind=behind,
            starts=_starts(self.starts, old, after.instances),
            failures=failures,
            drains=_drains(self.drains, over, _more(before, after, _DRAINED)),
            drained=_requests(self.drained, over),
            drain_s=_lasted(self.drain_s, over, old),
            decisions=_decisions(self.decisions, before, after),
        )


def _behind(since: Mapping[str, float], fleet: Fleet, now_s: float) -> Mapping[str, float]:
    newest = fleet.view.revision
    return {
        name: since.get(name, now_s)
        for name, follower in fleet.followers.items()
        if follower.revision < newest
    }


def _more(before: Fleet, after: Fleet, code: str) -> int:
    return after.event_totals.get(code, 0) - before.event_totals.get(code, 0)


def _starts(
    starts: Mapping[str, Histogram], old: Mapping[str, Instance], now: Iterable[Instance]
) -> Mapping[str, Histogram]:
    made = dict(starts)
    for instance in now:
        was = old.get(instance.id)
        if was is None or was is instance or was.state is instance.state or instance.adopted:
            continue
        for phase, took_s in _phases(was, instance):
            made[phase] = made[phase].seen(took_s)
    return made


def _phases(was: Instance, now: Instance) -> Iterator[tuple[str, float]]:
    if was.state is InstanceState.REQUESTED and now.state is InstanceState.STARTING:
        yield "requested", now.since_s - was.since_s
    if was.ready_s is None and now.ready_s is not None:
        yield "whole", now.ready_s - now.requested_s
        if was.state is InstanceState.STARTING:
            yield "starting", now.ready_s - was.since_s


def _failures(
    failures: Counts, ended: Iterable[Instance], facts: tuple[Fact, ...], told: int
) -> Counts:
    """Return *failures* with those in *ended*; *told* is the number of events about failures."""
    # If many fail at once, `Fleet.ended` does not keep all of them; the others count as "other".
    exits = {f.instance_id: f.exit for f in facts if isinstance(f, Ended)}
    made = dict(failures)
    for instance in ended:
        if instance.state is InstanceState.FAILED:
            made[_why(instance, exits.get(instance.id))] += 1
            told -= 1
        elif instance.condemned and not instance.untouched:
            made["silent"] += 1
    made["other"] += max(0, told)
    return made


def _why(instance: Instance, status: ExitStatus | None) -> str:
    if instance.condemned and instance.untouched:
        return "never_ready"
    if status is None:
        return "lost"
    if status.node_fault:
        return "node"
    if instance.untouched:
        return "start"
    if (code := status.code) is None or code < -_SIGNALS:  # these codes are YARN's own
        return "other" if code is None else "runtime"
    # a shell exits with 128 plus the signal's number
    return "signal" if code < 0 or _SHELL < code <= _SHELL + _SIGNALS else "exit"


def _was_drained(instance: Instance) -> bool:
    served = instance.endpoint is not None and not instance.untouched
    return served and instance.state is InstanceState.STOPPED and not instance.condemned


def _drains(drains: Counts, over: list[Instance], told: int) -> Counts:
    made = dict(drains)
    for instance in over:
        made[_outcome(instance)] += 1
    made["unknown"] += max(0, told - len(over))
    return made


def _outcome(instance: Instance) -> str:
    drain = instance.drain
    if drain is None:
        return "unknown"
    if drain.cut:
        return "cut"
    if drain.failed:
        return "lost"
    seen = drain.began is not None and (drain.proven or not drain.unseen)
    return "clean" if seen and drain.cut is not None else "unknown"


def _requests(drained: Counts, over: list[Instance]) -> Counts:
    made = dict(drained)
    for drain in (instance.drain for instance in over):
        if drain is not None:
            made["finished"] += drain.succeeded
            made["lost"] += drain.failed
            made["cut"] += drain.cut or 0
    return made


def _lasted(drain_s: Histogram, over: list[Instance], old: Mapping[str, Instance]) -> Histogram:
    for instance in over:
        was = old.get(instance.id)
        if was is not None and was.state is InstanceState.DRAINING:
            drain_s = drain_s.seen(instance.since_s - was.since_s)
    return drain_s


def _decisions(
    decisions: Mapping[tuple[str, str], int], before: Fleet, after: Fleet
) -> Mapping[tuple[str, str], int]:
    if before.decisions is after.decisions:
        return decisions
    last = before.decisions[-1] if before.decisions else None
    fresh = tuple(takewhile(lambda decision: decision is not last, reversed(after.decisions)))
    made, size = dict(decisions), before.desired
    for decision in reversed(fresh):
        key = decision.kind, "up" if decision.desired >= size else "down"
        made[key] = made.get(key, 0) + 1
        size = decision.desired
    return made
