"""The discoveries of a spec: their names, the check at the start, and publishing the view.

Each discovery that the master runs has its own worker, so that none delays another.
"""

import logging
import queue
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping

import attrs

from tarn.control.issues import of_worker
from tarn.control.mailbox import Worker
from tarn.domain import Applied, DiscoveryView, Issue
from tarn.domain.fleet import Rules
from tarn.domain.spec import ClusterSpec, DiscoverySpec
from tarn.errors import DiscoveryError, Superseded, TarnError
from tarn.interfaces import Clock, Discovery

__all__ = ["REACH_WITHIN_S", "NamedDiscovery", "Publishers", "named", "reach", "rules_of"]

log = logging.getLogger(__name__)

REACH_WITHIN_S = 30.0
"""A cluster's start fails if a required discovery cannot be reached for this long."""
# Added to the deadline, for the answer of a discovery that uses all of it.
GRACE_S = 2.0
LOOK_EACH_S = 0.1


@attrs.frozen
class NamedDiscovery:
    """One discovery of a spec."""

    name: str
    """``zookeeper``; the second of its kind is ``zookeeper-2``."""
    spec: DiscoverySpec
    followers: tuple[str, ...]
    """Names of the agents elsewhere that do the work; empty: the master runs it itself."""

    @property
    def words(self) -> tuple[str, ...]:
        """The names under which it acknowledges."""
        return self.followers or (self.name,)


def named(discoveries: tuple[DiscoverySpec, ...]) -> Iterator[NamedDiscovery]:
    """Yield each discovery with a unique name."""
    seen: Counter[str] = Counter()
    for spec in discoveries:
        seen[spec.use] += 1
        number = seen[spec.use]
        followers = spec.options.get("followers")
        agents = tuple(map(str, followers)) if isinstance(followers, list | tuple) else ()
        yield NamedDiscovery(spec.use if number == 1 else f"{spec.use}-{number}", spec, agents)


def rules_of(spec: ClusterSpec, spec_hash: str) -> Rules:
    """Return the rules of the control thread: *spec*, and its required and other followers.

    *spec_hash* is the hash with which instances are launched.
    """
    every = tuple(named(spec.discovery))
    required = frozenset(word for one in every if one.spec.required for word in one.words)
    followers = frozenset(word for one in every for word in one.words)
    return Rules(spec, spec_hash, required, followers=followers)


def reach(
    discoveries: Mapping[str, Discovery],
    clock: Clock,
    stop: threading.Event,
    within_s: float = REACH_WITHIN_S,
) -> None:
    """Check that each discovery can be reached; all are checked at once.

    One that does not keep the deadline is left alone on its thread.

    Args:
        discoveries: Name to the discovery.
        clock: Monotonic seconds.
        stop: Set it to give up.
        within_s: How long each may take.

    Raises:
        DiscoveryError: One cannot be reached.
    """
    answers: queue.Queue[tuple[str, Exception | None]] = queue.Queue()
    for name, discovery in discoveries.items():
        asked = name, discovery, within_s, answers
        threading.Thread(target=_ask, args=asked, name=f"reach {name}", daemon=True).start()
    end_s = clock.now_s() + within_s + GRACE_S
    waiting = set(discoveries)
    while waiting:
        try:
            name, error = answers.get(timeout=LOOK_EACH_S)
        except queue.Empty:
            if stop.is_set() or clock.now_s() >= end_s:
                why = "the start was given up" if stop.is_set() else f"no answer in {within_s:g} s"
                raise _unreached(min(waiting), why) from None
            continue
        if error is not None:
            code = error.code if isinstance(error, TarnError) else ""
            ours = isinstance(error, TarnError)
            said = str(error) if ours else f"{type(error).__name__}: {error}"
            raise _unreached(name, said, code) from error
        log.info("discovery %s is reached", name)
        waiting.discard(name)


def _ask(
    name: str,
    discovery: Discovery,
    within_s: float,
    answers: "queue.Queue[tuple[str, Exception | None]]",
) -> None:
    try:
        discovery.reach(within_s)
    except Exception as error:  # noqa: BLE001 (foreign code: what it raises is the answer)
        answers.put((name, error))
    else:
        answers.put((name, None))


def _unreached(name: str, why: str, code: str = "") -> DiscoveryError:
    return DiscoveryError(
        name,
        f"it is required, and was not reached: {why}",
        code=code,
        where=f"discovery {name}",
        right="A cluster starts when every required discovery answers.",
        next_step="Fix it, or start with `required: false`: then the master keeps trying",
    )


# The code of a discovery that could not publish the view.
_BEHIND = "TARN-1303"


class Publishers:
    """Posts views to discoveries and reads their acknowledgements. Control thread only."""

    def __init__(
        self, discoveries: Mapping[str, Discovery], clock: Clock, wake: Callable[[], None]
    ) -> None:
        self._discoveries = discoveries
        self._workers: dict[str, Worker[DiscoveryView]] = {
            name: Worker(f"discovery {name}", discovery.sync, clock, wake)
            for name, discovery in discoveries.items()
        }
        # Name to why `applied` raised.
        self._mute: dict[str, str] = {}

    @property
    def workers(self) -> tuple[Worker[DiscoveryView], ...]:
        """Each discovery's worker."""
        return tuple(self._workers.values())

    def post(self, view: DiscoveryView) -> None:
        """Let each discovery publish *view*; an older view that still waits is dropped."""
        for worker in self._workers.values():
            worker.post(view)

    def words(self) -> tuple[Applied, ...]:
        """Return the newest acknowledgement of each discovery.

        Raises:
            Superseded: One of them found a newer master.
        """
        # Under the names that the spec gives, so that two of a kind are two followers.
        said = ((name, self._applied(name)) for name in self._discoveries)
        return tuple(attrs.evolve(word, name=name) for name, word in said if word is not None)

    def failing(self) -> dict[str, str]:
        """Return name to error, for each that could not publish or acknowledge the newest view."""
        errors = {name: worker.error for name, worker in self._workers.items() if worker.error}
        return self._mute | errors

    def issues(self) -> Iterator[Issue]:
        """Yield an issue for each discovery that fails, or takes long for one view."""
        for name, worker in self._workers.items():
            for issue in of_worker(worker, _BEHIND):
                yield attrs.evolve(issue, followers=(name,)) if issue.code == _BEHIND else issue
            if (why := self._mute.get(name)) and not worker.error:
                public = f"{worker.name} does not say what it applied"
                found = f"{worker.name}: {why}"
                yield Issue(worker.name, found, code=_BEHIND, public=public, followers=(name,))

    def close(self, *, ended: bool, superseded: bool) -> None:
        """End the workers; withdraw the view if the cluster *ended*."""
        for name, discovery in self._discoveries.items():
            self._workers[name].close(1.0 if ended else 0.05)
            if superseded:
                continue
            try:
                discovery.close(withdraw=ended)
            except Exception:  # the others must be closed, too
                log.exception("discovery %s raised while it was being closed", name)

    def _applied(self, name: str) -> Applied | None:
        """Return its newest acknowledgement; None if it raises, so that the tick goes on."""
        try:
            word = self._discoveries[name].applied()
        except Superseded:
            raise
        except Exception as error:
            why = f"{type(error).__name__}: {error}"
            if self._mute.get(name) != why:
                log.warning("discovery %s does not say what it applied", name, exc_info=error)
            self._mute[name] = why
            return None
        self._mute.pop(name, None)
        return word
