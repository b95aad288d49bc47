"""Whether a Triton still executes requests: an estimate, since no Triton says so. Pure.

What was measured on Triton 2.51 with a Python model that takes 4 s:

- While one request executes, ``nv_inference_pending_request_count`` is 0, and neither a metric nor
  ``/v2/models/stats`` differs from an idle server by a single digit: all counters move when a
  request *ends*. Of three requests sent at once to one model instance, pending says 2.
- Only what changes the server tells: an *unload* keeps the model UNLOADING until the last request
  in it ended (new ones get "no available versions"), and *SIGTERM* refuses new connections and
  lets queued and executing requests end, up to ``--exit-timeout-secs``.

So the estimate is: while something waits, something executes. While counters move, as many execute
as Little's law says. Once nothing waits and no counter moved for `FACTOR` times the longest mean
execution of a request of any model, at least for `SHORTEST_S`, nothing executes.

An ensemble executes nothing itself: all of its time a request of it waits for, or executes in, one
of its parts, and each of these counts for itself. Its own duration holds theirs, and what they
waited; so ensembles are left out (seen: four requests counted as seven, and an idle Triton as busy
for 15 s). A Python model that calls another one (business logic scripting) cannot be told from its
numbers: a request in such a call counts twice, and what it waited for there lengthens its mean.

Triton before 23.09 (2.38) has no pending gauge. There the queue is estimated, too: as many wait, in
the mean of a span, as its requests waited seconds for each second of it (Little's law again). Once
nothing executes nothing waits, since whatever waits would execute.

The limit of all this: a request that runs far longer than its model's mean (the first 60 s request
of a model that took 1 s until now) is taken for idleness. Who stops an instance on this word must
therefore stop it by SIGTERM, with an exit timeout, and not by SIGKILL.
"""

import functools
from collections.abc import Collection, Iterator

import attrs

from tarn.domain.samples import Known, Sample, Unknown
from tarn.triton.metrics import (
    EXECUTIONS,
    FAILURE,
    INFERENCES,
    PENDING,
    QUEUE_US,
    REQUEST_US,
    SUCCESS,
    TritonMetrics,
    labels,
)

__all__ = ["FACTOR", "SHORTEST_S", "Activity", "observe"]

FACTOR = 3.0
"""Times the longest mean duration: of exponentially long requests, one in twenty is longer."""

SHORTEST_S = 0.5
"""Counters must be seen still for this long; two scrapes can come close together."""

LEAST = 0.01
"""Executing is reported at least so high while it is not known to be nothing."""

_COUNTERS = (SUCCESS, FAILURE, INFERENCES, EXECUTIONS, REQUEST_US)


@attrs.frozen
class Activity:
    """What a row of scrapes of one instance tells about what it executes."""

    executing: Sample[float]
    """Requests in execution: 0 when none seem to be, else an estimate above 0."""
    pending: Sample[float]
    """Requests that wait: what the gauge says, or an estimate where this Triton has none."""
    quiet_at_s: float
    """Monotonic second from which unmoved counters mean idleness."""
    moved_s: float
    """Monotonic second of the newest scrape that differed from the one before."""
    seen: TritonMetrics = attrs.field(repr=False)
    work: TritonMetrics = attrs.field(repr=False)
    """What was seen, without the ensembles."""


def observe(
    before: Activity | None,
    seen: TritonMetrics,
    now_s: float,
    ensembles: Collection[str] = (),
) -> Activity:
    """Return what *seen*, scraped at *now_s*, tells after everything *before*.

    Args:
        before: The activity at the last scrape; None at the first one: then ``executing`` is
            Unknown, or at least 1 when something waits. Scrapes that failed may lie between.
        seen: The newest scrape.
        now_s: Its monotonic second.
        ensembles: The models that are ensembles; one that is not known yet counts as a model.
    """
    whole, seen = seen, _without(seen, frozenset(ensembles))
    if before is not None and ensembles:
        before = attrs.evolve(before, work=_without(before.work, frozenset(ensembles)))
    moved = before is None or any(
        before.work.series.get(name) != seen.series.get(name) for name in _COUNTERS
    )
    waits = _value(seen.total(PENDING)) > 0
    if before is None or moved or waits:
        quiet_at_s = now_s + max(SHORTEST_S, FACTOR * _longest_mean_s(before, seen))
        moved_s = now_s
    else:
        quiet_at_s, moved_s = before.quiet_at_s, before.moved_s
    quiet = not moved and not waits and now_s >= quiet_at_s
    pending = _pending(before, seen, now_s, moved=moved, quiet=quiet)
    if isinstance(pending, Unknown):
        executing: Sample[float] = pending
    elif waits:
        executing = Known(max(1.0, _little(before, seen, now_s)))
    else:
        executing = _executing(before, seen, now_s, moved=moved, quiet=quiet)
    return Activity(executing, pending, quiet_at_s, moved_s, whole, seen)


def _pending(
    before: Activity | None, seen: TritonMetrics, now_s: float, *, moved: bool, quiet: bool
) -> Sample[float]:
    told = seen.total(PENDING)
    if isinstance(told, Known) or not _is_old(seen):
        return told
    if quiet:
        return Known(0.0)
    if before is None:
        return Unknown(f"{told.reason}, and a single scrape does not tell how they grow")
    if not moved:
        return before.pending
    return Known(_per_second(before, now_s, _growth(before.work, seen, QUEUE_US)))


def _is_old(seen: TritonMetrics) -> bool:
    """Say whether this Triton counts requests, and has no gauge for those that wait."""
    absent = PENDING not in seen.series and PENDING not in seen.unreadable
    return absent and isinstance(seen.total(QUEUE_US), Known)


def _executing(
    before: Activity | None, seen: TritonMetrics, now_s: float, *, moved: bool, quiet: bool
) -> Sample[float]:
    if before is None:
        return Unknown("a single scrape does not tell what executes")
    if moved:
        return Known(max(LEAST, _little(before, seen, now_s)))
    return Known(0.0) if quiet else before.executing


def _little(before: Activity | None, seen: TritonMetrics, now_s: float) -> float:
    """Return the mean number in execution between two scrapes, by Little's law."""
    if before is None:
        return 0.0
    in_requests_us = _growth(before.work, seen, REQUEST_US) - _growth(before.work, seen, QUEUE_US)
    return _per_second(before, now_s, in_requests_us)


def _per_second(before: Activity, now_s: float, grown_us: float) -> float:
    """Return *grown_us* in seconds, for each second since a scrape last differed."""
    since_s = now_s - before.moved_s
    return max(0.0, grown_us / 1e6 / since_s) if since_s > 0 else 0.0


def _longest_mean_s(before: Activity | None, seen: TritonMetrics) -> float:
    """Return how long a request executes in the mean: of the slowest model, or of the newest ones.

    What it waited is not part of it: nothing waits when this is asked. Where that cannot be known,
    since there is no gauge for it, it is.
    """
    counts = dict(seen.series.get(SUCCESS, ()))
    queued = {} if _is_old(seen) else dict(seen.series.get(QUEUE_US, ()))
    means = [
        (duration_us - queued.get(raw, 0.0)) / count
        for raw, duration_us in seen.series.get(REQUEST_US, ())
        if (count := counts.get(raw, 0.0)) > 0
    ]
    if before is not None:
        means.extend(_newest_means(before.work, seen))
    return max(means, default=0.0) / 1e6


def _newest_means(before: TritonMetrics, seen: TritonMetrics) -> Iterator[float]:
    """Yield how long the requests of each model executed in the mean that ended in between."""

    def grown(family: str) -> dict[bytes, float]:
        old = dict(before.series.get(family, ()))
        return {
            raw: max(0.0, value - old.get(raw, 0.0)) for raw, value in seen.series.get(family, ())
        }

    ended, took_us = grown(SUCCESS), grown(REQUEST_US)
    waited_us = {} if _is_old(seen) else grown(QUEUE_US)
    for raw, duration_us in took_us.items():
        if ended.get(raw, 0.0) > 0:
            yield (duration_us - waited_us.get(raw, 0.0)) / ended[raw]


def _without(seen: TritonMetrics, ensembles: frozenset[str]) -> TritonMetrics:
    """Return *seen* without the rows of *ensembles*."""
    if not ensembles:
        return seen
    series = {
        family: tuple(row for row in rows if _model(row[0]) not in ensembles)
        for family, rows in seen.series.items()
    }
    kept = {family: rows for family, rows in series.items() if rows or not seen.series[family]}
    return attrs.evolve(seen, series=kept)


@functools.lru_cache(maxsize=16384)
def _model(raw: bytes) -> str:
    """Return the model that *raw* labels name; the same ones come with each scrape."""
    return labels(f"{{{raw.decode(errors='replace')}}}").get("model", "")


def _growth(before: TritonMetrics, seen: TritonMetrics, family: str) -> float:
    """Return by how much a counter grew; 0 when it fell: a model was loaded again."""
    return max(0.0, _value(seen.total(family)) - _value(before.total(family)))


def _value(sample: Sample[float]) -> float:
    return sample.value if isinstance(sample, Known) else 0.0
