"""The logs of a cluster: of its master and its instances, alone or as one, and as they grow."""

import abc
import itertools
import logging
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path

from tarn.cluster.environment import ClusterEnvironment
from tarn.cluster.link import Link
from tarn.cluster.log_follower import LogFollower
from tarn.cluster.log_lines import MASTER, LogLine, Reader, merged
from tarn.domain import Epoch
from tarn.errors import NotFoundError, TarnError
from tarn.interfaces import ClusterRef

__all__ = ["Logged"]

log = logging.getLogger(__name__)

LOOK_EVERY_S = 1.0
BEFORE = 200
"""Lines read before those that are asked for: what has no time gets it from one of them."""
NEW_EVERY = 5
"""Looks after which new instances are looked for, and whether the cluster is over."""


class Logged(abc.ABC):
    """The part of `Cluster` that reads logs."""

    _link: Link
    _environment: ClusterEnvironment
    _ref: ClusterRef | None

    @property
    @abc.abstractmethod
    def name(self) -> str:
        """The cluster's name."""

    @property
    @abc.abstractmethod
    def _directory(self) -> Path: ...

    def logs(self, instance: str = "", tail: int | None = None) -> Iterator[str]:
        """Yield the last *tail* lines (None: all) of an instance's log; '' is the master's.

        Raises:
            NotFoundError: There is no such cluster, or no log of that instance.
        """
        return self._link.deployer.logs(self._logged_ref(), instance, tail)

    def follow_logs(self, instance: str = "", tail: int | None = None) -> Iterator[str]:
        """Yield the last *tail* lines as `logs` does, then what is written, until it is over.

        That is the cluster; what cannot be read at one look comes with a later one.
        """
        growing = LogFollower(lambda most: self.logs(instance, most))
        yield from growing.begin(tail)
        for _ in self._looks():
            yield from self._news(growing)

    def logged(self) -> tuple[str, ...]:
        """Return whose logs there are: ``master``, and instances, also some that ended.

        Raises:
            NotFoundError: There is no such cluster.
        """
        return (MASTER, *self._link.deployer.logged(self._logged_ref()))

    def log_lines(
        self,
        sources: Sequence[str] | None = None,
        *,
        since: float | None = None,
        tail: int | None = None,
    ) -> Iterator[LogLine]:
        """Yield lines of several logs as one, in the order of their times.

        Args:
            sources: ``master`` and ids of instances; None: all that there are.
            since: Unix seconds; lines before are left out.
            tail: The number of last lines, of all logs together; None: all.

        Raises:
            NotFoundError: There is no such cluster, or none of the logs.
        """
        near = self._environment.clock.at()
        texts = {
            source: Reader(source, near).lines(lines)
            for source, lines in self._each(sources or self.logged(), tail, given=bool(sources))
        }
        lines = merged(texts, since)
        return lines if tail is None else iter(deque(lines, maxlen=tail))

    def follow_log_lines(
        self,
        sources: Sequence[str] | None = None,
        *,
        since: float | None = None,
        tail: int | None = None,
    ) -> Iterator[LogLine]:
        """Yield lines as `log_lines` does, then what is written, until the cluster is over.

        With *sources* None also those of instances that start meanwhile.
        """
        near = self._environment.clock.at()
        logs: dict[str, tuple[LogFollower, Reader]] = {}
        texts = dict[str, list[LogLine]]()
        for source in sources or self.logged():
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
                source: list(reader.lines(self._news(growing)))
                for source, (growing, reader) in logs.items()
            }
            yield from merged(texts)

    def _looks(self) -> Iterator[int]:
        """Yield the number of each look, until the cluster is over, and once more then."""
        for look in itertools.count(1):
            self._environment.rest(LOOK_EVERY_S)
            yield look
            if look % NEW_EVERY == 0 and self._is_over():
                yield look + 1
                return

    def _is_over(self) -> bool:
        """Say whether its runtime knows it no more; not where nobody can tell."""
        try:
            return self._link.find() is None
        except TarnError:
            return False

    def _logged_ref(self) -> ClusterRef:
        """Return the reference of what runs, or of what ended; of what left only its logs, too."""
        ref = self._ref or self._link.find()
        if ref is None and (ending := self._link.ended()) is not None:
            ref = ending.ref
        if ref is not None:
            return ref
        left = ClusterRef(self.name, "", Epoch(0, 0))
        try:
            self._link.deployer.logs(left, "", 0)
        except NotFoundError as error:
            raise NotFoundError(
                f"cluster '{self.name}' does not run",
                next_step=f"The logs of an ended one stay in {self._directory / 'logs'}",
            ) from error
        return left

    def _each(
        self, sources: Sequence[str], tail: int | None, *, given: bool
    ) -> Iterator[tuple[str, Iterator[str]]]:
        """Yield each source with its lines; one that nobody named may have none, or be refused."""
        missing: TarnError = NotFoundError("there are no logs", where=self.name)
        found = False
        for source in sources:
            try:
                lines = self.logs(_instance(source), _more(tail))
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
        growing = self._growing(source)
        try:
            return growing, growing.begin(_more(tail))
        except TarnError:
            if given:
                raise
            return None

    def _new(
        self, logs: dict[str, tuple[LogFollower, Reader]]
    ) -> dict[str, tuple[LogFollower, Reader]]:
        """Return the logs that came to be since; none where nobody can tell now."""
        near = self._environment.clock.at()
        try:
            there = self.logged()
        except TarnError:
            return {}
        return {
            source: (self._growing(source), Reader(source, near))
            for source in there
            if source not in logs
        }

    def _growing(self, source: str) -> LogFollower:
        instance = _instance(source)
        return LogFollower(lambda most: self.logs(instance, most))

    @staticmethod
    def _news(growing: LogFollower) -> list[str]:
        """Return what is new; nothing where nobody can tell now, so that it comes later."""
        try:
            return growing.news()
        except TarnError:
            return []


def _more(tail: int | None) -> int | None:
    return None if tail is None else tail + BEFORE


def _instance(source: str) -> str:
    return "" if source == MASTER else source
