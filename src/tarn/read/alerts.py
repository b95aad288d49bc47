"""Alerts, active and past, made from snapshots. Pure."""

from collections.abc import Iterator, Mapping
from itertools import islice

import attrs

from tarn.domain import CODES, InstanceState, Severity
from tarn.domain.reading import first_line, is_broken
from tarn.read.snapshot import Snapshot

__all__ = ["Alert", "active", "alerts", "is_severe", "onsets"]

# Code, subject, and what tells two of one subject apart (mostly nothing).
Key = tuple[str, str, str]
MOST_PAST = 100
# A draining instance is left out: its models are unloaded on purpose.
_SERVING = frozenset({InstanceState.STARTING, InstanceState.READY})


@attrs.frozen
class Alert:
    """A problem that exists now, or existed."""

    code: str
    """A code of the table; ``TARN-3830`` if the problem has none."""
    subject: str
    message: str
    since: float | None = None
    """Wall second at which it began; None: not known."""
    active: bool = True
    last: float | None = None
    """Wall second at which it was last seen; None while it is active."""
    count: int = 1
    detail: str = attrs.field(default="", repr=False)
    models: tuple[str, ...] = ()
    """The models that its message is about."""

    @property
    def key(self) -> Key:
        """What identifies it in the next snapshot, although its message may change."""
        return self.code, self.subject, self.detail


def active(snapshot: Snapshot) -> tuple[Alert, ...]:
    """Return the active alerts of *snapshot*, each once: those of the fleet, then of instances."""
    found: dict[Key, Alert] = {}
    for alarm in (*_of_fleet(snapshot), *_of_instances(snapshot)):
        found.setdefault(alarm.key, alarm)
    return tuple(found.values())


def _of_fleet(snapshot: Snapshot) -> Iterator[Alert]:
    for issue in snapshot.issues:
        if issue.code not in CODES:
            # Issues of a runtime without a code differ only in their text.
            detail = issue.found if issue.source else ""
            yield Alert("TARN-3830", issue.subject, issue.found, detail=detail, models=issue.models)
        elif is_severe(issue.code):
            yield Alert(issue.code, issue.subject, issue.found, models=issue.models)
    if snapshot.holds.halted:
        last = (i.blamed for i in snapshot.ended if i.id == snapshot.holds.halted_by and i.blamed)
        halted = snapshot.holds.halted
        yield Alert("TARN-1112", snapshot.name, halted, models=tuple(last))


def _of_instances(snapshot: Snapshot) -> Iterator[Alert]:
    for instance in snapshot.instances:
        if instance.suspect:
            models = (instance.blamed,) if instance.blamed else ()
            yield Alert("TARN-1106", instance.id, instance.suspect, models=models)
        if instance.unwell is not None and not instance.unwell.for_all:
            code = "TARN-1122" if instance.unwell.severe else "TARN-1162"
            unwell = instance.unwell
            yield Alert(code, instance.id, unwell.words, models=(unwell.model,))
        if instance.state not in _SERVING:
            continue
        for model, state, reason in instance.models:
            if is_broken(state, reason):
                said = f"{model}: {first_line(reason)}"
                yield Alert("TARN-1111", instance.id, said, detail=model, models=(model,))


def onsets(before: Mapping[Key, float], snapshot: Snapshot) -> Mapping[Key, float]:
    """Return when each active alert of *snapshot* began; *before* is the result so far."""
    return {one.key: before.get(one.key, snapshot.at) for one in active(snapshot)}


def alerts(snapshot: Snapshot, since: Mapping[Key, float], unkept: str = "") -> tuple[Alert, ...]:
    """Return the active alerts, the newest first, then the past warnings and alerts.

    *since* is the result of `onsets`, *unkept* the reason why the history is not saved.
    """
    now = [attrs.evolve(one, since=since.get(one.key)) for one in active(snapshot)]
    if unkept:
        now.append(Alert("TARN-3831", snapshot.name, unkept))
    now.sort(key=lambda one: -(one.since or snapshot.at))
    keys = {one.key for one in now}
    past = (
        Alert(
            event.code,
            event.subject,
            event.message,
            since=event.first,
            active=False,
            last=event.last,
            count=event.count,
            models=event.models,
        )
        for event in reversed(snapshot.events)
        if is_severe(event.code)
    )
    # An alert about one model of a subject has the model as the detail of its key.
    over = (
        p for p in past if keys.isdisjoint({p.key, *((p.code, p.subject, m) for m in p.models)})
    )
    return (*now, *islice(over, MOST_PAST))


def is_severe(code: str) -> bool:
    """Say whether *code* is a warning or an alert."""
    return code in CODES and CODES[code].severity is not Severity.INFO
