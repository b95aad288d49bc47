"""Find instances whose requests fail, stall or are slow. Pure.

Each model is compared with the same model on other instances, or, if there are none, with its own
past.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet

from tarn.domain.counted import requests_wait
from tarn.domain.counters import CounterSet
from tarn.domain.instance import Ejection, Instance, Symptom
from tarn.domain.outcomes import OutcomeHistory, RequestCounts
from tarn.domain.spec import UnwellSpec

__all__ = ["Evidence", "SymptomFound", "stalled_after_s"]

# A smaller share of failed requests makes no instance suspect; users can have alerts of their own.
LEAST_SHARE = 0.2
# Times the share elsewhere.
TIMES_OTHERS = 3.0
# This share may fail on any instance, because of what callers send.
USUAL_SHARE = 0.05
# A difference that chance brings less than once in a billion looks (Chernoff's bound).
CERTAINTY = math.log(1e9)
# A model fails alike if at least this share of its requests fails on every instance.
ALIKE_SHARE = 0.3
STALLED_LEAST_S = 10.0
# Times the model's own mean compute time.
STALLED_MEANS = 10.0
# Times the longest request that was seen: some models are slow at times, and healthy.
STALLED_LONGEST = 3.0
# Times that limit for a model that has not completed any request here: it may still compile.
FIRST_TIMES = 6.0
# Times the usual compute time from which an instance is slow.
SLOW_TIMES = 4.0
# A smaller difference does not matter to users, even if it is a large factor.
SLOW_LEAST_S = 0.001
# Times ``min_requests``: a mean of few is not a mean.
SLOW_REQUESTS = 5
# Computing times can be compared if the mean batch sizes differ at most by this factor.
SAME_BATCH = 1.5

SymptomFound = tuple[Symptom, str, str, bool]
"""A symptom, the model, what was seen, and whether no other instance could be compared."""


def stalled_after_s(spec: UnwellSpec, mean_s: float = 0.0, longest_s: float = 0.0) -> float:
    """Return after how many seconds without an answer waiting requests are stalled.

    *mean_s* is the model's mean compute time, *longest_s* the longest that was seen.
    """
    if not isinstance(spec.stalled_after_s, str):
        return spec.stalled_after_s
    return max(STALLED_LEAST_S, STALLED_MEANS * mean_s, STALLED_LONGEST * longest_s)


class Evidence:
    """Finds the symptoms that one history shows.

    Args:
        history: The results of requests, with the newest look.
        spec: ``instance.unwell`` of the spec.
        ejections: When each instance came back; what it did before does not count any more.
    """

    def __init__(
        self, history: OutcomeHistory, spec: UnwellSpec, ejections: Mapping[str, Ejection]
    ) -> None:
        self._history, self._spec, self._ejections = history, spec, ejections
        self._least = spec.min_requests

    def failing(
        self, model: str, serving: list[Instance], doubted: AbstractSet[str]
    ) -> dict[str, SymptomFound]:
        """Return those of *doubted* that fail far more requests of *model* than others."""
        found: dict[str, SymptomFound] = {}
        elsewhere: dict[int, _Elsewhere] = {}
        for instance in serving:
            if instance.id not in doubted:
                continue
            place, own = self._newest(instance.id, model)
            if own is None or own.share < LEAST_SHARE:
                continue
            if place not in elsewhere:
                elsewhere[place] = _Elsewhere(self._shares(place, model, serving), self._least)
            others = elsewhere[place]
            if instance.id in others.better:
                continue
            alone = others.ended - own.ended < self._least
            usual = self._past(place, instance.id, model) if alone else others.share
            if usual is None or not _differs(own, usual):
                continue
            span_s = self._history.at_s - self._history.looks[place].at_s
            said = (
                f"model '{model}' failed {round(own.failed)} of {round(own.ended)} requests "
                f"in {span_s:.0f} s"
            )
            where = "before" if alone else "on other instances"
            found[instance.id] = Symptom.FAILING, model, f"{said}, {usual:.0%} {where}", alone
        return found

    def _newest(self, instance_id: str, model: str) -> tuple[int, CounterSet | None]:
        """Return the shortest span with enough requests, and what ended in it; None: too few."""
        known = self._ejections.get(instance_id)
        since_s = known.back_s if known is not None else 0.0
        return self._history.enough(instance_id, model, since_s, self._least)

    def _shares(
        self, place: int, model: str, serving: list[Instance]
    ) -> Iterator[tuple[str, CounterSet]]:
        for instance in serving:
            one = self._history.since(place, instance.id, model)
            if one is not None and one.ended:
                yield instance.id, one

    def _past(self, place: int, instance_id: str, model: str) -> float | None:
        """Return the share that failed before the look at *place*; None: too few requests."""
        for look in self._history.looks[: place + 1]:
            old = look.of.get(instance_id, {}).get(model)
            if old is not None and old.completed + old.failed >= self._least:
                return old.failed / (old.completed + old.failed)
        return None

    def alike_failing(self, model: str, serving: list[Instance]) -> str:
        """Say how *model* fails on all instances alike; empty if it does not."""
        history, few = self._history, self._least / 4
        for place in range(len(history.looks) - 2, -1, -1):
            rows: list[tuple[str, CounterSet]] = []
            for row in self._shares(place, model, serving):
                if row[1].ended >= few and row[1].share < LEAST_SHARE:
                    return ""  # for a healthy model, this is mostly the very first instance
                rows.append(row)
            failed, ended = sum(g.failed for _, g in rows), sum(g.ended for _, g in rows)
            if ended < self._least:
                continue
            if len(rows) == 1:  # if it did not fail in the past, the instance may be to blame
                past = self._past(place, rows[0][0], model)
                if past is not None and past < LEAST_SHARE:
                    return ""
            if failed / ended < ALIKE_SHARE:
                return ""
            span_s = history.at_s - history.looks[place].at_s
            where = "the only instance" if len(rows) == 1 else f"all {len(rows)} instances"
            counts = f"{round(failed)} of {round(ended)} requests failed"
            return f"{counts} in {span_s:.0f} s, on {where}"
        return ""

    def stalled(self, model: str, serving: list[Instance]) -> dict[str, SymptomFound]:
        """Return the instances in which requests for *model* wait and none completes."""
        stalls = self._history.stalls
        waiting = [i for i in serving if (i.id, model) in stalls]
        if not waiting:
            return {}
        newest = self._history.newest
        mean_s = _mean_s(newest[i.id][model] for i in serving)
        working: set[str] | None = None
        found: dict[str, SymptomFound] = {}
        for instance in waiting:
            stall = stalls[instance.id, model]
            limit_s = self._limit_s(newest[instance.id].get(model), model, mean_s)
            if stall.seen_s - stall.since_s < limit_s:
                continue
            if working is None:
                lately_s = self._history.at_s - limit_s / 2
                lately = {i.id: self._history.since_about(lately_s, i.id, model) for i in serving}
                working = {id_ for id_, one in lately.items() if one and one.completed > 0}
            alone = not working - {instance.id}
            waits, for_s = requests_wait(round(stall.pending)), stall.seen_s - stall.since_s
            said = f"model '{model}': {waits}, and none was answered well for {for_s:.0f} s"
            found[instance.id] = Symptom.STALLED, model, said, alone
        return found

    def _limit_s(self, outcome: RequestCounts | None, model: str, mean_s: float) -> float:
        limit_s = stalled_after_s(self._spec, mean_s, self._history.longest.get(model, 0.0))
        return limit_s if outcome is not None and outcome.completed else FIRST_TIMES * limit_s

    def slow(self, ready: list[Instance]) -> dict[str, SymptomFound]:
        """Return the instances whose compute times are several times those of the others."""
        found: dict[str, SymptomFound] = {}
        rows: dict[str, list[tuple[float, float, Instance]]] = {}
        for instance in ready:
            for model in self._history.newest.get(instance.id, ()):
                one = self._history.since(0, instance.id, model)
                # Answers from the response cache would make an instance with a new cache look slow.
                if one is not None and one.computed >= SLOW_REQUESTS * self._least:
                    batch = one.inferences / one.executions if one.executions else 1.0
                    mean_s = one.compute_us / one.computed / 1e6
                    rows.setdefault(model, []).append((mean_s, batch, instance))
        for model, measured in sorted(rows.items()):
            if len(measured) > 1:
                self._judge_times(model, sorted(measured, key=lambda row: row[0]), found)
        return found

    def _judge_times(
        self,
        model: str,
        by_mean: list[tuple[float, float, Instance]],
        found: dict[str, SymptomFound],
    ) -> None:
        usual_s, usual_batch, _ = by_mean[(len(by_mean) - 1) // 2]
        for mean_s, batch, instance in reversed(by_mean):
            if mean_s < SLOW_TIMES * usual_s or mean_s - usual_s < SLOW_LEAST_S:
                return
            if max(batch, usual_batch) > SAME_BATCH * min(batch, usual_batch):
                continue
            said = (
                f"model '{model}' computes {mean_s * 1e3:.3g} ms a request on average, and "
                f"{usual_s * 1e3:.3g} ms on other instances"
            )
            found.setdefault(instance.id, (Symptom.SLOW, model, said, False))


class _Elsewhere:
    """Results of one model's requests in one span, on the better half of its instances."""

    # Instances of that half that fail far more than the best ones are left out: one instance that
    # works is enough to show that the model does.

    def __init__(self, rows: Iterable[tuple[str, CounterSet]], least: float) -> None:
        by_share = sorted(rows, key=lambda row: (row[1].share, row[0]))
        count = max(1, len(by_share) // 2)
        ended = failed = 0.0
        ids: set[str] = set()
        for place, (id_, one) in enumerate(by_share):
            if ended >= least and (place >= count or _differs(one, failed / ended)):
                break
            ids.add(id_)
            ended, failed = ended + one.ended, failed + one.failed
        self.share = failed / ended if ended else 0.0
        self.ended = sum(one.ended for _, one in by_share)
        """Requests that ended on all instances."""
        self.better = ids if len(by_share) > 1 and ended < self.ended else set[str]()
        """Ids of the better half; empty if there is no other half."""


def _differs(own: CounterSet, usual: float) -> bool:
    """Say whether *own* fails far more than the *usual* share, by more than chance brings."""
    share = own.share
    if share < max(LEAST_SHARE, TIMES_OTHERS * usual):
        return False
    expected = min(max(usual, USUAL_SHARE), 1 - 1e-9)
    apart = share * math.log(share / expected)
    if share < 1:
        apart += (1 - share) * math.log((1 - share) / (1 - expected))
    return own.ended * apart >= CERTAINTY


def _mean_s(outcomes: Iterable[RequestCounts]) -> float:
    """Return the mean compute time; 0 before any request was computed."""
    computed = compute_us = 0.0
    for one in outcomes:
        computed, compute_us = computed + one.computed, compute_us + one.compute_us
    return compute_us / computed / 1e6 if computed else 0.0
