"""The discoveries of a spec: what each is called, who follows from afar, and the first reach."""

import logging
import queue
import threading
from collections import Counter
from collections.abc import Iterator, Mapping

import attrs

from tarn.domain.fleet import Rules
from tarn.domain.spec import ClusterSpec, DiscoverySpec
from tarn.errors import DiscoveryError, TarnError
from tarn.interfaces import Clock, Discovery

__all__ = ["REACH_WITHIN_S", "NamedDiscovery", "named", "reach", "rules_of"]

log = logging.getLogger(__name__)

REACH_WITHIN_S = 30.0
"""A required discovery that cannot be reached for so long ends the start of a cluster."""
GRACE_S = 2.0
"""A discovery that keeps its deadline answers before this is over, too."""
LOOK_EACH_S = 0.1


@attrs.frozen
class NamedDiscovery:
    """One discovery of a spec."""

    name: str
    """``zookeeper``; the second of its kind is ``zookeeper-2``."""
    spec: DiscoverySpec
    followers: tuple[str, ...]
    """Agents elsewhere that do the work; empty: the master runs it itself."""

    @property
    def words(self) -> tuple[str, ...]:
        """The names under which it acknowledges."""
        return self.followers or (self.name,)


def named(discoveries: tuple[DiscoverySpec, ...]) -> Iterator[NamedDiscovery]:
    """Yield each discovery with a name of its own."""
    seen: Counter[str] = Counter()
    for spec in discoveries:
        seen[spec.use] += 1
        number = seen[spec.use]
        followers = spec.options.get("followers")
        agents = tuple(map(str, followers)) if isinstance(followers, list | tuple) else ()
        yield NamedDiscovery(spec.use if number == 1 else f"{spec.use}-{number}", spec, agents)


def rules_of(spec: ClusterSpec, spec_hash: str) -> Rules:
    """Return what the control thread holds to: who must say that a view was applied, and who may.

    *spec_hash* is that of what an instance is launched by.
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
    """Make sure that the outside world of each answers; all are asked at once.

    One that does not keep the deadline is left alone on its thread.

    Args:
        discoveries: Name to the discovery.
        clock: Monotonic seconds.
        stop: Set it to give up.
        within_s: How long each may take.

    Raises:
        DiscoveryError: The first that cannot be reached, by its name.
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
            raise _unreached(name, _said(error), code) from error
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
    except Exception as error:  # noqa: BLE001 (foreign code: whatever it raises is the answer)
        answers.put((name, error))
    else:
        answers.put((name, None))


def _said(error: Exception) -> str:
    return str(error) if isinstance(error, TarnError) else f"{type(error).__name__}: {error}"


def _unreached(name: str, why: str, code: str = "") -> DiscoveryError:
    return DiscoveryError(
        name,
        f"it is required, and was not reached: {why}",
        code=code,
        where=f"discovery {name}",
        right="A cluster starts when every required discovery answers.",
        next_step="Fix it, or start with `required: false`: then the master keeps trying",
    )
