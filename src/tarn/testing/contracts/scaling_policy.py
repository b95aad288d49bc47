"""The contracts of a scaling policy and of a signal."""

import copy
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs

from tarn.domain import FleetView, Instance, InstanceState, Known, Limits, Sample, Unknown, Wish
from tarn.domain.signals import SIGNALS
from tarn.hookspecs import Factory
from tarn.interfaces import ScalingPolicy, Signal
from tarn.testing.context import master_context
from tarn.testing.strategies import fleet_views, for_any, histories
from tarn.testing.wait import within

__all__ = ["ScalingPolicyContract", "SignalContract"]

_SIGNALS = ("load", *SIGNALS)
_QUESTIONS = 100


class ScalingPolicyContract:
    """Set `factory`, `settings`, and `signals` when the policy reads any.

    ::

        class TestMine(ScalingPolicyContract):
            factory = my_plugin.FACTORY
            settings = {"target": 3}
            signals = ("queue_time",)
    """

    factory: Factory[ScalingPolicy]
    settings: Mapping[str, Any] = {}
    answers_within_s: float = 2.0
    """Seconds that a hundred answers may take."""
    signals: tuple[str, ...] = ()
    """The signals that determine its wish; empty: none."""

    def make(self, tmp_path: Path) -> ScalingPolicy:
        """Return the policy under test, made by its factory."""
        made = self.factory.settings(**self.settings)
        return self.factory.create(made, master_context(tmp_path))

    def test_answers_an_empty_fleet_without_samples(self, tmp_path: Path) -> None:
        """The first tick of a cluster has no samples."""
        self._check(self.make(tmp_path), FleetView(0.0, 0, Limits(0, 10)))

    def test_answers_a_fleet_without_load(self, tmp_path: Path) -> None:
        """It may want no replica, but never a negative number."""
        self._check(self.make(tmp_path), self._fleet(load=0.0, desired=1))

    @for_any(fleet=fleet_views(_SIGNALS))
    def test_answers_every_fleet_with_a_size_and_a_reason(
        self, tmp_path: Path, fleet: FleetView
    ) -> None:
        """No view makes it raise; a size is a whole number, never negative."""
        self._check(self.make(tmp_path), fleet)

    @for_any(fleet=fleet_views(_SIGNALS))
    def test_the_same_view_gets_the_same_answer(self, tmp_path: Path, fleet: FleetView) -> None:
        """So does a new policy with the same settings: replay and the simulator depend on it."""
        policy = self.make(tmp_path)
        first = policy.wanted(fleet)
        assert policy.wanted(fleet) == first
        assert self.make(tmp_path).wanted(fleet) == first

    def test_what_was_asked_before_does_not_matter(self, tmp_path: Path) -> None:
        """It is stateless: other questions in between change no answer."""
        used, fresh = self.make(tmp_path), self.make(tmp_path)
        for load in (1.0, 500.0, 0.0, 7.0):
            used.wanted(self._fleet(load=load, desired=9))
        assert used.wanted(self._fleet()) == fresh.wanted(self._fleet())

    @for_any(fleet=fleet_views(_SIGNALS))
    def test_the_view_is_left_as_it_was(self, tmp_path: Path, fleet: FleetView) -> None:
        """Nothing in the view is changed, its dictionary of signals included."""
        kept, signals = copy.deepcopy(fleet), copy.deepcopy(fleet.signals)
        self.make(tmp_path).wanted(fleet)
        assert fleet == kept
        assert fleet.signals == signals

    def test_unknown_is_not_zero(self, tmp_path: Path) -> None:
        """If a signal that it reads is unknown, the size stays; other signals do not matter."""
        policy = self.make(tmp_path)
        fleet = self._fleet(desired=7)
        silent = ((99.0, Unknown("timed out")),)
        blind = attrs.evolve(fleet, signals=dict.fromkeys((*_SIGNALS, *self.signals), silent))
        without = attrs.evolve(fleet, signals={})
        if self.signals:
            assert policy.wanted(blind).replicas in (None, 7)
            assert policy.wanted(without).replicas in (None, 7)
        else:
            assert policy.wanted(blind) == policy.wanted(without) == policy.wanted(fleet)

    def test_answers_at_once(self, tmp_path: Path) -> None:
        """A hundred answers take less than two seconds: it does not wait, and does no I/O."""
        policy, fleet = self.make(tmp_path), self._fleet()

        def ask() -> None:
            for _ in range(_QUESTIONS):
                policy.wanted(fleet)

        within(self.answers_within_s, ask, "a hundred answers")

    def _fleet(self, load: float = 3.0, desired: int = 2) -> FleetView:
        ready = tuple(
            Instance(f"fleet-{n:04d}", "aaaaaaaaaaaa", InstanceState.READY, busy=Known(1.0))
            for n in range(1, desired + 1)
        )
        history: tuple[tuple[float, Sample[float]], ...] = tuple(
            (90.0 + second, Known(load)) for second in range(10)
        )
        signals = dict.fromkeys((*_SIGNALS, *self.signals), history)
        return FleetView(100.0, desired, Limits(0, 50), ready, signals)

    def _check(self, policy: ScalingPolicy, fleet: FleetView) -> None:
        wish = policy.wanted(fleet)
        assert isinstance(wish, Wish)
        assert wish.reason.strip(), "a wish without a reason explains nothing"
        if wish.replicas is not None:
            assert type(wish.replicas) is int, wish
            assert wish.replicas >= 0, wish


_METRICS = ("pending", "executing", "requests_total", "queue_us_total")
_History = tuple[tuple[float, Mapping[str, Sample[float]]], ...]


class SignalContract:
    """Set `factory`, `settings`, and `metrics`, the names of the metrics that it reads."""

    factory: Factory[Signal]
    settings: Mapping[str, Any] = {}
    answers_within_s: float = 2.0
    """Seconds that a hundred answers may take."""
    metrics: tuple[str, ...] = ("pending",)

    def make(self, tmp_path: Path) -> Signal:
        """Return the signal under test, made by its factory."""
        made = self.factory.settings(**self.settings)
        return self.factory.create(made, master_context(tmp_path))

    def history(self, start_s: float = 1000.0) -> _History:
        """Return ten seconds of samples of one healthy instance, with rising counters."""
        return tuple(
            (start_s + second, {name: Known(5.0 + second) for name in self.metrics})
            for second in range(10)
        )

    def test_nothing_scraped_is_unknown(self, tmp_path: Path) -> None:
        """Without an instance, or without a sample, the answer is not zero."""
        signal = self.make(tmp_path)
        for samples in ({}, {"fleet-0001": ()}):
            answer = signal.read(samples, 30.0)
            assert isinstance(answer, Unknown)
            assert answer.reason.strip()

    def test_unknown_samples_make_it_unknown(self, tmp_path: Path) -> None:
        """Neither an unknown nor a missing metric counts as zero."""
        signal = self.make(tmp_path)
        unknown = {name: Unknown("timed out") for name in self.metrics}
        for metrics in (unknown, {}):
            answer = signal.read({"fleet-0001": ((1000.0, metrics), (1001.0, metrics))}, 30.0)
            assert isinstance(answer, Unknown)

    def test_known_samples_make_it_known(self, tmp_path: Path) -> None:
        """A healthy instance is enough."""
        answer = self.make(tmp_path).read({"fleet-0001": self.history()}, 30.0)
        assert isinstance(answer, Known)
        assert answer.age_s >= 0

    def test_a_silent_instance_does_not_hide_the_others(self, tmp_path: Path) -> None:
        """The samples of the other instances still count."""
        samples = {"fleet-0001": self.history(), "fleet-0002": ()}
        assert isinstance(self.make(tmp_path).read(samples, 30.0), Known)

    def test_looks_no_further_back_than_the_window(self, tmp_path: Path) -> None:
        """A sample that is ten windows old changes nothing."""
        signal, now = self.make(tmp_path), self.history()
        old = tuple((0.0 + n, {name: Known(9e9) for name in self.metrics}) for n in range(3))
        assert signal.read({"fleet-0001": (*old, *now)}, 30.0) == signal.read(
            {"fleet-0001": now}, 30.0
        )

    @for_any(samples=histories(_METRICS))
    def test_answers_every_history_with_a_number_or_a_reason(
        self, tmp_path: Path, samples: dict[str, _History]
    ) -> None:
        """No history makes it raise; a number is finite."""
        answer = self.make(tmp_path).read(samples, 30.0)
        if isinstance(answer, Known):
            assert math.isfinite(answer.value)
            assert answer.age_s >= 0
        else:
            assert isinstance(answer, Unknown)
            assert answer.reason.strip()

    @for_any(samples=histories(_METRICS))
    def test_is_pure(self, tmp_path: Path, samples: dict[str, _History]) -> None:
        """The same samples give the same answer, and are not changed."""
        signal, kept = self.make(tmp_path), copy.deepcopy(samples)
        first = signal.read(samples, 30.0)
        signal.read({"fleet-0009": self.history()}, 30.0)
        assert signal.read(samples, 30.0) == first
        assert samples == kept

    def test_answers_at_once(self, tmp_path: Path) -> None:
        """A hundred answers take less than two seconds."""
        signal, samples = self.make(tmp_path), {"fleet-0001": self.history()}

        def ask() -> None:
            for _ in range(_QUESTIONS):
                signal.read(samples, 30.0)

        within(self.answers_within_s, ask, "a hundred answers")
