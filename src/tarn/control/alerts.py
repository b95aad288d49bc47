"""What people should look at now, and what they should have looked at: from snapshots. Pure."""

from collections.abc import Iterator, Mapping
from itertools import islice

import attrs

from tarn.control.snapshot import Snapshot
from tarn.domain import CODES, Event, InstanceState, Severity
from tarn.domain.reading import NOT_LOADED

__all__ = ["Alert", "active", "alerts", "onsets"]

Key = tuple[str, str, str]
"""Code, subject, and what tells two of one subject apart (mostly nothing)."""
MOST_PAST = 100
_SERVING = frozenset({InstanceState.STARTING, InstanceState.READY})
"""One that drains has its models unloaded: they are missed by nobody."""


@attrs.frozen
class Alert:
    """One thing that is wrong, or was."""

    code: str
    """Of the table; ``TARN-3830`` where its maker gave none."""
    subject: str
    message: str
    since: float | None = None
    """Wall seconds of its beginning; None: it is not known."""
    active: bool = True
    last: float | None = None
    """Wall seconds at which it was last seen; None while it is active."""
    count: int = 1
    detail: str = attrs.field(default="", repr=False)

    @property
    def key(self) -> Key:
        """What makes it the same one in the next snapshot, though its message counts seconds."""
        return self.code, self.subject, self.detail


def active(snapshot: Snapshot) -> tuple[Alert, ...]:
    """Return what is wrong in *snapshot*, each thing once: the fleet's first, then instances'."""
    found: dict[Key, Alert] = {}
    for alarm in (*_of_fleet(snapshot), *_of_instances(snapshot)):
        found.setdefault(alarm.key, alarm)
    return tuple(found.values())


def _of_fleet(snapshot: Snapshot) -> Iterator[Alert]:
    for code, subject, said in snapshot.troubles:
        yield Alert(code if code in CODES else "TARN-3830", subject or snapshot.name, said)
    if snapshot.holds.halted:
        yield Alert("TARN-1112", snapshot.name, snapshot.holds.halted)
    told = {said for _code, _subject, said in snapshot.troubles}
    for warning in snapshot.warnings:
        if warning not in told:
            yield Alert("TARN-3830", snapshot.runtime, warning, detail=warning)


def _of_instances(snapshot: Snapshot) -> Iterator[Alert]:
    for instance in snapshot.instances:
        if instance.suspect:
            yield Alert("TARN-1106", instance.id, instance.suspect)
        if instance.unwell is not None and not instance.unwell.for_all:
            code = "TARN-1122" if instance.unwell.severe else "TARN-1162"
            yield Alert(code, instance.id, instance.unwell.words)
        if instance.state not in _SERVING:
            continue
        for model, state, reason in instance.models:
            if state == "UNAVAILABLE" and reason and reason != NOT_LOADED:
                said = f"{model}: {reason.partition(chr(10))[0]}"  # as the event has it
                yield Alert("TARN-1111", instance.id, said, detail=said)


def onsets(before: Mapping[Key, float], snapshot: Snapshot) -> Mapping[Key, float]:
    """Return since when each thing is wrong: when it was first seen without a break."""
    return {one.key: before.get(one.key, snapshot.at) for one in active(snapshot)}


def alerts(snapshot: Snapshot, since: Mapping[Key, float], unkept: str = "") -> tuple[Alert, ...]:
    """Return what is wrong now, the newest first, then the events that were warnings or alerts.

    *since* is what `onsets` made of the snapshots so far, *unkept* why the history is not kept.
    """
    now = [attrs.evolve(one, since=since.get(one.key)) for one in active(snapshot)]
    if unkept:
        now.append(Alert("TARN-3831", snapshot.name, unkept))
    now.sort(key=lambda one: -(one.since or snapshot.at))
    keys = {one.key for one in now}
    past = (_past(e) for e in reversed(snapshot.events) if _severe(e))
    over = (p for p in past if keys.isdisjoint({p.key, (p.code, p.subject, p.message)}))
    return (*now, *islice(over, MOST_PAST))


def _severe(event: Event) -> bool:
    return event.code in CODES and CODES[event.code].severity is not Severity.INFO


def _past(event: Event) -> Alert:
    return Alert(
        event.code,
        event.subject,
        event.message,
        since=event.first,
        active=False,
        last=event.last,
        count=event.count,
    )
