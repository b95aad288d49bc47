"""Things that happened: the one model of an event, and how equal ones are counted.

The same fields stand in ``/api/v1/events``, in the stream, in the master's log and in the file
next to it; ``docs/reference/events.md`` describes them.
"""

import attrs

from tarn.domain.codes import CODES, Severity

__all__ = [
    "EVENTS_FILE",
    "EVENT_SCHEMA",
    "NOBODY",
    "SEVERITIES",
    "Event",
    "EventCause",
    "Requester",
    "aggregate",
    "asker_fields",
    "event_fields",
    "severity_of",
]

EVENT_SCHEMA = 1
"""Version of the fields of an event; a new field does not change it, another meaning does."""
EVENTS_FILE = "logs/events.jsonl"
"""In the directory of a cluster whose runtime keeps logs there: one event on each line."""
AGGREGATE_WITHIN_S = 600.0
"""Equal events (code, subject, message, asker) this close together become one with a count."""
LOOK_BACK = 50
"""How many of the newest events are looked through for an equal one."""

SEVERITIES = tuple(str(severity) for severity in (Severity.INFO, Severity.WARNING, Severity.ALERT))
"""The least severe first."""


@attrs.frozen
class Requester:
    """Who asked for a change, by which request, and from where."""

    request: str
    """Id of the request: answered as ``X-Request-Id``, and in each line of the log about it."""
    user: str = ""
    via: str = ""
    """What proved the user; as `tarn.domain.Principal.via`."""
    address: str = ""
    """Numeric address of who connected; empty when there was no connection."""

    @property
    def principal(self) -> str:
        """Who it is, in words, whatever request, address or proof they came by."""
        if self.via == "token":
            return "whoever holds the api token"
        if self.via == "trusted-proxy":
            return f"the trusted proxy {self.user}"
        return f"the user {self.user}"

    def same(self, other: "Requester | None") -> bool:
        """Say whether *other* is the same person at the same place, by whatever request."""
        if other is None:
            return False
        return (self.user, self.via, self.address) == (other.user, other.via, other.address)


@attrs.frozen
class EventCause:
    """What an event comes from, as far as the master knows."""

    decision: int | None = None
    """Number of the decision about the size."""
    asker: Requester | None = None
    """Who asked for it, or for the decision."""


NOBODY = EventCause()
"""The course of things."""


@attrs.frozen
class Event:
    """One kind of happening to one subject."""

    code: str
    """``TARN-nnnn``; its severity and meaning stand in ``tarn.domain.codes``."""
    subject: str
    """Instance id, provider or cluster name."""
    message: str
    first: float
    """Wall time, Unix seconds."""
    last: float
    count: int = 1
    id: str = ""
    """``<epoch>.<number>``: kept while equal ones are counted in, unique in the cluster."""
    epoch: str = ""
    """Of the master under which it happened."""
    cause: EventCause = NOBODY
    """Of an event that was counted: that of the newest."""


def aggregate(events: tuple[Event, ...], new: Event, *, keep: int = 500) -> tuple[Event, ...]:
    """Return *events* with *new* counted in or appended; the oldest beyond *keep* are dropped."""
    for index in range(len(events) - 1, max(-1, len(events) - LOOK_BACK), -1):
        old = events[index]
        if _alike(old, new) and new.first - old.last <= AGGREGATE_WITHIN_S:
            count = old.count + new.count
            merged = attrs.evolve(old, last=new.last, count=count, cause=new.cause)
            return (*events[:index], *events[index + 1 :], merged)
    return (*events, new)[-keep:]


def _alike(old: Event, new: Event) -> bool:
    """Say whether they are one kind of happening, asked for by one person, under one master."""
    if (old.code, old.subject, old.message) != (new.code, new.subject, new.message):
        return False
    if old.epoch != new.epoch:
        return False
    before, after = old.cause.asker, new.cause.asker
    return before is after or (before is not None and before.same(after))


def severity_of(code: str) -> str:
    """Return the severity of *code*; of one that is in no table, ``info``."""
    return str(CODES[code].severity) if code in CODES else str(Severity.INFO)


def asker_fields(asker: Requester | None) -> dict[str, object] | None:
    """Return *asker* as plain values; None for nobody."""
    if asker is None:
        return None
    return {
        "id": asker.request,
        "user": asker.user,
        "via": asker.via,
        "address": asker.address,
    }


def event_fields(event: Event, cluster: str) -> dict[str, object]:
    """Return the fields of *event* of the cluster *cluster*, wherever it is shown or kept."""
    return {
        "schema": EVENT_SCHEMA,
        "id": event.id,
        "cluster": cluster,
        "epoch": event.epoch,
        "code": event.code,
        "severity": severity_of(event.code),
        "subject": event.subject,
        "message": event.message,
        "first": event.first,
        "last": event.last,
        "count": event.count,
        "decision": event.cause.decision,
        "request": asker_fields(event.cause.asker),
    }
