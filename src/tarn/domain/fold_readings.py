"""Fold the scraper's readings into the fleet: which instances serve, are busy, silent or stuck.

When most instances fall silent at once, `guard` suspects the master's own network, not them.
"""

import functools
import operator
from collections import Counter
from collections.abc import Iterator, Mapping

import attrs

from tarn.domain.calls_everywhere import why_not_yet
from tarn.domain.draining import DrainProgress
from tarn.domain.events import EventNote
from tarn.domain.fleet import Fleet, Rules
from tarn.domain.instance import Instance, InstanceState
from tarn.domain.reading import NOT_READY, Reading, first_line, is_broken
from tarn.domain.samples import Known, Sample
from tarn.domain.serving import Judgement, Models, ReadinessRule
from tarn.domain.strikes import forgive

__all__ = ["begin_drains", "fold_readings", "guard"]


def fold_readings(  # noqa: PLR0913 (what was read, and when)
    fleet: Fleet,
    readings: Mapping[str, Reading],
    rules: Rules,
    now_s: float,
    at: float,
    *,
    late: bool = False,
) -> Fleet:
    """Return *fleet* after the newest readings.

    *late*: the tick came much too late, or the master could not look. Then no instance is marked
    for a silence that may be the master's own.
    """
    doubt = late or fleet.frozen_s is not None
    look = _ReadingsFold(fleet, rules, now_s, doubt)
    before = fleet.instances
    after = tuple(look.after(i, readings[i.id]) if i.id in readings else i for i in before)
    if not all(map(operator.is_, after, before)):
        fleet = attrs.evolve(fleet, instances=after).notes(at, look.notes)
    return forgive(fleet, now_s, at)


def begin_drains(fleet: Fleet, readings: Mapping[str, Reading], drains: frozenset[str]) -> Fleet:
    """Return *fleet* with the first look at each of *drains*, which have just left the view."""
    instances = tuple(
        i.but(drain=DrainProgress().looked(readings[i.id]))
        if i.id in drains and i.id in readings
        else i
        for i in fleet.instances
    )
    return attrs.evolve(fleet, instances=instances)


class _ReadingsFold:
    """Folds all readings of one tick, and collects the notes about them."""

    def __init__(self, fleet: Fleet, rules: Rules, now_s: float, doubt: bool) -> None:  # noqa: FBT001 (private)
        self._fleet = fleet
        self._judge = ReadinessRule(rules.spec.models, fleet.control)
        self._unready_after_s = rules.spec.instance.unready_after_s
        self._now_s = now_s
        self._doubt = doubt
        self.notes: list[EventNote] = []

    def after(self, instance: Instance, reading: Reading) -> Instance:
        """Return *instance* after *reading*; the same object when nothing changed."""
        drain = instance.drain
        if instance.endpoint is None or instance.stop_posted:
            # After the stop, requests that still end are counted. What it was busy with before
            # stays as it is, for the receipt.
            after = drain if drain is None or not instance.stop_posted else drain.ending(reading)
            return instance if after is drain else instance.but(drain=after)
        had = reading.calls
        if had is not None and had is not instance.calls and had != instance.calls:
            instance = instance.but(calls=had)
        judged = self._judged(instance, reading)
        serving, models = judged.serves, judged.models
        changes: dict[str, object] = {}
        if models is not None:
            self._add_models(changes, instance, reading, models)
        if serving is not instance.serving:
            changes["serving"] = serving
        silent_for_s = self._add_silence(changes, instance, reading, answers=models is not None)
        stuck_s = self._stuck(instance, reading, models, serving=serving)
        if stuck_s != instance.stuck_s:
            changes["stuck_s"] = stuck_s
        if bool(reading.gone) is not instance.gone:
            changes["gone"] = bool(reading.gone)
        self._add_why(changes, instance, reading.gone, judged, silent_for_s)
        _add_busy(changes, instance, reading)
        return instance.but(**changes) if changes else instance

    def _add_models(
        self, changes: dict[str, object], instance: Instance, reading: Reading, models: Models
    ) -> None:
        if models != instance.models:
            if not instance.unloading:
                self.notes.extend(_newly_unavailable(instance, models))
            changes["models"] = models
        versions = self._judge.versions(reading)
        if versions is not instance.versions and versions != instance.versions:
            changes["versions"] = versions

    def _add_silence(
        self, changes: dict[str, object], instance: Instance, reading: Reading, *, answers: bool
    ) -> float | None:
        """Add since when it does not answer, if that changed; return for how long it has not."""
        if answers:
            if instance.silent_s is not None:
                changes |= {"silent_s": None, "asked_until_s": None}
            return None
        silence = reading.silence
        until_s = None if silence is None else silence.until_s
        since_s = self._now_s if silence is None else silence.since_s
        silent_s = since_s if instance.silent_s is None else instance.silent_s
        if silence is not None:
            silent_s = max(silent_s, since_s)
        if silent_s != instance.silent_s:
            changes["silent_s"] = silent_s
        if until_s != instance.asked_until_s:
            changes["asked_until_s"] = until_s
        return (self._now_s if until_s is None else until_s) - silent_s

    def _judged(self, instance: Instance, reading: Reading) -> Judgement:
        """Judge *reading*; a new instance must serve all that the others serve."""
        starting = instance.state is InstanceState.STARTING
        fresh = starting and not instance.adopted
        serving, why, models, blamed = self._judge(reading, started=not fresh)
        served = instance.in_view or instance.returnable
        if not serving and models and served and reading.warm:
            serving = _serves_as_before(instance.models, models, reading)
            why = "" if serving else why
        if serving and models and fresh:
            why, blamed = self._worse(models)
            serving = not why
        if serving and starting:
            why = why_not_yet(instance, self._fleet.control, self._fleet.instances)
            serving = not why
        return Judgement(serving, why, models, blamed if why else "")

    def _worse(self, models: Models) -> tuple[str, str]:
        """Say, and name, which model a new instance cannot serve though others do; else ''.

        Requests for it would fail there. What the new one does not even list was taken out of the
        repository by somebody, and is no reason.
        """
        for name, state, reason in models:
            if state == "UNAVAILABLE" and reason and (count := self._served.get(name)):
                who = "1 other instance serves" if count == 1 else f"{count} other instances serve"
                return f"model {name}, which {who}, is unavailable: {reason}", name
        return "", ""

    @functools.cached_property
    def _served(self) -> Counter[str]:
        """Model to how many in the view serve it; asked for only where a new one lacks one."""
        return Counter(
            name
            for instance in self._fleet.instances
            if instance.in_view
            for name, state, _ in instance.models
            if state == "READY"
        )

    def _add_why(
        self,
        changes: dict[str, object],
        instance: Instance,
        gone: str,
        judged: Judgement,
        silent_for_s: float | None,
    ) -> None:
        why = judged.why
        told = instance.state in (InstanceState.STARTING, InstanceState.READY)
        if told and judged.blamed != instance.blamed:
            changes["blamed"] = judged.blamed
        if instance.state is InstanceState.STARTING and why != instance.reason:
            changes["reason"] = why
        elif instance.state is InstanceState.READY:
            suspect = self._suspicion(instance, gone, why, silent_for_s)
            if suspect != instance.suspect:
                changes["suspect"] = suspect

    def _stuck(
        self, instance: Instance, reading: Reading, models: Models | None, *, serving: bool
    ) -> float | None:
        if models is None:
            stuck = isinstance(reading.live, Known) and not reading.live.value
        else:
            stuck = bool(models) and not serving and reading.warm and all(map(_is_settled, models))
            stuck = stuck and not any(instance.calls.pending(self._fleet.control))
        since_s = self._now_s if instance.stuck_s is None else instance.stuck_s
        return since_s if stuck else None

    def _suspicion(
        self, instance: Instance, gone: str, why: str, silent_for_s: float | None
    ) -> str:
        """Say why a ready instance must not get traffic; empty when it may."""
        # What is certain (a closed connection, an unloaded model) counts at once. Silence counts
        # only after ``unready_after``, and not while the master itself may be at fault.
        if gone or silent_for_s is None:
            suspect = gone or why
        elif not self._doubt and silent_for_s >= self._unready_after_s:
            suspect = f"no answer for {self._unready_after_s:g} s: {why}"
        else:
            suspect = instance.suspect
        if instance.suspect and not suspect:
            suspect = why_not_yet(instance, self._fleet.control, ())
        if suspect and not instance.suspect:
            self.notes.append(EventNote("TARN-1106", instance.id, suspect))
        elif instance.suspect and not suspect:
            self.notes.append(EventNote("TARN-1107", instance.id, "answers again"))
        return suspect


def _serves_as_before(before: Models, models: Models, reading: Reading) -> bool:
    """Say whether it still serves every model that it served before."""
    # While a newer version loads, Triton serves the older one (seen on 2.51).
    listed = reading.models.value if isinstance(reading.models, Known) else ()
    ready = {m.name for m in listed if m.versions or m.state == "READY"}
    served = {name for name, state, _ in before if state == "READY"}
    named = {name for name, _, _ in models}
    return bool(ready & named) and (served & named) <= ready


def _is_settled(model: tuple[str, str, str]) -> bool:
    # A model that says that it is not ready may be ready again at any time.
    _, state, reason = model
    return state == "READY" or (state == "UNAVAILABLE" and reason not in ("", NOT_READY))


def _add_busy(changes: dict[str, object], instance: Instance, reading: Reading) -> None:
    """Add what it is busy with, if that changed; a drain also needs the time of the reading."""
    if instance.state is not InstanceState.DRAINING and _is_as_busy(reading, instance.busy):
        return
    busy = reading.busy
    age_s = busy.age_s if isinstance(busy, Known) else 0.0
    changes["busy"], changes["busy_s"] = busy, reading.taken_s - age_s
    if instance.state is InstanceState.DRAINING:
        changes["drain"] = (instance.drain or DrainProgress()).looked(reading)


def _is_as_busy(reading: Reading, before: Sample[float]) -> bool:
    """Say whether `Reading.busy` has the value of *before*, which a tick asks for each instance."""
    if not isinstance(before, Known):
        return reading.busy == before
    pending, executing = reading.metrics.get("pending"), reading.metrics.get("executing")
    if not isinstance(pending, Known) or not isinstance(executing, Known):
        return False
    return pending.value + executing.value == before.value


def _newly_unavailable(instance: Instance, models: Models) -> Iterator[EventNote]:
    before = {name for name, state, reason in instance.models if state == "UNAVAILABLE" and reason}
    for name, state, reason in models:
        if is_broken(state, reason) and name not in before:
            yield EventNote("TARN-1111", instance.id, f"{name}: {first_line(reason)}", (name,))


# With fewer instances, more than half of them may well fall silent at once.
SMALLEST = 3
# Replacements resume after this time even if the instances stay silent: they may really be gone.
THAW_AFTER_S = 300.0


def guard(fleet: Fleet, now_s: float, at: float, *, late: bool, silence_s: float) -> Fleet:
    """Return *fleet* with replacements frozen or thawed.

    Args:
        fleet: After its facts and readings were folded.
        now_s: Monotonic seconds.
        at: Wall time of the events.
        late: The tick came much too late, or the master could not look: silences are its own.
        silence_s: Silences that begin within this many seconds count as simultaneous.
    """
    watched = fleet.of(InstanceState.READY)
    silent = tuple(i for i in watched if i.silent_s is not None and not i.gone)
    if late and any(i.silent_s is not None for i in fleet.instances):
        instances = (
            attrs.evolve(i, silent_s=now_s) if i.silent_s is not None else i
            for i in fleet.instances
        )
        fleet = attrs.evolve(fleet, instances=tuple(instances))
    if fleet.frozen_s is not None:
        return _maybe_thaw(fleet, len(silent), len(watched), now_s, at)
    fresh = [i for i in silent if i.silent_s is not None and now_s - i.silent_s <= silence_s]
    if late or len(watched) < SMALLEST or len(fresh) * 2 <= len(watched):
        return fleet
    message = f"{len(fresh)} of {len(watched)} instances fell silent within {silence_s:g} s"
    fleet = attrs.evolve(fleet, frozen_s=now_s)
    return fleet.note(at, "TARN-1010", fleet.name, message)


def _maybe_thaw(fleet: Fleet, silent: int, watched: int, now_s: float, at: float) -> Fleet:
    assert fleet.frozen_s is not None
    if silent * 2 <= watched:
        why = f"{watched - silent} of {watched} instances answer"
    elif now_s - fleet.frozen_s >= THAW_AFTER_S:
        why = f"{THAW_AFTER_S:g} s have passed"
    else:
        return fleet
    fleet = attrs.evolve(fleet, frozen_s=None)
    return fleet.note(at, "TARN-1011", fleet.name, why)
