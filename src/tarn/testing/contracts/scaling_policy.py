"""What a scaling policy promises: a pure answer to "how many"."""

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs

from tarn.domain import FleetView, Instance, InstanceState, Known, Limits, Sample, Unknown, Wish
from tarn.domain.signals import SIGNALS
from tarn.hookspecs import Factory
from tarn.interfaces import ScalingPolicy
from tarn.testing.context import master_context
from tarn.testing.strategies import fleet_views, for_any
from tarn.testing.wait import within

__all__ = ["ScalingPolicyContract"]

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
    """How long a hundred answers may take."""
    signals: tuple[str, ...] = ()
    """The signals that decide its wish; empty: it looks at none."""

    def make(self, tmp_path: Path) -> ScalingPolicy:
        """Return the policy under test, made by its factory."""
        made = self.factory.settings(**self.settings)
        return self.factory.create(made, master_context(tmp_path))

    def test_answers_an_empty_fleet_without_samples(self, tmp_path: Path) -> None:
        """The first tick of a cluster has nothing to show."""
        self._check(self.make(tmp_path), FleetView(0.0, 0, Limits(0, 10)))

    def test_answers_a_fleet_without_load(self, tmp_path: Path) -> None:
        """Nothing to do is known: it may want none, but never fewer than none."""
        self._check(self.make(tmp_path), self._fleet(load=0.0, desired=1))

    @for_any(fleet=fleet_views(_SIGNALS))
    def test_answers_every_fleet_with_a_size_and_a_reason(
        self, tmp_path: Path, fleet: FleetView
    ) -> None:
        """No view makes it raise; a size is a whole number, never negative."""
        self._check(self.make(tmp_path), fleet)

    @for_any(fleet=fleet_views(_SIGNALS))
    def test_the_same_view_gets_the_same_answer(self, tmp_path: Path, fleet: FleetView) -> None:
        """Asked twice, and by a policy made again: replay and the simulator depend on it."""
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
        """When what it reads is unknown, the size is kept; what it does not read is ignored."""
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
        """A hundred questions are answered in two seconds: it does not wait, and does no I/O."""
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
