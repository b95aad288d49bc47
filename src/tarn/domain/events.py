"""Events, and how equal ones are counted together.

``/api/v1/events``, the stream, the master's log and the file of events all have the same fields;
``docs/reference/events.md`` describes them.
"""

from typing import NamedTuple

import attrs

from tarn.domain.codes import CODES, Severity

__all__ = [
    "EVENTS_FILE",
    "EVENT_SCHEMA",
    "NOBODY",
    "SEVERITIES",
    "Event",
    "EventCause",
    "EventNote",
    "Requester",
    "aggregate",
    "asker_fields",
    "event_fields",
    "severity_of",
]

EVENT_SCHEMA = 1
"""Version of the fields of an event; a new field does not change it, another meaning does."""
EVENTS_FILE = "logs/events.jsonl"
"""File in the cluster's directory, if the runtime keeps logs there: one event on each line."""
# Equal events (code, subject, message, asker) within this time become one event with a count.
AGGREGATE_WITHIN_S = 600.0
# Newest events that are searched for an equal one; this bounds the cost of an event.
LOOK_BACK = 50

SEVERITIES = tuple(str(severity) for severity in (Severity.INFO, Severity.WARNING, Severity.ALERT))
"""All severities, the least severe first."""


@attrs.frozen
class Requester:
    """Who asked for a change, by which request, and from where."""

    request: str
    """Id of the request: the header ``X-Request-Id`` of its answer, and in its lines of the log."""
    user: str = ""
    via: str = ""
    """What proved the user; as `tarn.domain.Principal.via`."""
    address: str = ""
    """Numeric address of the client; empty when there was no connection."""

    @property
    def principal(self) -> str:
        """The identity in words, without request, address and proof."""
        if self.via == "token":
            return "whoever holds the api token"
        if self.via == "trusted-proxy":
            return f"the trusted proxy {self.user}"
        return f"the user {self.user}"

    def same(self, other: "Requester | None") -> bool:
        """Say whether *other* has the same user, proof and address."""
        if other is None:
            return False
        return (self.user, self.via, self.address) == (other.user, other.via, other.address)


@attrs.frozen
class EventCause:
    """The decision and the requester that led to an event, as far as they are known."""

    decision: int | None = None
    """Number of the decision about the size."""
    asker: Requester | None = None
    """Who asked for the event's change, or for the decision."""


NOBODY = EventCause()
"""The cause of an event for which no person asked."""


class EventNote(NamedTuple):
    """The parts from which `Fleet.notes` makes an event."""

    code: str
    subject: str
    message: str
    models: tuple[str, ...] = ()


@attrs.frozen
class Event:
    """Something that happened to one subject, once or several times."""

    code: str
    """``TARN-nnnn``; `tarn.domain.codes` has its severity and meaning."""
    subject: str
    """Instance id, provider or cluster name."""
    message: str
    first: float
    """Wall time, Unix seconds."""
    last: float
    count: int = 1
    id: str = ""
    """``<epoch>.<number>``, unique in the cluster; it stays when equal events are counted in."""
    epoch: str = ""
    """Epoch of the master under which it happened."""
    cause: EventCause = NOBODY
    """Its cause; when several were counted together, that of the newest."""
    models: tuple[str, ...] = ()
    """Models that the message is about. Users who may not see one of them do not get the event."""


def aggregate(events: tuple[Event, ...], new: Event, *, keep: int = 500) -> tuple[Event, ...]:
    """Return *events* with *new* counted in or appended, at most *keep* of them."""
    for index in range(len(events) - 1, max(-1, len(events) - LOOK_BACK), -1):
        old = events[index]
        if _alike(old, new) and new.first - old.last <= AGGREGATE_WITHIN_S:
            count = old.count + new.count
            merged = attrs.evolve(old, last=new.last, count=count, cause=new.cause)
            return (*events[:index], *events[index + 1 :], merged)
    return (*events, new)[-keep:]


def _alike(old: Event, new: Event) -> bool:
    """Say whether both say the same, with one requester and under one master."""
    if (old.code, old.subject, old.message) != (new.code, new.subject, new.message):
        return False
    if old.epoch != new.epoch:
        return False
    before, after = old.cause.asker, new.cause.asker
    return before is after or (before is not None and before.same(after))


def severity_of(code: str) -> str:
    """Return the severity of *code*; ``info`` for an unknown one."""
    return str(CODES[code].severity) if code in CODES else str(Severity.INFO)


def asker_fields(asker: Requester | None) -> dict[str, object] | None:
    """Return *asker* as plain values; None when there is none."""
    if asker is None:
        return None
    return {
        "id": asker.request,
        "user": asker.user,
        "via": asker.via,
        "address": asker.address,
    }


def event_fields(event: Event, cluster: str) -> dict[str, object]:
    """Return *event* of *cluster* as plain values, for every place that shows or keeps it."""
    return {
        "schema": EVENT_SCHEMA,
        "id": event.id,
        "cluster": cluster,
        "epoch": event.epoch,
        "code": event.code,
        "severity": severity_of(event.code),
        "subject": event.subject,
        "message": event.message,
        "models": list(event.models),
        "first": event.first,
        "last": event.last,
        "count": event.count,
        "decision": event.cause.decision,
        "request": asker_fields(event.cause.asker),
    }
