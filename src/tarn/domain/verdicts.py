"""Judge instances by the results of their requests: suspect, confirm, eject, bring back. Pure.

As in Envoy's outlier detection, an outlier is *ejected* from the view, and comes back. In addition,
a *test request* of the master shows whether the instance or its callers are to blame. Only what it
confirms is replaced, and a fault that all instances share replaces none of them.

Two looks in a row must agree before an instance is marked. Instances are never read at the same
moment, so a fault that begins everywhere at once is seen on one of them first. A failing instance
is tested after the first look (`tarn.domain.hint_checks`): if it fails a test request that another
instance answers, that is as good as a second look, and comes sooner.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import attrs

from tarn.domain.events import EventNote
from tarn.domain.fleet import Fleet, Rules
from tarn.domain.instance import (
    Ejection,
    FirstSign,
    FleetWideFailure,
    Instance,
    InstanceState,
    Symptom,
    Unwell,
)
from tarn.domain.reading import Reading
from tarn.domain.symptoms import STALLED_LEAST_S, Evidence, SymptomFound

__all__ = [
    "FOR_UNWELL",
    "REPLACED_UNWELL",
    "Suspicion",
    "judge_outcomes",
    "may_eject",
    "suspect_at_once",
]

FOR_UNWELL = "it is unwell, as test requests confirmed"
"""Why an unwell instance that is still in the view retires."""
REPLACED_UNWELL = "TARN-1142"
"""Code of an unwell instance that is replaced."""

# Failed test requests in a row that confirm a fault.
CONFIRM = 2
# Good answers to test requests in a row that bring an instance back; doubled by each ejection.
PASSES = 3
MOST_DOUBLINGS = 4
# How long an instance that cannot be tested stays ejected; doubled by each further ejection.
UNTESTED_S = 30.0
# Ejections in a row that confirm the fault of an instance that cannot be tested.
UNTESTED_EJECTIONS = 3
# An ejection is forgotten after the instance has been well for this long.
FORGET_S = 900.0
# An instance in the view is well again after this time without a symptom.
CALM_S = 10.0
# A comparison of compute times goes over all models, so it is not made at every look.
SLOW_EACH_S = 10.0


def judge_outcomes(  # noqa: PLR0913 (what was read, and when)
    fleet: Fleet,
    readings: Mapping[str, Reading],
    rules: Rules,
    now_s: float,
    at: float,
    *,
    doubt: bool = False,
) -> Fleet:
    """Return *fleet* after the newest results of requests and test requests.

    *doubt*: the tick came much too late, or the master could not look. Then no instance is marked
    or ejected.
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
    """A fact that makes an instance suspect, without any counter."""

    instance_id: str
    model: str
    said: str


def suspect_at_once(
    fleet: Fleet, suspicions: Iterable[Suspicion], rules: Rules, now_s: float, at: float
) -> Fleet:
    """Return *fleet* with the instances of *suspicions* marked at once.

    Each is ejected as far as the view's bound allows, and gets test requests. One that is already
    suspected stays as it is.
    """
    judge = _Judge(fleet, rules, now_s)
    for one in suspicions:
        judge.suspect(one.instance_id, one.model, one.said)
    return judge.result(at)


def may_eject(instances: Iterable[Instance]) -> int:
    """Return how many more may be ejected; if negative, how many must come back.

    At most half of the ready ones are ejected, and never the last one in the view.
    """
    ready = [i for i in instances if i.state is InstanceState.READY]
    ejected = sum(i.unwell is not None and i.unwell.ejected for i in ready)
    in_view = sum(i.in_view for i in ready)
    if in_view == 0 and ejected:
        return min(-1, len(ready) // 2 - ejected)
    room = len(ready) // 2 - ejected
    return min(room, max(0, in_view - 1))


class _Judge:
    """Judges one fleet once, and collects the changes."""

    def __init__(self, fleet: Fleet, rules: Rules, now_s: float) -> None:
        self._fleet, self._rules, self._now_s = fleet, rules, now_s
        self._spec = rules.spec.instance.unwell
        self._changed: dict[str, Unwell | None] = {}
        self._history = fleet.outcomes
        self._noticed = fleet.noticed
        self._seen: dict[tuple[str, str], FirstSign] = {}
        self._fresh: list[str] = []
        self._stays: set[str] = set()
        self._ejections = dict(fleet.ejections)
        self._alike = fleet.alike
        self._notes: list[EventNote] = []

    def result(self, at: float) -> Fleet:
        """Return the fleet with all changes."""
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
        if instance.id in self._stays and instance.retiring_code == REPLACED_UNWELL:
            return instance.but(unwell=unwell, retiring=None, retiring_for="", retiring_code="")
        return instance.but(unwell=unwell)

    def _now(self, instance: Instance) -> Unwell | None:
        return self._changed.get(instance.id, instance.unwell)

    def _twice(self, key: tuple[str, str], model: str = "", said: str = "") -> bool:
        """Note *key*, and say whether it was seen at an earlier look and all since."""
        old = self._noticed.get(key)
        first_s = self._now_s if old is None else old.since_s
        self._seen[key] = FirstSign(first_s, model, said)
        slow = key[1] == Symptom.SLOW
        # One very long request is in several looks, so an instance must be slow in two windows.
        apart_s = self._spec.window_s if slow else self._rules.spec.scaling.interval_s
        return self._now_s - first_s >= apart_s

    # -- test requests -----------------------------------------------------------------------

    def hear_tests(self, readings: Mapping[str, Reading]) -> None:
        """Count the answers to test requests that were sent since an instance was marked."""
        for instance in self._fleet.of(InstanceState.READY):
            unwell, reading = instance.unwell, readings.get(instance.id)
            if unwell is None or not unwell.severe or reading is None or reading.tested is None:
                continue
            tested = reading.tested
            # A stalled instance did not answer for a while before it was marked, so a test request
            # of that time counts.
            silent = tested.late and unwell.symptom is Symptom.STALLED
            since_s = unwell.since_s - (STALLED_LEAST_S if silent else 0.0)
            if tested.number <= unwell.tests or tested.asked_s < since_s:
                continue
            if tested.model not in ("", unwell.model):
                continue  # it was sent for a hint, before the instance was suspected
            if not tested.proven:
                # It proves nothing about the instance, but has Triton's error for all of them.
                if unwell.for_all and unwell.answer != tested.error:
                    self._changed[instance.id] = attrs.evolve(unwell, answer=tested.error)
                continue
            if tested.ok:
                after = attrs.evolve(
                    unwell, tests=tested.number, passed=unwell.passed + 1, lost=0, answer=""
                )
            else:
                after = attrs.evolve(
                    unwell, tests=tested.number, passed=0, lost=unwell.lost + 1, answer=tested.error
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
            self._notes.append(EventNote("TARN-1132", instance.id, why))

    def suspect(self, instance_id: str, model: str, said: str) -> None:
        """Mark one for what was seen of it."""
        ready = list(self._fleet.of(InstanceState.READY))
        for instance in ready:
            unwell = self._now(instance)
            if instance.id == instance_id and (unwell is None or not unwell.severe):
                self._begin(instance, (Symptom.FAILING, model, said, False))
        self._eject(ready)
        self._tell(ready)

    # -- looks -------------------------------------------------------------------------------

    def look(self, readings: Mapping[str, Reading], *, doubt: bool) -> None:
        """Take the newest counters, and mark, eject and clear instances by them."""
        history = self._history.looked(readings, self._now_s, self._spec.window_s)
        self._history = history
        if doubt:
            return
        ready = [i for i in self._fleet.instances if i.state is InstanceState.READY]
        unwell = [i for i in ready if self._now(i) is not None]
        models = {*history.failing, *(model for _, model in history.stalls)}
        models.update(one.model for one in self._alike)
        models.update(u.model for i in unwell if (u := self._now(i)) is not None)
        slow_due = self._now_s - history.slow_s >= SLOW_EACH_S and len(history.looks) > 1
        if not models and not self._noticed and not slow_due:
            self._forget()
            return
        evidence = Evidence(history, self._spec, self._ejections)
        found: dict[str, SymptomFound] = {}
        for model in sorted(models):
            serving = [i for i in ready if model in history.newest.get(i.id, ())]
            self._judge_model(model, serving, evidence, found)
        if slow_due:
            self._history = attrs.evolve(history, slow_s=self._now_s)
            for id_, one in evidence.slow(ready).items():
                found.setdefault(id_, one)
        self._mark(ready, found, looked_slow=slow_due)
        self._forget()

    def _judge_model(
        self,
        model: str,
        serving: list[Instance],
        evidence: Evidence,
        found: dict[str, SymptomFound],
    ) -> None:
        alike = ""
        if model in self._history.failing or self._is_alike(model):
            alike = evidence.alike_failing(model, serving)
        if alike:
            self._note_alike(model, Symptom.FAILING, alike, serving)
            return
        stalled = evidence.stalled(model, serving)
        if len(stalled) > 1 and all(alone for *_, alone in stalled.values()):
            waits = round(sum(self._history.stalls[id_, model].pending for id_ in stalled))
            alike = f"{waits} requests wait on {len(stalled)} instances, and none is answered"
            self._note_alike(model, Symptom.STALLED, alike, serving)
            return
        # It does not fail alike now; after a while without that, it is forgotten.
        self._alike = tuple(
            one for one in self._alike if one.model != model or self._now_s - one.seen_s < CALM_S
        )
        doubted = set(self._history.failing.get(model, ()))
        doubted |= {i.id for i in serving if (u := self._now(i)) is not None and u.model == model}
        failing = evidence.failing(model, serving, doubted)
        for id_, one in (*stalled.items(), *failing.items()):
            found.setdefault(id_, one)

    # -- marks -------------------------------------------------------------------------------

    def _mark(
        self, ready: list[Instance], found: dict[str, SymptomFound], *, looked_slow: bool
    ) -> None:
        """Mark the instances that two looks in a row have found, and clear the others."""
        if not looked_slow:  # this look neither confirms nor ends what is slow
            slow = {k: one for k, one in self._noticed.items() if k[1] == Symptom.SLOW}
            self._seen |= slow
        asked = {one.asked for one in self._alike}
        for instance in ready:
            one, unwell = found.get(instance.id), self._now(instance)
            if unwell is None or (one is not None and one[0].severe and not unwell.severe):
                if one is not None and self._twice((instance.id, str(one[0])), one[1], one[2]):
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

    def _begin(self, instance: Instance, one: SymptomFound) -> None:
        symptom, model, said, alone = one
        self._changed[instance.id] = Unwell(symptom, model, said, self._now_s, alone=alone)
        self._fresh.append(instance.id)

    def _tell(self, ready: list[Instance]) -> None:
        """Note the instances that were marked, and whether they are ejected."""
        for instance in ready:
            unwell = self._now(instance)
            if instance.id not in self._fresh or unwell is None:
                continue
            code, said = "TARN-1122", f"{unwell.said}; it is ejected"
            if not unwell.severe:
                code, said = "TARN-1162", unwell.said
            elif not unwell.ejected:
                said = f"{unwell.said}; {self._stay()}"
            self._notes.append(EventNote(code, instance.id, said, (unwell.model,)))

    def _stay(self) -> str:
        if not self._spec.eject:
            return "it stays in the view (instance.unwell.eject is false)"
        return (
            "it stays in the view: at most half of the ready instances are ejected, and never the "
            "last one"
        )

    def _seen_again(self, instance: Instance, unwell: Unwell, one: SymptomFound) -> None:
        """Keep the mark, with its first text, which would else change at every look."""
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
        """Clear the mark of an instance in the view that has shown no symptom for a while."""
        if not unwell.severe:
            if looked_slow:
                self._well(instance, "it is as fast as the others")
        elif unwell.calm_s is None:
            self._changed[instance.id] = attrs.evolve(unwell, calm_s=self._now_s)
        elif self._now_s - unwell.calm_s >= CALM_S and not unwell.lost:
            self._well(instance, "its requests are answered well")

    def _untested(self, instance: Instance, unwell: Unwell) -> None:
        """Bring back, or confirm, an ejected instance for which no test request can be made."""
        # Only requests of users can show that it is well again. So a confirmed instance that is
        # not replaced is brought back, too.
        if unwell.tests:
            return
        for_s = UNTESTED_S * self._doubled(instance.id)
        since_s = unwell.since_s if unwell.confirmed_s is None else unwell.confirmed_s
        if self._now_s - since_s < for_s:
            return
        known = self._ejections.get(instance.id)
        count = 1 if known is None else known.count
        stalled = self._history.waits(instance.id, unwell.model)
        proven = stalled or count >= UNTESTED_EJECTIONS
        if proven and self._spec.replace and not unwell.confirmed:
            why = "requests still wait in it" if stalled else f"it was ejected {count} times"
            self._changed[instance.id] = attrs.evolve(
                unwell, confirmed_s=self._now_s, answer=f"none can be sent, and {why}"
            )
            return
        self._well(instance, f"it is tried again after {for_s:.0f} s: no test request can be sent")

    # -- the view ----------------------------------------------------------------------------

    def _eject(self, ready: list[Instance]) -> None:
        """Eject unwell instances as far as the view's bound allows, confirmed ones first."""
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
        """Bring ejected instances back if too few are in the view, the least certain first."""
        ejected = [
            i
            for i in self._fleet.of(InstanceState.READY)
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
        """Note that *model* fails on all alike, and choose an instance for its test requests."""
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
        new = FleetWideFailure(model, symptom, said, since_s, now_s, asked)
        others = (one for one in self._alike if one.model != model)
        self._alike = tuple(sorted((*others, new), key=lambda one: one.model))
        for instance in serving:  # those ejected for the model are not to blame
            unwell = self._now(instance)
            if unwell is not None and unwell.ejected and unwell.model == model:
                self._changed[instance.id] = attrs.evolve(unwell, ejected=False)

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
