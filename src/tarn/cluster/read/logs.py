"""The logs of a cluster's master and instances: read, merged and followed.

Four kinds of lines have a time: a master's, as JSON or as text, and Triton's, in its own format or
(``log-format: ISO8601``) in ISO 8601. A line without a time, or whose time has no zone, belongs to
the line before it, as in a table or a traceback.
"""

import contextlib
import heapq
import itertools
import json
import logging
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime

import attrs

from tarn.cluster.environment import ClusterEnvironment
from tarn.cluster.link import Link
from tarn.domain import Epoch
from tarn.errors import NotFoundError, TarnError
from tarn.interfaces import ClusterRef

__all__ = ["MASTER", "ClusterLogs", "LogFollower", "LogLine", "Reader", "merged", "stamp"]

# The source of a master's lines; no instance has this name.
MASTER = "master"

_DAY_S = 86400.0
# Characters in which a time and a level must stand: the patterns are not tried on long lines.
_LONGEST_HEAD = 64
# ``E1127 23:52:36.259414 2510 server.cc:241] "…"``: in UTC, and without a year.
_TRITON = re.compile(r"([IWEF])(\d\d)(\d\d) (\d\d):(\d\d):(\d\d)\.(\d{6}) ")
_ISO = re.compile(
    r"(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,6})?(?:Z|[+-]\d\d:?\d\d))(?: (\w{1,10}))?"
)
_LEVELS = {
    **dict.fromkeys(("i", "info"), "info"),
    **dict.fromkeys(("w", "warn", "warning"), "warning"),
    **dict.fromkeys(("e", "error", "f", "fatal", "critical"), "error"),
    "debug": "debug",
}
# Lines read at each look; if the last known ones are not among them, MORE times as many, up to
# MOST, then the whole log.
LOOK = 500
MORE = 8
MOST = 20_000
# Last lines that are kept to find where the previous look ended.
KNOWN = 20
# Of these, as many suffice at the beginning of a log: the others were rotated away.
_SURE = 3
log = logging.getLogger(__name__)
LOOK_EVERY_S = 1.0
# Lines read before the requested ones, from which lines without a time get one.
BEFORE = 200
# Looks between two searches for new instances, and for the end of the cluster.
NEW_EVERY = 5


@attrs.frozen
class LogLine:
    """One line of one log."""

    source: str
    """``master``, or the id of an instance."""
    at: float | None
    """Wall time, Unix seconds, its own or of the line it belongs to; None: its log has no time."""
    level: str
    """``debug``, ``info``, ``warning`` or ``error``; empty if it has none."""
    text: str = attrs.field(repr=False)


def stamp(line: str, near: float) -> tuple[float, str] | None:
    """Return the time and the level that *line* states, or None.

    Triton writes no year, so *near* (Unix seconds) must be less than half a year away.
    """
    if line.startswith("{"):
        try:
            said = json.loads(line)
        except (ValueError, RecursionError):
            return None
        at = said.get("at")
        found = _ISO.fullmatch(at) if isinstance(at, str) else None
        return None if found is None else _of_iso(found[1], str(said.get("level", "")))
    found = _TRITON.match(line)
    if found is not None:
        return _of_triton(found, near)
    found = _ISO.match(line[:_LONGEST_HEAD])
    return None if found is None else _of_iso(found[1], found[2] or "")


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
        except ValueError:  # no 29 February in that year, or not a time
            continue
        moments.append(at)
    # A day ahead is allowed, for clocks that differ.
    past = [at for at in moments if at <= near + _DAY_S]
    return (max(past), _LEVELS[found[1].lower()]) if past else None


class Reader:
    """Turns the text of one log into lines; a line without a time gets that of the one before."""

    def __init__(self, source: str, near: float) -> None:
        self._source, self._near = source, near
        self._at: float | None = None
        self._level = ""

    def lines(self, texts: Iterable[str]) -> Iterator[LogLine]:
        """Yield *texts* as lines; those before the first time get that time."""
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

    Lines of one log keep their order. At equal times the log that is first in *logs* comes first.
    Lines before *since* are left out; lines without a time come first and are kept.
    """

    def ordered(number: int, lines: Iterable[LogLine]) -> Iterator[tuple[float, int, LogLine]]:
        latest = float("-inf")
        for line in lines:
            latest = latest if line.at is None else max(latest, line.at)
            yield latest, number, line

    for _order, _number, line in heapq.merge(
        *(ordered(number, lines) for number, lines in enumerate(logs.values())),
        key=lambda each: each[:2],
    ):
        if since is None or line.at is None or line.at >= since:
            yield line


class LogFollower:
    """Finds the lines that a log got since the last look.

    Args:
        read: Returns the last lines of the log: a number of them, or (None) all.
    """

    def __init__(self, read: Callable[[int | None], Iterable[str]]) -> None:
        self._read = read
        self._known: tuple[str, ...] | None = None

    def begin(self, tail: int | None) -> list[str]:
        """Return the last *tail* lines (None: all)."""
        lines = list(self._read(None if tail is None else max(tail, KNOWN)))
        self._know(lines)
        return lines if tail is None else lines[max(0, len(lines) - tail) :]

    def news(self) -> list[str]:
        """Return the lines since the last look; all lines if its end is not found."""
        known, size = self._known or (), LOOK
        while True:
            asked = size if size <= MOST else None
            lines = list(self._read(asked))
            at = after(known, lines)
            whole = asked is None or len(lines) < asked
            if whole or (known and at is not None):
                break
            size *= MORE
        self._know(lines)
        return lines[at or 0 :]

    def _know(self, lines: Sequence[str]) -> None:
        self._known = tuple(lines[max(0, len(lines) - KNOWN) :])


def after(known: Sequence[str], lines: Sequence[str]) -> int | None:
    """Return the index in *lines* after the *known* ones; None if they are not in it.

    The last known line may have been incomplete: then the index is that of the whole line.
    """
    if not known:
        return 0
    for end in range(len(lines), -1, -1):
        length = min(len(known), end)
        if length < min(len(known), _SURE):
            return None
        theirs, ours = lines[end - length : end], known[len(known) - length :]
        if list(theirs) == list(ours):
            return end
        if length and list(theirs[:-1]) == list(ours[:-1]) and theirs[-1].startswith(ours[-1]):
            return end - 1
    return None


@attrs.frozen
class ClusterLogs:
    """Reads the logs of one cluster; `tarn.Cluster` documents what its methods return."""

    link: Link
    environment: ClusterEnvironment
    ref: ClusterRef | None = None
    """The cluster's reference, if it is known already."""

    def lines(self, instance: str, tail: int | None) -> Iterator[str]:
        """Yield the last *tail* lines (None: all) of an instance's log; '' is the master's."""
        return self.link.deployer.logs(self._reference(), instance, tail)

    def follow(self, instance: str, tail: int | None) -> Iterator[str]:
        """Yield lines as `lines` does, then new ones, until the cluster is over."""
        growing = self._growing(instance)
        yield from growing.begin(tail)
        for _ in self._looks():
            yield from _news(growing)

    def sources(self) -> tuple[str, ...]:
        """Return the sources of logs: ``master``, and instances, some of which have ended."""
        return (MASTER, *self.link.deployer.logged(self._reference()))

    def merge(
        self, sources: Sequence[str] | None, since: float | None, tail: int | None
    ) -> Iterator[LogLine]:
        """Yield lines of *sources* (None: all) in the order of their times."""
        near = self.environment.clock.at()
        texts = {
            source: Reader(source, near).lines(lines)
            for source, lines in self._each(sources or self.sources(), tail, given=bool(sources))
        }
        lines = merged(texts, since)
        return lines if tail is None else iter(deque(lines, maxlen=tail))

    def follow_merged(
        self, sources: Sequence[str] | None, since: float | None, tail: int | None
    ) -> Iterator[LogLine]:
        """Yield lines as `merge` does, then new ones, until the cluster is over."""
        near = self.environment.clock.at()
        logs: dict[str, tuple[LogFollower, Reader]] = {}
        texts = dict[str, list[LogLine]]()
        for source in sources or self.sources():
            if (begun := self._begun(source, tail, given=bool(sources))) is not None:
                reader = Reader(source, near)
                texts[source] = list(reader.lines(begun[1]))
                logs[source] = begun[0], reader
        first = merged(texts, since)
        yield from first if tail is None else deque(first, maxlen=tail)
        for look in self._looks():
            if sources is None and look % NEW_EVERY == 0:
                logs |= self._new(logs)
            texts = {
                source: list(reader.lines(_news(growing)))
                for source, (growing, reader) in logs.items()
            }
            yield from merged(texts)

    def _looks(self) -> Iterator[int]:
        """Yield the number of each look, until one look after the end of the cluster."""
        for look in itertools.count(1):
            self.environment.rest(LOOK_EVERY_S)
            yield look
            with contextlib.suppress(TarnError):  # the runtime does not answer at the moment
                if look % NEW_EVERY == 0 and self.link.find() is None:
                    yield look + 1
                    return

    def _reference(self) -> ClusterRef:
        """Return the reference of a cluster that runs, has ended, or left only its logs."""
        ref = self.ref or self.link.find()
        if ref is None and (ending := self.link.ended()) is not None:
            ref = ending.ref
        if ref is not None:
            return ref
        name = self.link.name
        left = ClusterRef(name, "", Epoch(0, 0))
        try:
            self.link.deployer.logs(left, "", 0)
        except NotFoundError as error:
            folder = self.environment.paths.cluster(name) / "logs"
            raise NotFoundError(
                f"cluster '{name}' does not run",
                next_step=f"The logs of an ended one stay in {folder}",
            ) from error
        return left

    def _each(
        self, sources: Sequence[str], tail: int | None, *, given: bool
    ) -> Iterator[tuple[str, Iterator[str]]]:
        """Yield each source with its lines; skip one without a log, unless it was *given*."""
        missing: TarnError = NotFoundError("there are no logs", where=self.link.name)
        found = False
        for source in sources:
            try:
                lines = self.lines(_instance(source), _more(tail))
            except TarnError as error:
                if given:
                    raise
                if not isinstance(error, NotFoundError):
                    log.warning("the log of %s cannot be read: %s", source, error)
                    missing = error
                continue
            found = True
            yield source, lines
        if not found:
            raise missing

    def _begun(
        self, source: str, tail: int | None, *, given: bool
    ) -> tuple[LogFollower, list[str]] | None:
        growing = self._growing(_instance(source))
        try:
            return growing, growing.begin(_more(tail))
        except TarnError:
            if given:
                raise
            return None

    def _new(
        self, logs: dict[str, tuple[LogFollower, Reader]]
    ) -> dict[str, tuple[LogFollower, Reader]]:
        """Return the logs of new instances; none while the runtime does not answer."""
        near = self.environment.clock.at()
        try:
            there = self.sources()
        except TarnError:
            return {}
        return {
            source: (self._growing(_instance(source)), Reader(source, near))
            for source in there
            if source not in logs
        }

    def _growing(self, instance: str) -> LogFollower:
        return LogFollower(lambda most: self.lines(instance, most))


def _news(growing: LogFollower) -> list[str]:
    """Return the new lines; none on an error, so that they come with a later look."""
    try:
        return growing.news()
    except TarnError:
        return []


def _more(tail: int | None) -> int | None:
    return None if tail is None else tail + BEFORE


def _instance(source: str) -> str:
    return "" if source == MASTER else source
