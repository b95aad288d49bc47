"""What happened in a cluster: which of it somebody wants, and what is left of it without a master.

An event is a mapping as ``docs/reference/events.md`` describes it.
"""

import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import attrs

from tarn.domain.events import EVENTS_FILE, SEVERITIES
from tarn.errors import ConfigError, TarnError
from tarn.plain import did_you_mean, seconds
from tarn.plain import since as moment

__all__ = ["EventQuery", "SeenEvents", "parse_event_query", "stored_events"]

log = logging.getLogger(__name__)
Row = Mapping[str, Any]
REMEMBERED = 5000
"""Events of which a reader of the stream knows that they were told; a master keeps 500."""


@attrs.frozen
class EventQuery:
    """Which events somebody wants."""

    since: float = 0.0
    """Wall time, Unix seconds: what happened last before it is left out."""
    severity: str = SEVERITIES[0]
    """The least severe that is wanted."""
    subjects: tuple[str, ...] = ()
    """Ids of instances, names of providers or of the cluster; ``*`` stands for any characters.
    Empty: every subject."""

    def takes(self, event: Row) -> bool:
        """Say whether *event* is wanted."""
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
    """Return what a person chose.

    Args:
        since: A duration before now (``10m``, or a number of seconds), a time of ISO 8601 (without
            a zone in UTC), or None for all.
        severity: ``info``, ``warning`` or ``alert``: so severe, and more.
        subject: One or several subjects; ``*`` stands for any characters.
        now_at: Wall time, Unix seconds.

    Raises:
        ConfigError: One of them cannot be meant.
    """
    if severity not in SEVERITIES:
        right = f"Expected one of: {', '.join(SEVERITIES)}.{did_you_mean(severity, SEVERITIES)}"
        raise ConfigError(f"'{severity}' is not a severity", where="severity", right=right)
    named = (subject,) if isinstance(subject, str) else tuple(subject)
    from_at = 0.0 if since is None else _moment(since, now_at)
    return EventQuery(from_at, severity, tuple(one for one in named if one))


def _moment(since: str | float, now_at: float) -> float:
    return moment(since, now_at) if isinstance(since, str) else now_at - seconds(since, "since")


class SeenEvents:
    """Remembers which events a reader has got, over masters and connections."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}

    def new(self, event: Row) -> bool:
        """Say whether *event* was not told, or happened again since; note it as told."""
        name = event.get("id") or json.dumps({**event, "count": 0, "last": 0}, sort_keys=True)
        count = event.get("count", 1)
        if self._counts.get(name, 0) >= count:
            return False
        self._counts.pop(name, None)
        self._counts[name] = count
        while len(self._counts) > REMEMBERED:
            del self._counts[next(iter(self._counts))]
        return True


def stored_events(
    directory: Path, lines: Callable[[], Iterable[str]], error: TarnError
) -> list[Row]:
    """Return the events of a cluster whose master does not answer, which *error* says.

    They are those of its last start, oldest first: from the file that its masters write, or else
    from the lines of their log.

    Args:
        directory: Where this user's files of the cluster lie.
        lines: Returns the lines of the masters' log; a `TarnError` says that there is none.
        error: What is raised where nothing is left.
    """
    path = directory / EVENTS_FILE
    rows = _last_start(_of_file(path))
    if not rows:
        path = Path("the master's log")
        try:
            rows = _last_start(_of_log(lines()))
        except TarnError:
            rows = []
    if not rows:
        raise error
    log.warning("no master answers (%s): these events are from %s", error.found, path)
    return rows


def _last_start(events: Iterable[Row]) -> list[Row]:
    """Return the newest word about each of *events*, in the order in which they happened last.

    A name may have been used before: what belongs to an earlier start is left out.
    """
    newest: dict[str, Row] = {}
    for event in events:
        newest.pop(event["id"], None)
        newest[event["id"]] = event
    last = next(reversed(newest.values()), None)
    start = "" if last is None else last["epoch"].partition("-")[0]
    return [event for event in newest.values() if event["epoch"].partition("-")[0] == start]


def _of_file(path: Path) -> Iterator[Row]:
    for one in (path.with_name(f"{path.name}.1"), path):
        try:
            with one.open(encoding="utf-8", errors="replace") as lines:
                yield from filter(None, map(_event, lines))
        except OSError:
            continue


def _of_log(lines: Iterable[str]) -> Iterator[Row]:
    for line in lines:
        if '"event"' in line and (said := _object(line)):
            event: Row = said.get("event") or {}
            if _whole(event):
                yield event


def _event(line: str) -> Row | None:
    """Return the event of *line*; None where it was torn, by a full disk or a power cut."""
    event = _object(line)
    return event if _whole(event) else None


def _object(line: str) -> dict[str, Any] | None:
    try:
        said = json.loads(line)
    except ValueError:
        return None
    return said if isinstance(said, dict) else None


def _whole(event: object) -> bool:
    if not isinstance(event, Mapping):
        return False
    texts = all(isinstance(event.get(name), str) for name in ("id", "epoch", "code", "subject"))
    return texts and isinstance(event.get("last"), int | float)
