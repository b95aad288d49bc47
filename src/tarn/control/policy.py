"""Ask the scaling policy without waiting for it: an answer, or why there is none."""

import threading
from collections.abc import Callable

import attrs

from tarn.control.mailbox import Worker
from tarn.domain import FleetView, Known, Sample, Unknown, Wish
from tarn.interfaces import Clock, ScalingPolicy

__all__ = ["PolicyDesk"]

DEADLINE_S = 5.0
"""A policy that takes longer is left alone until ``resume``; the present size is kept."""


class PolicyDesk:
    """Owns the policy's thread. `ask` and `answer` are for the control thread."""

    def __init__(self, policy: ScalingPolicy, clock: Clock, wake: Callable[[], None]) -> None:
        self._policy = policy
        self._clock = clock
        self._wake = wake
        self._lock = threading.Lock()
        self._answer: Sample[Wish] = Unknown("the policy has not answered yet")
        self._judged = False
        """True once the policy has answered or raised; before, Unknown means nothing."""
        self._workers = 0
        """Hired so far: what an abandoned one says late counts for nothing."""
        self._worker = self._hire()

    def ask(self, fleet: FleetView) -> None:
        """Leave the newest view; an older one that was not looked at is dropped."""
        self._worker.post(fleet)

    def answer(self) -> Sample[Wish]:
        """Return the newest answer; Unknown while the policy hangs or raises."""
        hung_s = self._worker.working_s()
        if hung_s > DEADLINE_S:
            return Unknown(f"the policy has not answered for {hung_s:.0f} s; `tarn resume` retries")
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

    def _hire(self) -> Worker[FleetView]:
        with self._lock:
            self._workers += 1
            number = self._workers
        return Worker("policy", lambda fleet: self._judge(fleet, number), self._clock, self._wake)

    def _judge(self, fleet: FleetView, number: int) -> None:
        try:
            answer = _checked(self._policy.wanted(fleet))
        except Exception as error:  # noqa: BLE001 (foreign code: its size counts for nothing now)
            answer = Unknown(f"the policy raised {type(error).__name__}: {error}")
        with self._lock:
            if number == self._workers:
                self._answer = answer
                self._judged = True


def _checked(wish: object) -> Sample[Wish]:
    """Refuse what is no wish: a policy is foreign code."""
    if not isinstance(wish, Wish):
        return Unknown(f"the policy answered {type(wish).__name__}, not a Wish")
    replicas = wish.replicas
    if replicas is None:
        return Known(wish)
    if type(replicas) is not int or replicas < 0:
        return Unknown(f"the policy wants {replicas!r} replicas; a whole number from 0 is right")
    return Known(attrs.evolve(wish, reason=wish.reason or "it gave no reason"))
