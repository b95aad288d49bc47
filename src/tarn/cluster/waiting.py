"""Waiting until a cluster serves, and saying meanwhile what it waits for."""

from collections.abc import Callable, Mapping
from typing import Any, Self

import attrs

from tarn.cluster.ended import ended_status
from tarn.cluster.environment import ClusterEnvironment
from tarn.cluster.explain import explain, first_words
from tarn.cluster.link import Link
from tarn.cluster.load_progress import LoadProgress
from tarn.domain import ClusterState
from tarn.errors import ConfigError, NotFoundError, TarnError, TimedOutError, UnreachableError
from tarn.interfaces import Clock, Progress
from tarn.plain import did_you_mean

__all__ = ["Goal", "wait_until"]

LOOK_EVERY_S = 0.25
ASK_END_EVERY_S = 1.0
GONE_AFTER_S = 5.0
"""A cluster that cannot be found for so long is gone, not restarting."""

SILENT_AFTER_S = 30.0
"""A master that is there and says nothing for so long hangs; a restarting one is back in two."""

_OVER = (ClusterState.FAILED, ClusterState.STOPPING, ClusterState.STOPPED)


@attrs.frozen
class Goal:
    """What is waited for: a number of ready instances, a state, or (neither) the desired size."""

    ready: int | None = None
    state: ClusterState | None = None

    @classmethod
    def of(cls, text: str | int | None) -> Self:
        """Return the goal that ``ready=3``, ``state=stopped``, a number or None stands for.

        Raises:
            ConfigError: It is none of these.
        """
        if text is None or isinstance(text, int):
            return cls(text)
        kind, _, wanted = text.partition("=")
        if kind == "ready" and wanted.isdecimal():
            return cls(int(wanted))
        if kind == "state" and wanted in tuple(ClusterState):
            return cls(state=ClusterState(wanted))
        states = ", ".join(ClusterState)
        near = did_you_mean(wanted, ClusterState) if kind == "state" else ""
        raise ConfigError(
            f"'{text}' is not a goal",
            right=f"Expected ready=N, or state=S (S: {states}).",
            next_step=near,
        )

    def reached(self, status: Mapping[str, Any]) -> bool:
        """Say whether *status* is what is waited for."""
        if self.state is not None:
            return bool(status["state"] == self.state)
        if self.ready is not None:
            return bool(status["ready"] >= self.ready)
        serves = status["state"] in (ClusterState.READY, ClusterState.DEGRADED)
        return bool(serves and status["ready"] >= status["desired"] >= _least(status))

    def hopeless(self, status: Mapping[str, Any]) -> bool:
        """Say whether *status* will not become the goal by waiting."""
        return status["state"] in _OVER and status["state"] != self.state

    def __str__(self) -> str:
        """Return the goal in words."""
        if self.state is not None:
            return f"the state {self.state}"
        return "the desired size" if self.ready is None else f"{self.ready} ready instances"


def wait_until(
    goal: Goal,
    link: Link,
    environment: ClusterEnvironment,
    timeout_s: float,
    hear: Callable[[Progress], None],
) -> Mapping[str, Any]:
    """Return the status in which *goal* was reached.

    A master that does not answer is waited for: it may be restarting.

    Raises:
        TimedOutError: *timeout_s* seconds passed; the message says why.
        UnreachableError: The master says nothing for half a minute.
        TarnError: The cluster failed, or ends.
        NotFoundError: There is no such cluster (any more).
    """
    clock = environment.clock
    until_s = clock.now_s() + timeout_s
    watch = _Watch(goal, link, clock, hear)
    while True:
        status = watch.look()
        if status is not None and goal.reached(status):
            hear(Progress("ready", _count(status)))
            return status
        if clock.now_s() >= until_s:
            raise _too_late(goal, link.name, timeout_s, watch.why)
        environment.rest(LOOK_EVERY_S)


class _Watch:
    """Looks at a cluster again and again, and knows since when it could not."""

    def __init__(
        self, goal: Goal, link: Link, clock: Clock, hear: Callable[[Progress], None]
    ) -> None:
        self._goal, self._link, self._clock, self._hear = goal, link, clock, hear
        self._seen_s = clock.now_s()
        self._ask_end_again_s = float("-inf")
        self._far = LoadProgress(link, clock)
        self.why: tuple[str, ...] = ()

    def look(self) -> Mapping[str, Any] | None:
        """Return the status, or None while there is hope that there will be one."""
        blind_s = self._clock.now_s() - self._seen_s
        try:
            status: Mapping[str, Any] = self._link.ask(lambda api: api.status())
        except (UnreachableError, TimedOutError, NotFoundError) as error:
            ended = self._ended()
            if ended is None:
                self._hope(error, blind_s)
                return None
            status = ended
        self._seen_s, self.why = self._clock.now_s(), _found(status)
        if not self._goal.reached(status):
            _raise_if_over(self._goal, status)
            self._hear(self._progress(status))
        return status

    def _hope(self, error: TarnError, blind_s: float) -> None:
        """Hope, unless there was no answer for too long."""
        if isinstance(error, NotFoundError):
            if blind_s >= GONE_AFTER_S:
                raise error
            return
        if blind_s >= SILENT_AFTER_S:
            raise _silent(self._link, error) from error
        self.why = (str(error),)
        self._hear(Progress("launching", "waiting for the master to answer"))

    def _ended(self) -> Mapping[str, Any] | None:
        """Return the status of a cluster that is over; asked for no more than once a second."""
        now_s = self._clock.now_s()
        if now_s < self._ask_end_again_s:
            return None
        self._ask_end_again_s = now_s + ASK_END_EVERY_S
        try:
            ending = self._link.ended()
        except TarnError:  # its runtime cannot be asked at the moment
            return None
        return None if ending is None else ended_status(ending)

    def _progress(self, status: Mapping[str, Any]) -> Progress:
        """Tell of the first instance that is not ready: its log says how far its models are."""
        starting = (i["id"] for i in status["instances"] if i["state"] == "starting")
        settled, begun = self._far.look(next(starting, ""))
        if settled == begun:
            return Progress("launching", _count(status))
        said = f"loading model {settled + 1} of {begun} ({_count(status)})"
        return Progress("loading", said, settled, begun)


def _found(status: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(cause.found for cause in explain(status))


def _silent(link: Link, error: TarnError) -> UnreachableError:
    try:
        ref = link.find()
    except TarnError:  # the silence is what counts
        ref = None
    who = f"the master (process {ref.pid})" if ref is not None and ref.pid else "the master"
    return UnreachableError(
        f"{who} has not answered for {SILENT_AFTER_S:g} s: {error.found}",
        where=link.name,
        next_step="The instances go on without it. If it hangs, kill it; another takes over.",
    )


def _least(status: Mapping[str, Any]) -> int:
    """Return the smallest size that can be meant: a master that has not decided yet says 0."""
    limits = status.get("limits") or {}
    least, ceiling = limits.get("min", 0), limits.get("ceiling")
    return int(least if ceiling is None else min(least, ceiling))


def _too_late(goal: Goal, name: str, timeout_s: float, why: tuple[str, ...]) -> TimedOutError:
    return TimedOutError(
        f"{goal} not reached in {timeout_s:g} s. " + "; ".join(why),
        where=name,
        next_step=f"The cluster keeps trying: `tarn wait -c {name}` waits longer, `tarn why -c "
        f"{name}` says why.",
    )


def _raise_if_over(goal: Goal, status: Mapping[str, Any]) -> None:
    if not goal.hopeless(status):
        return
    failed = status["state"] == ClusterState.FAILED
    name = status["name"]
    raise TarnError(
        f"the cluster is {status['state']}: " + "; ".join(_reasons(status)),
        code="TARN-1112" if failed else "",
        where=name,
        next_step=f"`tarn logs -c {name}` shows Triton's log; once the cause is gone, `tarn up` "
        f"starts it again, and `tarn down -c {name}` ends it."
        if failed
        else "",
    )


def _reasons(status: Mapping[str, Any]) -> tuple[str, ...]:
    failed = [item for item in status.get("ended", ()) if item["state"] == "failed"]
    last = first_words(failed[-1].get("reason", "")) if failed else ""
    reasons = [first_words(status.get("reason") or "no reason is known")]
    if last and last not in reasons[0]:
        reasons.append(f"{failed[-1]['id']}: {last}")
    return tuple(reasons)


def _count(status: Mapping[str, Any]) -> str:
    return f"{status['ready']} of {status['desired']} instances ready"
