"""Waiting until a cluster serves, and saying meanwhile what it waits for."""

from collections.abc import Callable, Mapping
from typing import Any

import attrs

from tarn.cluster.explain import explain, first_words
from tarn.cluster.link import Link
from tarn.cluster.surroundings import Surroundings
from tarn.domain import ClusterState
from tarn.errors import NotFoundError, TarnError, TimedOutError, UnreachableError
from tarn.interfaces import Progress

__all__ = ["Goal", "wait_until"]

LOOK_EVERY_S = 0.25
GONE_AFTER_S = 5.0
"""A cluster that cannot be found for so long is gone, not restarting."""

_OVER = (ClusterState.FAILED, ClusterState.STOPPING, ClusterState.STOPPED)


@attrs.frozen
class Goal:
    """What is waited for: a number of ready instances, a state, or (neither) the desired size."""

    ready: int | None = None
    state: ClusterState | None = None

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
    surroundings: Surroundings,
    timeout_s: float,
    hear: Callable[[Progress], None],
) -> Mapping[str, Any]:
    """Return the status in which *goal* was reached.

    A master that does not answer is waited for: it may be restarting.

    Raises:
        TimedOutError: *timeout_s* seconds passed; the message says why.
        TarnError: The cluster failed, or ends.
        NotFoundError: There is no such cluster (any more).
    """
    clock = surroundings.clock
    until_s = clock.now_s() + timeout_s
    seen_s = clock.now_s()
    why: tuple[str, ...] = ()
    while True:
        try:
            status = link.ask(lambda api: api.status())
        except (UnreachableError, TimedOutError) as error:
            why = (str(error),)
            hear(Progress("launching", "waiting for the master to answer"))
        except NotFoundError:
            if clock.now_s() - seen_s >= GONE_AFTER_S:
                raise
        else:
            seen_s, why = clock.now_s(), explain(status)
            if goal.reached(status):
                hear(Progress("ready", _count(status)))
                return status
            _raise_if_over(goal, status)
            hear(_progress(status))
        if clock.now_s() >= until_s:
            raise _too_late(goal, link.name, timeout_s, why)
        surroundings.rest(LOOK_EVERY_S)


def _least(status: Mapping[str, Any]) -> int:
    """Return the smallest size that can be meant: a master that has not decided yet says 0."""
    limits = status.get("limits") or {}
    least, ceiling = limits.get("min", 0), limits.get("ceiling")
    return int(least if ceiling is None else min(least, ceiling))


def _too_late(goal: Goal, name: str, timeout_s: float, why: tuple[str, ...]) -> TimedOutError:
    return TimedOutError(
        f"{goal} not reached in {timeout_s:g} s. " + "; ".join(why),
        where=name,
        next_step=f"It goes on: `tarn wait -c {name}` waits longer, `tarn why -c {name}` says why.",
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
        next_step=f"`tarn down -c {name}` ends it; `tarn logs` shows Triton's log."
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


def _progress(status: Mapping[str, Any]) -> Progress:
    """Tell of the first instance that is not ready: its models say how far it is."""
    for item in status["instances"]:
        models = item.get("models") or ()
        if item["state"] != "starting" or not models:
            continue
        settled = sum(model["state"] in ("READY", "UNAVAILABLE") for model in models)
        if settled < len(models):
            return Progress(
                "loading",
                f"loading model {settled + 1} of {len(models)} ({_count(status)})",
                settled,
                len(models),
            )
    return Progress("launching", _count(status))
