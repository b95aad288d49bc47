"""Select and follow the events of a cluster; ``docs/reference/events.md`` has their fields."""

import json
import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import attrs

from tarn.cluster.environment import ClusterEnvironment
from tarn.cluster.link import Link
from tarn.domain.events import EVENTS_FILE, SEVERITIES
from tarn.errors import (
    ConfigError,
    NotFoundError,
    TarnError,
    TimedOutError,
    UnreachableError,
)
from tarn.follow import MasterApi, Message
from tarn.plain import did_you_mean, seconds
from tarn.plain import since as moment

__all__ = [
    "EventQuery",
    "SeenEvents",
    "follow_events",
    "known_events",
    "parse_event_query",
    "stored_events",
]

log = logging.getLogger(__name__)
Row = Mapping[str, Any]
# Events that a reader remembers, to yield none twice: ten times as many as a master keeps.
REMEMBERED = 5000
LOOK_EVERY_S = 1.0
# How long `follow_events` looks for a lost master.
GIVE_UP_AFTER_S = 60.0


@attrs.frozen
class EventQuery:
    """A selection of events."""

    since: float = 0.0
    """Wall time, Unix seconds: events that last happened before are left out."""
    severity: str = SEVERITIES[0]
    """The minimum severity."""
    subjects: tuple[str, ...] = ()
    """Ids of instances, names of providers or of the cluster; ``*`` matches any characters.
    Empty: every subject."""

    def takes(self, event: Row) -> bool:
        """Tell whether *event* belongs to the selection."""
        if event.get("last", self.since) < self.since:
            return False
        milder = SEVERITIES[: SEVERITIES.index(self.severity)]
        if event.get("severity", SEVERITIES[0]) in milder:
            return False
        subject = str(event.get("subject", ""))
        return not self.subjects or any(fnmatchcase(subject, one) for one in self.subjects)


def parse_event_query(
    since: str | float | None = None,
    severity: str = SEVERITIES[0],
    subject: str | Sequence[str] = (),
    *,
    now_at: float,
) -> EventQuery:
    """Return the selection that the arguments of `Cluster.events` mean.

    Args:
        since: A duration before now (``10m``, or a number of seconds), a time of ISO 8601 (in UTC
            unless it has a zone), or None for all.
        severity: The minimum: ``info``, ``warning`` or ``alert``.
        subject: One or several subjects; ``*`` matches any characters.
        now_at: Wall time, Unix seconds.

    Raises:
        ConfigError: An argument is invalid.
    """
    if severity not in SEVERITIES:
        right = f"Expected one of: {', '.join(SEVERITIES)}.{did_you_mean(severity, SEVERITIES)}"
        raise ConfigError(f"'{severity}' is not a severity", where="severity", right=right)
    named = (subject,) if isinstance(subject, str) else tuple(subject)
    from_at = 0.0
    if isinstance(since, str):
        from_at = moment(since, now_at)
    elif since is not None:
        from_at = now_at - seconds(since, "since")
    return EventQuery(from_at, severity, tuple(one for one in named if one))


class SeenEvents:
    """Remembers the events that a reader has seen, over connections and masters."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}

    def new(self, event: Row) -> bool:
        """Tell whether *event* is new or has happened again; remember it as seen."""
        name = event.get("id") or json.dumps({**event, "count": 0, "last": 0}, sort_keys=True)
        count = event.get("count", 1)
        if self._counts.get(name, 0) >= count:
            return False
        self._counts.pop(name, None)
        self._counts[name] = count
        while len(self._counts) > REMEMBERED:
            del self._counts[next(iter(self._counts))]
        return True


def known_events(link: Link, directory: Path, lines: Callable[[], Iterable[str]]) -> Sequence[Row]:
    """Return the events that the master keeps; if none answers, those in `stored_events`."""
    try:
        return link.read(lambda api: api.events())
    except (NotFoundError, UnreachableError, TimedOutError) as error:
        return stored_events(directory, lines, error)


def stored_events(
    directory: Path, lines: Callable[[], Iterable[str]], error: TarnError
) -> list[Row]:
    """Return the events since the cluster's last start that its masters wrote, oldest first.

    They come from the file that masters write, or else from their log.

    Args:
        directory: This user's directory of the cluster.
        lines: Returns the lines of the masters' log; raises `TarnError` if there is none.
        error: Why no master answers; raised if no event is found.
    """
    path = directory / EVENTS_FILE
    rows = _last_start(_file_events(path))
    if not rows:
        path = Path("the master's log")
        try:
            said = (_object(line) or {} for line in lines() if '"event"' in line)
            rows = _last_start(one["event"] for one in said if _is_whole(one.get("event")))
        except TarnError:
            rows = []
    if not rows:
        raise error
    log.warning("no master answers (%s): these events are from %s", error.found, path)
    return rows


def _last_start(events: Iterable[Row]) -> list[Row]:
    """Return the newest record of each event, in the order in which they last happened.

    Events of an earlier cluster of the same name are left out.
    """
    newest: dict[str, Row] = {}
    for event in events:
        newest.pop(event["id"], None)
        newest[event["id"]] = event
    last = next(reversed(newest.values()), None)
    start = "" if last is None else last["epoch"].partition("-")[0]
    return [event for event in newest.values() if event["epoch"].partition("-")[0] == start]


def _file_events(path: Path) -> Iterator[Row]:
    for one in (path.with_name(f"{path.name}.1"), path):
        try:
            with one.open(encoding="utf-8", errors="replace") as lines:
                # A full disk or a power cut may leave a line incomplete.
                yield from (event for event in map(_object, lines) if event and _is_whole(event))
        except OSError:
            continue


def _object(line: str) -> dict[str, Any] | None:
    try:
        said = json.loads(line)
    except ValueError:
        return None
    return said if isinstance(said, dict) else None


def _is_whole(event: object) -> bool:
    if not isinstance(event, Mapping):
        return False
    texts = all(isinstance(event.get(name), str) for name in ("id", "epoch", "code", "subject"))
    return texts and isinstance(event.get("last"), int | float)


def follow_events(
    link: Link, environment: ClusterEnvironment, stop: threading.Event
) -> Iterator[Message]:
    """Yield events until *stop* is set, also after the master was replaced.

    An event is yielded again only when its count has grown.

    Raises:
        UnreachableError: No master answered for a minute.
    """
    last: str | None = None
    told = SeenEvents()
    lost_s, found = environment.clock.now_s(), True
    while not stop.is_set():
        try:
            if not found:
                link.ask(lambda api: api.status())  # finds the master, which a stream does not
            found = True
            for message in _news(link, last, stop):
                last, lost_s = message.id or last, environment.clock.now_s()
                if message.event != "event" or told.new(message.data):
                    yield message
            if link.proxied:
                lost_s = environment.clock.now_s()
                environment.rest(LOOK_EVERY_S)
        except (UnreachableError, TimedOutError):
            if environment.clock.now_s() - lost_s >= GIVE_UP_AFTER_S:
                raise
            found = False
            environment.rest(LOOK_EVERY_S)


def _news(link: Link, last: str | None, stop: threading.Event) -> Iterator[Message]:
    """Yield the stream of events; through a proxy, which passes no stream on, the kept ones."""

    def begin(api: MasterApi) -> Iterator[Message]:
        return api.stream("events", last, stop, give_up_s=LOOK_EVERY_S)

    stream = None if link.proxied else link.ask(begin)
    if stream is not None and not link.proxied:  # it may have been found through its proxy
        yield from stream
        return
    for event in link.ask(lambda api: api.events()):
        yield Message("", "event", event)
