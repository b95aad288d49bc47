"""Lines of logs, each with whose it is and when it was written; several logs as one. Pure.

Four kinds of lines say when they were written: a master's, as JSON or as text, and Triton's, in
its own format or (``log-format: ISO8601``) in ISO 8601. A line that does not is taken for a part of
what was written before it: a table, a traceback. So is one whose time has no zone.
"""

import heapq
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime

import attrs

__all__ = ["MASTER", "LogLine", "Reader", "merged", "stamp"]

MASTER = "master"
"""The source of a master's lines; no instance has this name."""

_DAY_S = 86400.0
_LONGEST_HEAD = 64
_TRITON = re.compile(r"([IWEF])(\d\d)(\d\d) (\d\d):(\d\d):(\d\d)\.(\d{6}) ")
"""``E1127 23:52:36.259414 2510 server.cc:241] "…"``: in UTC, and without a year."""
_ISO = re.compile(
    r"(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,6})?(?:Z|[+-]\d\d:?\d\d))(?: (\w{1,10}))?"
)
_LEVELS = {
    **dict.fromkeys(("i", "info"), "info"),
    **dict.fromkeys(("w", "warn", "warning"), "warning"),
    **dict.fromkeys(("e", "error", "f", "fatal", "critical"), "error"),
    "debug": "debug",
}


@attrs.frozen
class LogLine:
    """One line of one log."""

    source: str
    """``master``, or the id of an instance."""
    at: float | None
    """Wall time, Unix seconds, of what it is a part of; None: nothing in its log has a time."""
    level: str
    """``debug``, ``info``, ``warning`` or ``error``; empty where it says none."""
    text: str = attrs.field(repr=False)


def stamp(line: str, near: float) -> tuple[float, str] | None:
    """Return when *line* says that it was written, and its level; None: it says nothing.

    *near* (Unix seconds) is a moment less than half a year from it: Triton writes no year.
    """
    if line.startswith("{"):
        return _of_json(line)
    found = _TRITON.match(line)
    if found is not None:
        return _of_triton(found, near)
    found = _ISO.match(line[:_LONGEST_HEAD])
    return None if found is None else _of_iso(found[1], found[2] or "")


def _of_json(line: str) -> tuple[float, str] | None:
    try:
        said = json.loads(line)
    except (ValueError, RecursionError):
        return None
    at = said.get("at")
    found = _ISO.fullmatch(at) if isinstance(at, str) else None
    return None if found is None else _of_iso(found[1], str(said.get("level", "")))


def _of_iso(moment: str, level: str) -> tuple[float, str] | None:
    try:
        at = datetime.fromisoformat(moment.replace(",", ".")).timestamp()
    except (ValueError, OverflowError):
        return None
    return at, _LEVELS.get(level.lower(), "")


def _of_triton(found: re.Match[str], near: float) -> tuple[float, str] | None:
    month, day, hour, minute, second, micros = (int(part) for part in found.groups()[1:])
    year = datetime.fromtimestamp(near, UTC).year
    moments = []
    for each in (year - 1, year, year + 1):
        try:
            at = datetime(each, month, day, hour, minute, second, micros, UTC).timestamp()
        except ValueError:  # there is no 29 February in that year, or it is not a time at all
            continue
        moments.append(at)
    past = [at for at in moments if at <= near + _DAY_S]
    return (max(past), _LEVELS[found[1].lower()]) if past else None


class Reader:
    """Makes lines of one log out of its text; what has no time gets that of what is before it."""

    def __init__(self, source: str, near: float) -> None:
        self._source, self._near = source, near
        self._at: float | None = None
        self._level = ""

    def lines(self, texts: Iterable[str]) -> Iterator[LogLine]:
        """Yield *texts* as lines; those before the first time of all get that one."""
        before: list[str] = []
        for text in texts:
            said = stamp(text, self._near)
            if said is None and self._at is None:
                before.append(text)
                continue
            if said is not None:
                self._at, self._level = said
                yield from (LogLine(self._source, self._at, "", one) for one in before)
                before = []
            yield LogLine(self._source, self._at, self._level, text)
        yield from (LogLine(self._source, None, "", one) for one in before)


def merged(logs: Mapping[str, Iterable[LogLine]], since: float | None = None) -> Iterator[LogLine]:
    """Yield the lines of several *logs*, by source, in the order of their times.

    The lines of one log stay in their order, whatever their times say; of two logs with equal
    times that comes first which stands first. Lines before *since* are left out; what has no time
    comes first, and is not.
    """
    for _order, _number, line in heapq.merge(
        *(_ordered(number, lines) for number, lines in enumerate(logs.values())),
        key=lambda each: each[:2],
    ):
        if since is None or line.at is None or line.at >= since:
            yield line


def _ordered(number: int, lines: Iterable[LogLine]) -> Iterator[tuple[float, int, LogLine]]:
    latest = float("-inf")
    for line in lines:
        latest = latest if line.at is None else max(latest, line.at)
        yield latest, number, line
