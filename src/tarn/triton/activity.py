"""Estimates whether a Triton still executes requests, which it does not tell. Pure.

Measured on Triton 2.51 with a Python model that takes 4 s:

- While one request executes, ``nv_inference_pending_request_count`` is 0, and the metrics and
  ``/v2/models/stats`` are those of an idle server: all counters move when a request *ends*. Of
  three requests sent at once to one model instance, pending says 2.
- Only changes of the server show it: after an *unload* the model is UNLOADING until its last
  request has ended (new ones get "no available versions"), and after *SIGTERM* Triton refuses new
  connections and lets queued and executing requests end, up to ``--exit-timeout-secs``.

So the estimate is: while requests wait, something executes. While counters move, the number comes
from Little's law. If nothing waits and no counter has moved for `FACTOR` times the longest mean
execution time of any model, and at least for `SHORTEST_S`, nothing executes.

An ensemble executes nothing itself: its requests wait for, or execute in, one of its parts, which
count by themselves. Its duration contains theirs with their waiting time, so ensembles are left out
(seen: four requests counted as seven, and an idle Triton as busy for 15 s). A Python model that
calls another one (business logic scripting) cannot be recognized: a request in such a call counts
twice, and its waiting time there lengthens the mean.

Triton before 23.09 (2.38) has no pending gauge, so the queue is estimated too, again by Little's
law: the mean number of waiting requests in a span is the sum of their waiting times, divided by the
span. If nothing executes, nothing waits, since it would execute.

The limit: a request that runs far longer than the mean of its model (the first one of 60 s of a
model that took 1 s until now) is taken for idleness. An instance must therefore be stopped by
SIGTERM with an exit timeout, not by SIGKILL.
"""

from collections.abc import Collection, Mapping

import attrs

from tarn.domain.counters import NOTHING, CounterSet, Line, summed
from tarn.domain.samples import Known, Sample, Unknown
from tarn.triton.metrics import PENDING, QUEUE_US, TritonMetrics
from tarn.triton.model_counters import Rows

__all__ = ["FACTOR", "SHORTEST_S", "Activity", "observe"]

# If durations are distributed exponentially, one request in twenty is longer than three means.
FACTOR = 3.0

# Two scrapes can be close together, so counters must be unmoved for this long.
SHORTEST_S = 0.5

# The least estimate while it is not known that nothing executes.
LEAST = 0.01

_UNREAD = Unknown("its counters cannot be read")


@attrs.frozen
class Activity:
    """The estimate after several scrapes of one instance."""

    executing: Sample[float]
    """Requests in execution: 0 if there seem to be none, else an estimate above 0."""
    pending: Sample[float]
    """Waiting requests: the gauge, or an estimate if this Triton has none."""
    quiet_at_s: float
    """Monotonic second from which unmoved counters mean idleness."""
    moved_s: float
    """Monotonic second of the newest scrape that differed from the one before."""
    seen: TritonMetrics = attrs.field(repr=False)
    lines: Mapping[Line, CounterSet] | None = attrs.field(repr=False)
    """The counters at the last scrape that could be read; None if there is none."""


def observe(
    before: Activity | None,
    seen: TritonMetrics,
    rows: Rows | None,
    now_s: float,
    ensembles: Collection[str] = (),
) -> Activity:
    """Return the activity after the scrape *seen* at *now_s*.

    Args:
        before: The activity at the last scrape; failed ones may be in between. None at the first
            one: then ``executing`` is Unknown, or at least 1 if requests wait.
        seen: The newest scrape.
        rows: Its counters; None if they cannot be read.
        now_s: Its monotonic second.
        ensembles: Models that are ensembles; one that is not yet known counts as a model.
    """
    if rows is None:
        pending = seen.total(PENDING)
        executing = pending if isinstance(pending, Unknown) else _UNREAD
        if before is None:
            return Activity(executing, pending, now_s, now_s, seen, None)
        return attrs.evolve(before, executing=executing, pending=pending, seen=seen)
    if before is not None and before.lines is None:
        before = None
    look = _Look(before, seen, rows, now_s, ensembles)
    waits = look.pending()
    executes = waits if isinstance(waits, Unknown) else look.executing()
    return Activity(executes, waits, look.quiet_at_s, look.moved_s, seen, rows.of)


class _Look:
    """A scrape compared with the one before, without ensembles."""

    def __init__(
        self,
        before: Activity | None,
        seen: TritonMetrics,
        rows: Rows,
        now_s: float,
        ensembles: Collection[str],
    ) -> None:
        self._before, self._seen, self._now_s = before, seen, now_s
        # Whether this Triton has the gauge; before 23.09 there was none.
        self._has_gauge = PENDING in seen.series
        self._waits = sum(n for model, n in rows.pending.items() if model not in ensembles)
        self._lines = _without(rows.of, ensembles)
        old = _without((before and before.lines) or {}, ensembles)
        changed = {line: now for line, now in self._lines.items() if now != old.get(line)}
        self._grown = {line: now.since(old.get(line, NOTHING)) for line, now in changed.items()}
        moved = before is None or bool(changed) or not old.keys() <= self._lines.keys()
        self._moved = moved
        if before is None or moved or self._waits:
            self.quiet_at_s = now_s + max(SHORTEST_S, FACTOR * self._longest_mean_s())
            self.moved_s = now_s
        else:
            self.quiet_at_s, self.moved_s = before.quiet_at_s, before.moved_s
        self._quiet = not moved and not self._waits and now_s >= self.quiet_at_s

    def pending(self) -> Sample[float]:
        """Return the waiting requests: the gauge, or an estimate without one."""
        if self._has_gauge:
            return Known(self._waits)
        told = self._seen.total(PENDING)
        if isinstance(told, Known) or not isinstance(self._seen.total(QUEUE_US), Known):
            return told
        if self._quiet:
            return Known(0.0)
        if self._before is None:
            return Unknown(f"{told.reason}, and a single scrape does not tell how they grow")
        if not self._moved:
            return self._before.pending
        return Known(self._per_second(summed(self._grown.values()).queue_us))

    def executing(self) -> Sample[float]:
        """Return the estimate of executing requests."""
        if self._waits:
            return Known(max(1.0, self._little()))
        if self._before is None:
            return Unknown("a single scrape does not tell what executes")
        if self._moved:
            return Known(max(LEAST, self._little()))
        return Known(0.0) if self._quiet else self._before.executing

    def _little(self) -> float:
        """Return the mean number of executing requests between two scrapes, by Little's law."""
        counted = summed(self._grown.values())
        return self._per_second(counted.request_us - counted.queue_us)

    def _per_second(self, grown_us: float) -> float:
        """Return *grown_us* in seconds, divided by the seconds since the counters last moved."""
        since_s = 0.0 if self._before is None else self._now_s - self._before.moved_s
        return max(0.0, grown_us / 1e6 / since_s) if since_s > 0 else 0.0

    def _longest_mean_s(self) -> float:
        """Return the longest mean execution time, of all lines since their start or recently."""
        means_us = (
            # Without the waiting time, since nothing waits when this counts. Without a gauge that
            # is not known, so the waiting time stays in.
            (one.request_us - (one.queue_us if self._has_gauge else 0.0)) / one.completed
            for one in (*self._lines.values(), *self._grown.values())
            if one.completed > 0
        )
        return max(means_us, default=0.0) / 1e6


def _without(
    lines: Mapping[Line, CounterSet], ensembles: Collection[str]
) -> Mapping[Line, CounterSet]:
    if not ensembles:
        return lines
    return {line: one for line, one in lines.items() if line[0] not in ensembles}
