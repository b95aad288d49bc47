"""The contract of an affinity."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tarn.domain import AffinityRule, ModelTraits
from tarn.domain.affinity import MOST_RULES, rule_for
from tarn.hookspecs import Factory
from tarn.interfaces import Affinity
from tarn.testing.context import master_context
from tarn.testing.strategies import for_any, model_traits, two_orders
from tarn.testing.wait import within

__all__ = ["AffinityContract"]

_QUESTIONS = 100


class AffinityContract:
    """Set `factory` and `settings`; and `keeps_sequences` to False if it means not to.

    ::

        class TestMine(AffinityContract):
            factory = my_plugin.FACTORY
            settings = {"header": "X-User"}
    """

    factory: Factory[Affinity]
    settings: Mapping[str, Any] = {}
    keeps_sequences = True
    """Whether it has a rule for each model that keeps sequences."""
    answers_within_s: float = 2.0
    """Seconds that a hundred answers may take."""

    def make(self, tmp_path: Path) -> Affinity:
        """Return the affinity under test, made by its factory."""
        made = self.factory.settings(**self.settings)
        return self.factory.create(made, master_context(tmp_path))

    def test_answers_a_fleet_without_models(self, tmp_path: Path) -> None:
        """A new master knows none."""
        self._check(self.make(tmp_path).rules(()))

    @for_any(models=model_traits())
    def test_answers_any_models_with_rules(
        self, tmp_path: Path, models: tuple[ModelTraits, ...]
    ) -> None:
        """No models make it raise, or make more rules than a load balancer takes."""
        self._check(self.make(tmp_path).rules(models))

    @for_any(models=model_traits())
    def test_sequences_are_kept_as_long_as_triton_keeps_them(
        self, tmp_path: Path, models: tuple[ModelTraits, ...]
    ) -> None:
        """The rule that counts for a model with sequences knows them by their id."""
        rules = self.make(tmp_path).rules(models)
        for model in models if self.keeps_sequences else ():
            rule = rule_for(rules, model.name)
            if model.sequence_batching:
                assert rule is not None, f"no rule for {model}"
                assert rule.key == "sequence", rule
                assert rule.idle_s > model.max_sequence_idle_s, (rule, model)

    @for_any(orders=two_orders(model_traits()))
    def test_the_order_of_the_models_does_not_matter(
        self, tmp_path: Path, orders: tuple[tuple[ModelTraits, ...], tuple[ModelTraits, ...]]
    ) -> None:
        """Each master reads the models in an order of its own."""
        affinity = self.make(tmp_path)
        assert affinity.rules(orders[0]) == affinity.rules(orders[1])

    @for_any(models=model_traits())
    def test_the_same_models_get_the_same_rules(
        self, tmp_path: Path, models: tuple[ModelTraits, ...]
    ) -> None:
        """So they do from a new affinity: a new master must not move sequences."""
        affinity = self.make(tmp_path)
        first = affinity.rules(models)
        assert affinity.rules(()) == self.make(tmp_path).rules(())
        assert affinity.rules(models) == first == self.make(tmp_path).rules(models)

    @for_any(models=model_traits())
    def test_the_models_are_left_as_they_were(
        self, tmp_path: Path, models: tuple[ModelTraits, ...]
    ) -> None:
        """It changes nothing that it is given."""
        given = list(models)
        self.make(tmp_path).rules(given)
        assert given == list(models)

    def test_answers_at_once(self, tmp_path: Path) -> None:
        """A hundred answers take less than two seconds: it does not wait, and does no I/O."""
        affinity = self.make(tmp_path)
        models = [ModelTraits(f"m{n}", n % 2 == 0, float(n % 2 == 0)) for n in range(20)]

        def ask() -> None:
            for _ in range(_QUESTIONS):
                affinity.rules(models)

        within(self.answers_within_s, ask, "a hundred answers")

    def _check(self, rules: Sequence[AffinityRule]) -> None:
        assert isinstance(rules, tuple), rules
        assert all(isinstance(rule, AffinityRule) for rule in rules), rules
        assert len(rules) <= MOST_RULES
