"""Make the scaling policy of a spec, and ask it on a thread of its own.

Before each question, the signals of plugins are read on the same thread, within the same deadline.
"""

import threading
from collections.abc import Callable, Mapping
from typing import cast

import attrs

from tarn.control.mailbox import Worker
from tarn.control.scrape import Families
from tarn.domain import FleetView, Known, Sample, Unknown, Wish
from tarn.domain.plugin_signals import WINDOW_S, PluginSignals, Read
from tarn.domain.signals import Samples, SignalSelection
from tarn.domain.spec import Choice
from tarn.interfaces import Clock, MasterContext, ScalingPolicy
from tarn.plugins import Plugins

__all__ = ["PolicyRunner", "Scaling", "answered", "scaling"]

# A policy that takes longer is not asked again until ``resume``; the present size is kept.
DEADLINE_S = 5.0


_POLICY = "the policy"
_Question = tuple[FleetView, Samples]


class PolicyRunner:
    """Owns the policy's thread. The control thread calls `ask` and `answer`.

    Args:
        policy: The policy to ask.
        clock: Measures how long an answer takes.
        wake: Called when an answer asks for another size than the one before.
        signals: The plugins' signals that the policy reads; they are added to its view.
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
        # What is being asked now: the policy, or one signal.
        self._asked = _POLICY
        self._clock = clock
        self._wake = wake
        self._lock = threading.Lock()
        self._answer: Sample[Wish] = Unknown("the policy has not answered yet")
        # True once the policy has answered or raised; before, Unknown means nothing.
        self._judged = False
        # Number of workers so far: a late answer of an abandoned one is ignored.
        self._workers = 0
        self._worker = self._hire()

    def ask(self, fleet: FleetView, samples: Samples | None = None) -> None:
        """Ask the policy about *fleet*; an older question that still waits is dropped.

        The signals of plugins are computed from *samples*.
        """
        self._worker.post((fleet, samples or {}))

    def replace(self, policy: ScalingPolicy, signals: PluginSignals) -> None:
        """Ask another policy from now on; an answer of the old one that is still due is ignored."""
        self._worker.close(0.0)
        with self._lock:
            self._policy, self._signals = policy, signals
            self._answer, self._judged = Unknown("the policy has not answered yet"), False
        self._worker = self._hire()

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
        """Say why there is no answer; empty if there is one, or none was due yet."""
        hangs = self._worker.working_s() > DEADLINE_S
        answer = self.answer()
        return answer.reason if isinstance(answer, Unknown) and (hangs or self._judged) else ""

    def revive(self) -> None:
        """Abandon a thread that hangs, and ask on a new one."""
        if self._worker.working_s() > DEADLINE_S:
            self._worker.close(0.0)
            self._worker = self._hire()

    def close(self) -> None:
        """Stop asking; do not wait for a policy that hangs."""
        self._worker.close(0.1)

    def _hire(self) -> Worker[_Question]:
        with self._lock:
            self._workers += 1
            number = self._workers

        def judge(asked: _Question) -> None:
            self._judge(*asked, number)

        return Worker("policy", judge, self._clock, lambda: None)

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
            if number != self._workers:
                return
            before, self._answer, self._judged = self._answer, answer, True
        if _size(answer) != _size(before):
            self._wake()


def _size(answer: Sample[Wish]) -> int | str | None:
    """Return what of *answer* a tick acts on; another reason alone waits for the next one."""
    return answer.value.replicas if isinstance(answer, Known) else answer.reason


def answered(policy: ScalingPolicy, fleet: FleetView) -> Sample[Wish]:
    """Return the wish of *policy*; Unknown if it raised, or its answer is not a valid wish."""
    try:
        return _checked(policy.wanted(fleet))
    except Exception as error:  # noqa: BLE001 (foreign code: its size counts for nothing now)
        return Unknown(f"the policy raised {type(error).__name__}: {error}")


# Within the `try`, since the wish may be of a subclass, which is foreign code, too.
def _checked(wish: object) -> Sample[Wish]:
    if not isinstance(wish, Wish):
        return Unknown(f"the policy answered {type(wish).__name__}, not a Wish")
    replicas = wish.replicas
    if replicas is None:
        return Known(wish)
    if type(replicas) is not int or replicas < 0:
        return Unknown(f"the policy wants {replicas!r} replicas; a whole number from 0 is right")
    return Known(attrs.evolve(wish, reason=wish.reason or "it gave no reason"))


# The fewest samples that a plugin's signal sees, even if the interval is long.
_LOOKS = 3


@attrs.frozen
class Scaling:
    """The policy of a master, and what must be read for it."""

    policy: ScalingPolicy
    signals: PluginSignals
    kept: SignalSelection
    families: Families


def scaling(offered: Plugins, context: MasterContext) -> Scaling:
    """Make the policy that the spec chooses, and the signals that it reads.

    Raises:
        ConfigErrors: Its options are wrong, or it reads a signal that does not exist, or one that
            needs a module that is not installed.
        ProviderMissingError: There is no such policy, or a module that it needs is not installed.
        PluginError: A plugin failed.
    """
    spec = context.spec.scaling
    factory = offered.choose("scaling", spec.use, "scaling.use")
    settings = offered.settings(factory, spec.options, "scaling.options")
    needs = offered.needs(factory, settings)
    reads: dict[str, Read] = {}
    series: dict[str, None] = {}
    for name in needs.plugins:
        signal = offered.signals[name]
        made = offered.settings(signal, {}, f"signal {name}")
        reads[name] = signal.create(made, context).read
        series.update(dict.fromkeys(offered.families(signal, made)))
    window_s = max(WINDOW_S, _LOOKS * spec.interval_s)

    def asked(choice: Choice) -> ScalingPolicy:
        made = offered.choose("scaling", choice.use, "scaling.use")
        return cast(
            ScalingPolicy,
            made.create(offered.settings(made, choice.options, "scaling.options"), asking),
        )

    asking = attrs.evolve(context, policy=asked)
    return Scaling(
        factory.create(settings, asking),
        PluginSignals(reads, window_s),
        SignalSelection(dict(needs.metrics), needs.names, window_s if reads else 0.0),
        Families(tuple(dict.fromkeys(family for _, family in needs.metrics)), tuple(series)),
    )
