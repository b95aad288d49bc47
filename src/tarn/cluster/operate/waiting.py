"""Wait until a cluster serves, and report what it waits for."""

import threading
from collections.abc import Callable, Mapping
from typing import Any, Self

import attrs

from tarn.cluster.environment import ClusterEnvironment
from tarn.cluster.explain import explain
from tarn.cluster.link import Link
from tarn.cluster.read.masterless import ended_status
from tarn.cluster.read.table import first_words
from tarn.domain import ClusterState
from tarn.errors import ConfigError, NotFoundError, TarnError, TimedOutError, UnreachableError
from tarn.follow import FleetCall, everywhere
from tarn.interfaces import Clock, Progress
from tarn.plain import did_you_mean
from tarn.triton.exits import loading

__all__ = ["Goal", "LoadProgress", "call_everywhere", "wait_until"]

LOOK_EVERY_S = 0.25
ASK_END_EVERY_S = 1.0
# A cluster that was not found for this long is gone, not restarting.
GONE_AFTER_S = 5.0
# A master that has not answered for this long hangs: a restarting one is back within two seconds.
SILENT_AFTER_S = 30.0

_OVER = (ClusterState.FAILED, ClusterState.STOPPING, ClusterState.STOPPED)
READ_EVERY_S = 1.0
# `wait` does not wait longer for a log: from another machine it may take minutes.
READ_WITHIN_S = 1.0


@attrs.frozen
class Goal:
    """A number of ready instances, a state, or (with neither) the desired size."""

    ready: int | None = None
    state: ClusterState | None = None

    @classmethod
    def of(cls, text: str | int | None) -> Self:
        """Return the goal that ``ready=3``, ``state=stopped``, a number or None means.

        Raises:
            ConfigError: *text* is none of these.
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
        """Tell whether *status* reaches the goal."""
        if self.state is not None:
            return bool(status["state"] == self.state)
        if self.ready is not None:
            return bool(status["ready"] >= self.ready)
        # Before its first decision a master desires 0, which the limits may not allow.
        limits = status.get("limits") or {}
        least, ceiling = limits.get("min", 0), limits.get("ceiling")
        least = least if ceiling is None else min(least, ceiling)
        serves = status["state"] in (ClusterState.READY, ClusterState.DEGRADED)
        return bool(serves and status["ready"] >= status["desired"] >= least)

    def hopeless(self, status: Mapping[str, Any]) -> bool:
        """Tell whether the cluster is over, so that waiting cannot reach the goal."""
        return status["state"] in _OVER and status["state"] != self.state

    def __str__(self) -> str:
        """Return the goal as it is named in messages."""
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
    """Wait until *goal* is reached, and return that status.

    A master that does not answer may be restarting, so it is waited for.

    Raises:
        TimedOutError: *timeout_s* seconds passed; the message says what was missing.
        UnreachableError: The master has not answered for half a minute.
        TarnError: The cluster failed, or is ending.
        NotFoundError: There is no such cluster, or no longer.
    """
    clock = environment.clock
    until_s = clock.now_s() + timeout_s
    watch = _GoalWatch(goal, link, clock, hear)
    while True:
        status = watch.look()
        if status is not None and goal.reached(status):
            hear(Progress("ready", _count(status)))
            return status
        if clock.now_s() >= until_s:
            raise TimedOutError(
                f"{goal} not reached in {timeout_s:g} s. " + "; ".join(watch.why),
                where=link.name,
                next_step=f"The cluster keeps trying: `tarn wait -c {link.name}` waits longer, "
                f"`tarn why -c {link.name}` says why.",
            )
        environment.rest(LOOK_EVERY_S)


def call_everywhere(
    link: Link, environment: ClusterEnvironment, call: FleetCall, limit_s: float | None
) -> Mapping[str, Any]:
    """Ask the master to make *call* at every instance, and return its progress.

    Args:
        link: To the master.
        environment: Its clock and its rest.
        call: A load, an unload or a change of settings.
        limit_s: How long to wait until every instance in the view has it; None: do not wait.

    Raises:
        RefusedError, TimedOutError: As `tarn.follow.everywhere.wait_everywhere` does.
    """
    number = int(link.ask(lambda api: api.call_all(call))["call"])

    def look(newest: int) -> Mapping[str, Any]:
        return link.read(lambda api: api.control(newest))

    if limit_s is not None:
        everywhere.wait_everywhere(number, look, environment.clock, limit_s, environment.rest)
    answer = look(number)
    rows = (*answer.get("calls", ()), *answer.get("over", ()))
    asked = {"call": number, "kind": call.verb, "model": call.body.get("model", "")}
    # A master that has taken over since may not know the call.
    return next((row for row in rows if row["call"] == number), asked)


class _GoalWatch:
    """Reads the status repeatedly, and knows since when it could not."""

    def __init__(
        self, goal: Goal, link: Link, clock: Clock, hear: Callable[[Progress], None]
    ) -> None:
        self._goal, self._link, self._clock, self._hear = goal, link, clock, hear
        self._seen_s = clock.now_s()
        self._ask_end_again_s = float("-inf")
        self._far = LoadProgress(link, clock)
        self.why: tuple[str, ...] = ()

    def look(self) -> Mapping[str, Any] | None:
        """Return the status, or None while the master may still come back."""
        blind_s = self._clock.now_s() - self._seen_s
        try:
            status: Mapping[str, Any] = self._link.ask(lambda api: api.status())
        except (UnreachableError, TimedOutError, NotFoundError) as error:
            ended = self._ended()
            if ended is None:
                self._hope(error, blind_s)
                return None
            status = ended
        self._seen_s, self.why = self._clock.now_s(), tuple(one.found for one in explain(status))
        if not self._goal.reached(status):
            _raise_if_over(self._goal, status)
            # The log of the first instance that is starting says how far its models are.
            starting = (i["id"] for i in status["instances"] if i["state"] == "starting")
            settled, begun = self._far.look(next(starting, ""))
            if settled == begun:
                self._hear(Progress("launching", _count(status)))
            else:
                said = f"loading model {settled + 1} of {begun} ({_count(status)})"
                self._hear(Progress("loading", said, settled, begun))
        return status

    def _hope(self, error: TarnError, blind_s: float) -> None:
        """Report that the master does not answer; raise once that took too long."""
        if isinstance(error, NotFoundError):
            if blind_s >= GONE_AFTER_S:
                raise error
            return
        if blind_s >= SILENT_AFTER_S:
            raise _silent(self._link, error) from error
        self.why = (str(error),)
        self._hear(Progress("launching", "waiting for the master to answer"))

    def _ended(self) -> Mapping[str, Any] | None:
        """Return the status of a cluster that is over; asks at most once a second."""
        now_s = self._clock.now_s()
        if now_s < self._ask_end_again_s:
            return None
        self._ask_end_again_s = now_s + ASK_END_EVERY_S
        try:
            ending = self._link.ended()
        except TarnError:  # its runtime does not answer at the moment
            return None
        return None if ending is None else ended_status(ending)


def _silent(link: Link, error: TarnError) -> UnreachableError:
    try:
        ref = link.find()
    except TarnError:  # the caller's error matters more
        ref = None
    who = f"the master (process {ref.pid})" if ref is not None and ref.pid else "the master"
    return UnreachableError(
        f"{who} has not answered for {SILENT_AFTER_S:g} s: {error.found}",
        where=link.name,
        next_step="The instances go on without it. If it hangs, kill it; another takes over.",
    )


def _raise_if_over(goal: Goal, status: Mapping[str, Any]) -> None:
    if not goal.hopeless(status):
        return
    name, failed = status["name"], status["state"] == ClusterState.FAILED
    reasons = [first_words(status.get("reason") or "no reason is known")]
    ended = [item for item in status.get("ended", ()) if item["state"] == "failed"]
    last = first_words(ended[-1].get("reason", "")) if ended else ""
    if last and last not in reasons[0]:
        reasons.append(f"{ended[-1]['id']}: {last}")
    raise TarnError(
        f"the cluster is {status['state']}: " + "; ".join(reasons),
        code="TARN-1112" if failed else "",
        where=name,
        next_step=f"`tarn logs -c {name}` shows Triton's log; once the cause is gone, `tarn up` "
        f"starts it again, and `tarn down -c {name}` ends it."
        if failed
        else "",
    )


def _count(status: Mapping[str, Any]) -> str:
    return f"{status['ready']} of {status['desired']} instances ready"


class LoadProgress:
    """Finds how many models an instance has loaded, from its log; never raises.

    One thread uses it. A log is read in a second thread, one at a time.

    Args:
        link: Its deployer reads the logs.
        clock: Tells when to read again.
    """

    def __init__(self, link: Link, clock: Clock) -> None:
        self._link, self._clock = link, clock
        self._again_s = float("-inf")
        self._known = 0, 0
        self._reader: threading.Thread | None = None

    def look(self, instance: str) -> tuple[int, int]:
        """Return how many models of *instance* are loaded, and how many it began to load.

        Both are 0 where that is unknown.
        """
        if not instance:
            return 0, 0
        # The whole log is read, so at most once a second.
        if self._reader is None and self._clock.now_s() >= self._again_s:
            self._reader = threading.Thread(
                target=self._read, args=(instance,), name="read-log", daemon=True
            )
            self._reader.start()
            self._reader.join(READ_WITHIN_S)
        if self._reader is not None and not self._reader.is_alive():
            self._reader = None
            self._again_s = self._clock.now_s() + READ_EVERY_S
        return self._known

    def _read(self, instance: str) -> None:
        try:
            ref = self._link.find()
            self._known = (
                (0, 0) if ref is None else loading(self._link.deployer.logs(ref, instance, None))
            )
        # No log yet, the runtime does not answer, or (ValueError) the caller is done and has
        # closed the deployer's pipe while this thread read from it.
        except (TarnError, OSError, ValueError):
            self._known = 0, 0
