"""Judge instances by the outcomes of their requests: suspect, confirm, take out, bring back. Pure.

In the words of Envoy's outlier detection: an outlier is *ejected* from the view, and comes back.
What is better here: a *test request* of our own says whether the instance or its callers are to
blame; only what it confirms is replaced; and what all instances have alike ends none of them.

Two looks in a row must agree before anything is marked, since two instances are never read at the
same moment: what begins everywhere at once is seen on one of them first.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import attrs

from tarn.domain.fleet import Fleet, Rules
from tarn.domain.instance import Instance, State
from tarn.domain.outcomes import Grown, RequestCounts, Stall
from tarn.domain.reading import Reading
from tarn.domain.spec import UnwellSpec
from tarn.domain.unwell import Alike, Ejection, Symptom, Unwell

__all__ = [
    "FOR_UNWELL",
    "Suspicion",
    "judge_outcomes",
    "may_eject",
    "stalled_after_s",
    "suspect_at_once",
]

FOR_UNWELL = "it is unwell, as test requests confirmed"
"""Why an unwell instance that is still in the view retires."""

LEAST_SHARE = 0.2
"""A smaller share of failed requests is for alerts of the users' own; nobody is doubted for it."""
TIMES_OTHERS = 3.0
"""Times the share elsewhere."""
USUAL_SHARE = 0.05
"""So many may fail anywhere, by what callers send."""
CERTAINTY = math.log(1e9)
"""A difference that chance brings less than once in a billion looks (Chernoff's bound)."""
ALIKE_SHARE = 0.3
"""A model of which so many requests fail, on every instance, is alike."""
STALLED_LEAST_S = 10.0
STALLED_MEANS = 10.0
"""Times the model's own mean compute time."""
STALLED_LONGEST = 3.0
"""Times the longest request that was seen: some models are slow at times, and well."""
FIRST_TIMES = 6.0
"""Times all that, for a model that has not completed anything here yet: it may still compile."""
CONFIRM = 2
"""Failed test requests in a row that confirm."""
PASSES = 3
"""Test requests answered well in a row that bring one back; doubled by each further ejection."""
MOST_DOUBLINGS = 4
UNTESTED_S = 30.0
"""How long one is ejected that cannot be tested; doubled by each further ejection."""
UNTESTED_EJECTIONS = 3
"""Ejections in a row that confirm one that cannot be tested."""
FORGET_S = 900.0
"""An ejection is forgotten when the instance was well for so long since."""
CALM_S = 10.0
"""One that serves on is well again when nothing spoke against it for so long."""
SLOW_EACH_S = 10.0
SLOW_TIMES = 4.0
SLOW_LEAST_S = 0.001
SLOW_REQUESTS = 5
"""Times ``min_requests``: a mean of few is no mean."""
SAME_BATCH = 1.5
"""Times another mean batch size within which computing times can be compared."""

Note = tuple[str, str, str]
_Found = tuple[Symptom, str, str, bool]
"""A symptom, the model, what was seen, and whether there was nothing to compare with."""


def judge_outcomes(  # noqa: PLR0913 (what was read, and when)
    fleet: Fleet,
    readings: Mapping[str, Reading],
    rules: Rules,
    now_s: float,
    at: float,
    *,
    doubt: bool = False,
) -> Fleet:
    """Return *fleet* after the newest outcomes and the answers to test requests.

    *doubt*: our own tick came much too late, or we could not look: nobody is marked or ejected.
    """
    due, unwell = fleet.outcomes.due(now_s), any(i.unwell is not None for i in fleet.instances)
    if not due and not unwell:
        return fleet
    if not unwell and not fleet.noticed and not fleet.alike and fleet.outcomes.rests(readings):
        return fleet
    judge = _Judge(fleet, rules, now_s)
    if unwell:
        judge.hear_tests(readings)
    if due:
        judge.look(readings, doubt=doubt or fleet.frozen_s is not None)
    judge.keep_bound()
    return judge.result(at)


class Suspicion(NamedTuple):
    """What makes an instance suspect without any counter."""

    instance_id: str
    model: str
    said: str


def suspect_at_once(
    fleet: Fleet, suspicions: Iterable[Suspicion], rules: Rules, now_s: float, at: float
) -> Fleet:
    """Return *fleet* with those suspected at once of which one fact tells more than a counter.

    Each is ejected as far as the view's bound allows, and gets test requests; one that is
    suspected already stays so.
    """
    judge = _Judge(fleet, rules, now_s)
    for one in suspicions:
        judge.suspect(one.instance_id, one.model, one.said)
    return judge.result(at)


def may_eject(instances: Iterable[Instance]) -> int:
    """Return how many more may be ejected; negative: so many have to come back.

    At most half of the ready ones are ejected, and never the last one that is in the view.
    """
    ready = [i for i in instances if i.state is State.READY]
    ejected = sum(i.unwell is not None and i.unwell.ejected for i in ready)
    in_view = sum(i.in_view for i in ready)
    if in_view == 0 and ejected:
        return min(-1, len(ready) // 2 - ejected)
    room = len(ready) // 2 - ejected
    return min(room, max(0, in_view - 1))


def stalled_after_s(spec: UnwellSpec, mean_s: float = 0.0, longest_s: float = 0.0) -> float:
    """Return after how long without an answer requests that wait are stalled.

    *mean_s* is the model's mean compute time, *longest_s* the longest that was seen.
    """
    if not isinstance(spec.stalled_after_s, str):
        return spec.stalled_after_s
    return max(STALLED_LEAST_S, STALLED_MEANS * mean_s, STALLED_LONGEST * longest_s)


class _Judge:
    """One judgement of a fleet: what it looks at, and what becomes of it."""

    def __init__(self, fleet: Fleet, rules: Rules, now_s: float) -> None:
        self._fleet, self._rules, self._now_s = fleet, rules, now_s
        self._spec = rules.spec.instance.unwell
        self._least = self._spec.min_requests
        self._changed: dict[str, Unwell | None] = {}
        self._history = fleet.outcomes
        self._noticed = fleet.noticed
        self._seen: dict[tuple[str, str], float] = {}
        self._fresh: list[str] = []
        self._stays: set[str] = set()
        self._ejections = dict(fleet.ejections)
        self._alike = fleet.alike
        self._notes: list[Note] = []

    def result(self, at: float) -> Fleet:
        """Return the fleet with all that was found."""
        fleet = self._fleet
        if self._history is not fleet.outcomes:
            alive = {i.id for i in fleet.instances}
            ejections = {id_: one for id_, one in self._ejections.items() if id_ in alive}
            fleet = attrs.evolve(
                fleet,
                outcomes=self._history,
                noticed=self._noticed,
                ejections=ejections,
                alike=self._alike,
            )
        elif self._ejections != fleet.ejections:
            fleet = attrs.evolve(fleet, ejections=self._ejections)
        if self._changed:
            changed = self._changed
            instances = tuple(
                self._after(i, changed[i.id]) if i.id in changed else i for i in fleet.instances
            )
            fleet = attrs.evolve(fleet, instances=instances)
        return fleet.notes(at, self._notes) if self._notes else fleet

    def _after(self, instance: Instance, unwell: Unwell | None) -> Instance:
        if instance.id in self._stays and instance.retiring_for == FOR_UNWELL:
            return instance.but(unwell=unwell, retiring=None, retiring_for="")
        return instance.but(unwell=unwell)

    def _now(self, instance: Instance) -> Unwell | None:
        return self._changed.get(instance.id, instance.unwell)

    def _twice(self, key: tuple[str, str]) -> bool:
        """Say whether *key* was noticed at an earlier look too, and the ones between."""
        first_s = self._noticed.get(key, self._now_s)
        self._seen[key] = first_s
        return self._now_s - first_s >= self._rules.spec.scaling.interval_s

    # -- test requests -----------------------------------------------------------------------

    def hear_tests(self, readings: Mapping[str, Reading]) -> None:
        """Count the answers to test requests that were sent since an instance was marked."""
        for instance in self._fleet.of(State.READY):
            unwell, reading = instance.unwell, readings.get(instance.id)
            if unwell is None or not unwell.severe or reading is None or reading.tested is None:
                continue
            tested = reading.tested
            if tested.number <= unwell.tests or tested.asked_s < unwell.since_s:
                continue
            if tested.ok:
                after = attrs.evolve(
                    unwell, tests=tested.number, passed=unwell.passed + 1, lost=0, answer=""
                )
            else:
                said = tested.said.partition("\n")[0] or "it failed"
                after = attrs.evolve(
                    unwell, tests=tested.number, passed=0, lost=unwell.lost + 1, answer=said
                )
            self._changed[instance.id] = self._weighed(instance, after)

    def _weighed(self, instance: Instance, unwell: Unwell) -> Unwell | None:
        """Return *unwell* confirmed, cleared or as it is, by its test requests."""
        over = unwell.symptom is Symptom.STALLED and not self._history.waits(
            instance.id, unwell.model
        )
        if unwell.lost >= CONFIRM and not (unwell.confirmed or unwell.for_all or over):
            return attrs.evolve(unwell, confirmed_s=self._now_s)
        if unwell.ejected and unwell.passed >= PASSES * self._doubled(instance.id):
            self._well(instance, "its test requests are answered well")
            return None
        if unwell.confirmed and unwell.passed >= PASSES:
            self._stays.add(instance.id)
            return attrs.evolve(unwell, confirmed_s=None)
        return unwell

    def _doubled(self, instance_id: str) -> int:
        """Return by how much its ejections lengthen the next way back."""
        known = self._ejections.get(instance_id)
        return 2 ** min(known.count - 1, MOST_DOUBLINGS) if known is not None else 1

    def _well(self, instance: Instance, why: str) -> None:
        """Clear *instance*; what it did until now counts no more."""
        known = self._ejections.get(instance.id)
        if known is not None:
            self._ejections[instance.id] = attrs.evolve(known, back_s=self._now_s)
        self._changed[instance.id] = None
        self._stays.add(instance.id)
        unwell = instance.unwell
        if unwell is None or not unwell.for_all:
            self._notes.append(("TARN-1132", instance.id, why))

    def suspect(self, instance_id: str, model: str, said: str) -> None:
        """Mark one for what was seen of it."""
        ready = list(self._fleet.of(State.READY))
        for instance in ready:
            unwell = self._now(instance)
            if instance.id == instance_id and (unwell is None or not unwell.severe):
                self._begin(instance, (Symptom.FAILING, model, said, False))
        self._eject(ready)
        self._tell(ready)

    # -- looks -------------------------------------------------------------------------------

    def look(self, readings: Mapping[str, Reading], *, doubt: bool) -> None:
        """Look at the counters, and mark, eject and clear by what they show."""
        history = self._history.looked(readings, self._now_s, self._spec.window_s)
        self._history = history
        if doubt:
            return
        ready = [i for i in self._fleet.instances if i.state is State.READY]
        unwell = [i for i in ready if self._now(i) is not None]
        models = {*history.failing, *(model for _, model in history.stalls)}
        models.update(one.model for one in self._alike)
        models.update(u.model for i in unwell if (u := self._now(i)) is not None)
        slow_due = self._now_s - history.slow_s >= SLOW_EACH_S and len(history.looks) > 1
        if not models and not self._noticed and not slow_due:
            self._forget()
            return
        found: dict[str, _Found] = {}
        for model in sorted(models):
            serving = [i for i in ready if model in history.newest.get(i.id, ())]
            self._judge_model(model, serving, found)
        if slow_due:
            self._judge_slow(ready, found)
        self._mark(ready, found, looked_slow=slow_due)
        self._forget()

    def _judge_model(self, model: str, serving: list[Instance], found: dict[str, _Found]) -> None:
        alike = ""
        if model in self._history.failing or self._is_alike(model):
            alike = self._alike_failing(model, serving)
        if alike:
            self._note_alike(model, Symptom.FAILING, alike, serving)
            return
        stalled = self._stalled(model, serving)
        if len(stalled) > 1 and all(alone for *_, alone in stalled.values()):
            waits = round(sum(self._history.stalls[id_, model].pending for id_ in stalled))
            alike = f"{waits} requests wait on {len(stalled)} instances, and none is answered"
            self._note_alike(model, Symptom.STALLED, alike, serving)
            return
        self._alike_over(model)
        for id_, one in (*stalled.items(), *self._failing(model, serving).items()):
            found.setdefault(id_, one)

    # failing

    def _failing(self, model: str, serving: list[Instance]) -> dict[str, _Found]:
        """Return the instances that fail far more requests of *model* than others."""
        doubted = set(self._history.failing.get(model, ()))
        doubted |= {i.id for i in serving if (u := self._now(i)) is not None and u.model == model}
        found: dict[str, _Found] = {}
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

    def _newest(self, instance_id: str, model: str) -> tuple[int, Grown | None]:
        """Return the shortest span with enough requests, and what ended in it; None: too few."""
        known = self._ejections.get(instance_id)
        since_s = known.back_s if known is not None else 0.0
        return self._history.enough(instance_id, model, since_s, self._least)

    def _shares(
        self, place: int, model: str, serving: list[Instance]
    ) -> Iterator[tuple[str, Grown]]:
        for instance in serving:
            one = self._history.since(place, instance.id, model)
            if one is not None and one.ended:
                yield instance.id, one

    def _past(self, place: int, instance_id: str, model: str) -> float | None:
        """Return the share that failed before the look at *place*, as long ago as is known.

        None: there were too few requests to say.
        """
        for look in self._history.looks[: place + 1]:
            old = look.of.get(instance_id, {}).get(model)
            if old is not None and old.completed + old.failed >= self._least:
                return old.failed / (old.completed + old.failed)
        return None

    def _alike_failing(self, model: str, serving: list[Instance]) -> str:
        """Say how *model* fails on all instances alike; empty where it does not."""
        history, few = self._history, self._least / 4
        for place in range(len(history.looks) - 2, -1, -1):
            rows: list[tuple[str, Grown]] = []
            for row in self._shares(place, model, serving):
                if row[1].ended >= few and row[1].share < LEAST_SHARE:
                    return ""  # mostly the very first one: healthy models fail at times, too
                rows.append(row)
            failed, ended = sum(g.failed for _, g in rows), sum(g.ended for _, g in rows)
            if ended < self._least:
                continue
            if len(rows) == 1:  # alone: its own past may say that it is the instance
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

    # stalled

    def _stalled(self, model: str, serving: list[Instance]) -> dict[str, _Found]:
        """Return the instances in which requests for *model* wait and none ends."""
        stalls = self._history.stalls
        waiting = [i for i in serving if (i.id, model) in stalls]
        if not waiting:
            return {}
        newest = self._history.newest
        mean_s = _mean_s(newest[i.id][model] for i in serving)
        working: set[str] | None = None
        found: dict[str, _Found] = {}
        for instance in waiting:
            stall = stalls[instance.id, model]
            limit_s = self._limit_s(newest[instance.id].get(model), model, mean_s)
            if stall.seen_s - stall.since_s < limit_s:
                continue
            if working is None:
                lately_s = self._now_s - limit_s / 2
                working = {i.id for i in serving if self._completed(model, i, lately_s)}
            alone = not working - {instance.id}
            found[instance.id] = Symptom.STALLED, model, _waits(stall, model), alone
        return found

    def _limit_s(self, outcome: RequestCounts | None, model: str, mean_s: float) -> float:
        limit_s = stalled_after_s(self._spec, mean_s, self._history.longest.get(model, 0.0))
        return limit_s if outcome is not None and outcome.completed else FIRST_TIMES * limit_s

    def _completed(self, model: str, instance: Instance, since_s: float) -> bool:
        """Say whether *instance* has completed a request for *model* since then, or just before."""
        looks = self._history.looks
        place = max((p for p, look in enumerate(looks[:-1]) if look.at_s <= since_s), default=0)
        if len(looks) < 2:  # noqa: PLR2004 (growth lies between two)
            return False
        one = self._history.since(place, instance.id, model)
        return one is not None and one.completed > 0

    # slow

    def _judge_slow(self, ready: list[Instance], found: dict[str, _Found]) -> None:
        """Find the instances whose compute times are several times those of the others."""
        self._history = attrs.evolve(self._history, slow_s=self._now_s)
        rows: dict[str, list[tuple[float, float, Instance]]] = {}
        for instance in ready:
            for model in self._history.newest.get(instance.id, ()):
                one = self._history.since(0, instance.id, model)
                if one is not None and one.completed >= SLOW_REQUESTS * self._least:
                    batch = one.inferences / one.executions if one.executions else 1.0
                    mean_s = one.compute_us / one.completed / 1e6
                    rows.setdefault(model, []).append((mean_s, batch, instance))
        for model, measured in sorted(rows.items()):
            if len(measured) > 1:
                self._judge_times(model, sorted(measured, key=lambda row: row[0]), found)

    def _judge_times(
        self, model: str, by_mean: list[tuple[float, float, Instance]], found: dict[str, _Found]
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

    # -- marks -------------------------------------------------------------------------------

    def _mark(self, ready: list[Instance], found: dict[str, _Found], *, looked_slow: bool) -> None:
        """Mark what two looks in a row have found, and clear what nothing speaks against."""
        if not looked_slow:  # what was noticed then is neither seen again nor over
            slow = {k: at_s for k, at_s in self._noticed.items() if k[1] == Symptom.SLOW}
            self._seen |= slow
        asked = {one.asked for one in self._alike}
        for instance in ready:
            one, unwell = found.get(instance.id), self._now(instance)
            if unwell is None or (one is not None and one[0].severe and not unwell.severe):
                if one is not None and self._twice((instance.id, str(one[0]))):
                    self._begin(instance, one)
            elif unwell.ejected:
                self._untested(instance, unwell)
            elif one is not None and one[0].severe is unwell.severe:
                self._seen_again(instance, unwell, one)
            elif instance.id not in asked:
                self._unseen(instance, unwell, looked_slow=looked_slow)
        self._noticed = self._seen
        self._eject(ready)
        self._tell(ready)

    def _begin(self, instance: Instance, one: _Found) -> None:
        symptom, model, said, alone = one
        self._changed[instance.id] = Unwell(symptom, model, said, self._now_s, alone=alone)
        self._fresh.append(instance.id)

    def _tell(self, ready: list[Instance]) -> None:
        """Note who was marked, and what follows at once."""
        for instance in ready:
            unwell = self._now(instance)
            if instance.id not in self._fresh or unwell is None:
                continue
            if not unwell.severe:
                self._notes.append(("TARN-1162", instance.id, unwell.said))
            elif unwell.ejected:
                self._notes.append(("TARN-1122", instance.id, f"{unwell.said}; it is ejected"))
            else:
                self._notes.append(("TARN-1122", instance.id, f"{unwell.said}; {self._stay()}"))

    def _stay(self) -> str:
        if not self._spec.eject:
            return "it stays in the view (instance.unwell.eject is false)"
        return (
            "it stays in the view: at most half of the ready instances are ejected, and never the "
            "last one"
        )

    def _seen_again(self, instance: Instance, unwell: Unwell, one: _Found) -> None:
        """Keep the mark. Its first words stand: they would change with every look."""
        symptom, model, said, alone = one
        if unwell.for_all:
            if self._twice((instance.id, str(symptom))):
                self._begin(instance, one)
        elif unwell.symptom is not symptom or unwell.model != model:
            self._changed[instance.id] = attrs.evolve(
                unwell, symptom=symptom, model=model, said=said, calm_s=None, alone=alone
            )
        elif unwell.calm_s is not None or unwell.alone is not alone:
            self._changed[instance.id] = attrs.evolve(unwell, calm_s=None, alone=alone)

    def _unseen(self, instance: Instance, unwell: Unwell, *, looked_slow: bool) -> None:
        """Clear one that serves on when nothing spoke against it for a while."""
        if not unwell.severe:
            if looked_slow:
                self._well(instance, "it is as fast as the others")
        elif unwell.calm_s is None:
            self._changed[instance.id] = attrs.evolve(unwell, calm_s=self._now_s)
        elif self._now_s - unwell.calm_s >= CALM_S and not unwell.lost:
            self._well(instance, "its requests are answered well")

    def _untested(self, instance: Instance, unwell: Unwell) -> None:
        """Bring one back in time that no test request can be made for; or take it as proven."""
        if unwell.tests or unwell.confirmed:
            return
        for_s = UNTESTED_S * self._doubled(instance.id)
        if self._now_s - unwell.since_s < for_s:
            return
        known = self._ejections.get(instance.id)
        count = 1 if known is None else known.count
        stalled = self._history.waits(instance.id, unwell.model)
        if stalled or count >= UNTESTED_EJECTIONS:
            why = "requests still wait in it" if stalled else f"it was ejected {count} times"
            self._changed[instance.id] = attrs.evolve(
                unwell, confirmed_s=self._now_s, answer=f"none can be sent, and {why}"
            )
            return
        self._well(instance, f"it is tried again after {for_s:.0f} s: no test request can be sent")

    # -- the view ----------------------------------------------------------------------------

    def _eject(self, ready: list[Instance]) -> None:
        """Take the unwell ones out of the view as far as its bound allows, the surest first."""
        if not self._spec.eject:
            return
        wanted = [
            (instance, unwell)
            for instance in ready
            if (unwell := self._now(instance)) is not None
            and unwell.severe
            and not unwell.ejected
            and unwell.calm_s is None
            and not (unwell.for_all or self._is_alike(unwell.model))
            and instance.in_view
        ]
        if not wanted:
            return
        room = may_eject(self._as_now(ready))
        wanted.sort(key=lambda one: (not one[1].confirmed, one[1].since_s, one[0].number))
        for instance, unwell in wanted[: max(0, room)]:
            known = self._ejections.get(instance.id)
            count = 1 if known is None else known.count + 1
            self._ejections[instance.id] = Ejection(count, self._now_s)
            self._changed[instance.id] = attrs.evolve(unwell, ejected=True)

    def keep_bound(self) -> None:
        """Bring ejected ones back where too few are left in the view, the least certain first."""
        ejected = [
            i
            for i in self._fleet.of(State.READY)
            if (unwell := self._now(i)) is not None and unwell.ejected and not i.suspect
        ]
        if not ejected:
            return
        lacking = -may_eject(self._as_now(self._fleet.instances))
        off = not self._spec.eject
        ejected.sort(key=lambda i: (i.unwell is not None and i.unwell.confirmed, -i.number))
        for instance in ejected if off else ejected[: max(0, lacking)]:
            unwell = self._now(instance)
            if unwell is not None:
                self._changed[instance.id] = attrs.evolve(unwell, ejected=False)

    def _as_now(self, instances: Iterable[Instance]) -> Iterator[Instance]:
        for i in instances:
            yield i.but(unwell=self._changed[i.id]) if i.id in self._changed else i

    # -- alike -------------------------------------------------------------------------------

    def _is_alike(self, model: str) -> bool:
        return any(one.model == model for one in self._alike)

    def _note_alike(self, model: str, symptom: Symptom, said: str, serving: list[Instance]) -> None:
        """Keep that *model* fails alike, and let one instance be asked what Triton says."""
        now_s, key = self._now_s, (model, _ALIKE)  # no instance's id has this symptom
        old = next((one for one in self._alike if one.model == model), None)
        if old is None and not self._twice(key):
            return
        in_view = [i for i in serving if i.in_view]
        asked = "" if old is None else old.asked
        if asked not in {i.id for i in in_view}:
            asked = in_view[0].id if in_view else ""
            if in_view and self._now(in_view[0]) is None:
                words = f"model '{model}': {said}"
                self._changed[asked] = Unwell(symptom, model, words, now_s, for_all=True)
        since_s = now_s if old is None else old.since_s
        new = Alike(model, symptom, said, since_s, now_s, asked)
        others = (one for one in self._alike if one.model != model)
        self._alike = tuple(sorted((*others, new), key=lambda one: one.model))
        self._release(model, serving)

    def _release(self, model: str, serving: list[Instance]) -> None:
        """Bring back who was ejected for *model*: it is not the instance."""
        for instance in serving:
            unwell = self._now(instance)
            if unwell is not None and unwell.ejected and unwell.model == model:
                self._changed[instance.id] = attrs.evolve(unwell, ejected=False)

    def _alike_over(self, model: str) -> None:
        """Forget that *model* fails alike once it did not for a while."""
        self._alike = tuple(
            one for one in self._alike if one.model != model or self._now_s - one.seen_s < CALM_S
        )

    def _forget(self) -> None:
        """Forget ejections that are long over."""
        if self._ejections:
            over = [
                id_
                for id_, one in self._ejections.items()
                if self._now_s - one.back_s >= FORGET_S * 2 ** min(one.count, MOST_DOUBLINGS)
            ]
            for id_ in over:
                del self._ejections[id_]


_ALIKE = "alike"


class _Elsewhere:
    """What became of one model's requests in one span, on the better half of its instances."""

    def __init__(self, rows: Iterable[tuple[str, Grown]], least: float) -> None:
        by_share = sorted(rows, key=lambda row: (row[1].share, row[0]))
        count = max(1, len(by_share) // 2)
        ended = failed = 0.0
        ids: set[str] = set()
        for place, (id_, one) in enumerate(by_share):
            if place >= count and ended >= least:
                break
            ids.add(id_)
            ended, failed = ended + one.ended, failed + one.failed
        self.share = failed / ended if ended else 0.0
        self.ended = sum(one.ended for _, one in by_share)
        """What ended on all of them."""
        self.better = ids if len(by_share) > 1 and ended < self.ended else set[str]()
        """Those of the better half, where there is another one."""


def _differs(own: Grown, usual: float) -> bool:
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
    """Return the mean compute time over all of them; 0 before any request has completed."""
    completed = compute_us = 0.0
    for one in outcomes:
        completed, compute_us = completed + one.completed, compute_us + one.compute_us
    return compute_us / completed / 1e6 if completed else 0.0


def _waits(stall: Stall, model: str) -> str:
    waits = round(stall.pending)
    count = "1 request waits" if waits == 1 else f"{waits} requests wait"
    for_s = stall.seen_s - stall.since_s
    return f"model '{model}': {count}, and none has ended for {for_s:.0f} s"
