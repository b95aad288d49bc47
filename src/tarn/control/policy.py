"""Ask the scaling policy without waiting for it: an answer, or why there is none.

The signals of plugins are read on the same thread, within the same deadline, before each question.
"""

import threading
from collections.abc import Callable, Mapping

import attrs

from tarn.control.mailbox import Worker
from tarn.domain import FleetView, Known, Sample, Unknown, Wish
from tarn.domain.plugin_signals import PluginSignals
from tarn.domain.signals import Samples
from tarn.interfaces import Clock, ScalingPolicy

__all__ = ["PolicyRunner", "answered"]

DEADLINE_S = 5.0
"""A policy that takes longer is left alone until ``resume``; the present size is kept."""


_POLICY = "the policy"
_Question = tuple[FleetView, Samples]


class PolicyRunner:
    """Owns the policy's thread. `ask` and `answer` are for the control thread.

    Args:
        policy: Whom to ask.
        clock: Measures how long an answer takes.
        wake: Called when there is a new answer.
        signals: Those of plugins that the policy reads; it finds them in the view.
    """

    def __init__(
        self,
        policy: ScalingPolicy,
        clock: Clock,
        wake: Callable[[], None],
        signals: PluginSignals | None = None,
    ) -> None:
        self._policy = policy
        self._signals = signals or PluginSignals()
        self._asked = _POLICY
        """Who is being asked now."""
        self._clock = clock
        self._wake = wake
        self._lock = threading.Lock()
        self._answer: Sample[Wish] = Unknown("the policy has not answered yet")
        self._judged = False
        """True once the policy has answered or raised; before, Unknown means nothing."""
        self._workers = 0
        """Hired so far: what an abandoned one says late counts for nothing."""
        self._worker = self._hire()

    def ask(self, fleet: FleetView, samples: Samples | None = None) -> None:
        """Leave the newest view; an older one that was not looked at is dropped.

        *samples* is what the signals of plugins are made of.
        """
        self._worker.post((fleet, samples or {}))

    def signals(self) -> Mapping[str, tuple[tuple[float, Sample[float]], ...]]:
        """Return the history of each plugin's signal that the policy reads; any thread."""
        with self._lock:
            return self._signals.history

    def answer(self) -> Sample[Wish]:
        """Return the newest answer; Unknown while the policy hangs or raises."""
        hung_s = self._worker.working_s()
        if hung_s > DEADLINE_S:
            who = self._asked
            return Unknown(f"{who} has not answered for {hung_s:.0f} s; `tarn resume` retries")
        with self._lock:
            return self._answer

    def failure(self) -> str:
        """Say why there is no answer; empty when there is one, or none was due yet."""
        hangs = self._worker.working_s() > DEADLINE_S
        answer = self.answer()
        return answer.reason if isinstance(answer, Unknown) and (hangs or self._judged) else ""

    def revive(self) -> None:
        """Leave a hanging thread alone for good, and ask on a new one."""
        if self._worker.working_s() > DEADLINE_S:
            self._worker.close(0.0)
            self._worker = self._hire()

    def close(self) -> None:
        """Ask no more; a hanging policy is not waited for."""
        self._worker.close(0.1)

    def _hire(self) -> Worker[_Question]:
        with self._lock:
            self._workers += 1
            number = self._workers
        return Worker("policy", lambda asked: self._judge(*asked, number), self._clock, self._wake)

    def _judge(self, fleet: FleetView, samples: Samples, number: int) -> None:
        signals = self._signals

        def begins(name: str) -> None:
            if number == self._workers:
                self._asked = name

        if signals.reads:
            signals = signals.looked(
                samples, fleet.now_s, lambda name: begins(f"the signal {name}")
            )
            with self._lock:
                if number == self._workers:
                    self._signals = signals
            fleet = signals.shown(fleet)
        begins(_POLICY)
        answer = answered(self._policy, fleet)
        with self._lock:
            if number == self._workers:
                self._answer = answer
                self._judged = True


def answered(policy: ScalingPolicy, fleet: FleetView) -> Sample[Wish]:
    """Return what *policy* wishes; Unknown where it raised, or answered what is not a wish."""
    try:
        return _checked(policy.wanted(fleet))
    except Exception as error:  # noqa: BLE001 (foreign code: its size counts for nothing now)
        return Unknown(f"the policy raised {type(error).__name__}: {error}")


def _checked(wish: object) -> Sample[Wish]:
    """Refuse what is not a wish: a policy is foreign code."""
    if not isinstance(wish, Wish):
        return Unknown(f"the policy answered {type(wish).__name__}, not a Wish")
    replicas = wish.replicas
    if replicas is None:
        return Known(wish)
    if type(replicas) is not int or replicas < 0:
        return Unknown(f"the policy wants {replicas!r} replicas; a whole number from 0 is right")
    return Known(attrs.evolve(wish, reason=wish.reason or "it gave no reason"))
