"""Affinities with one fault each."""

import itertools
import threading
from collections.abc import Sequence
from typing import Any

import attrs

from tarn.domain import AffinityRule, ModelTraits
from tarn.testing.fakes import FakeAffinity

Models = Sequence[ModelTraits]
Rules = tuple[AffinityRule, ...]


class NeedsAModel(FakeAffinity):
    """Looks at the first model of none."""

    def rules(self, models: Models) -> Rules:
        models[0].name  # noqa: B018
        return super().rules(models)


class AnswersAList(FakeAffinity):
    """Returns a list where a tuple is asked for."""

    def rules(self, models: Models) -> Any:
        return list(super().rules(models))


class AnswersNames(FakeAffinity):
    """Returns names where rules are asked for."""

    def rules(self, models: Models) -> Any:
        return tuple(model.name for model in models)


class OneForEach(FakeAffinity):
    """Has a rule for each model, however many there are."""

    def rules(self, models: Models) -> Rules:
        each = sorted(models, key=lambda model: model.name)
        return tuple(
            itertools.chain.from_iterable(super(OneForEach, self).rules((m,)) for m in each)
        )


class ForgetsThemTooEarly(FakeAffinity):
    """Keeps a sequence for a second, whatever its model says."""

    def rules(self, models: Models) -> Rules:
        return tuple(attrs.evolve(rule, idle_s=1.0) for rule in super().rules(models))


class PrefersAHeader(FakeAffinity):
    """Has a rule for a header before those for sequences."""

    def rules(self, models: Models) -> Rules:
        return (AffinityRule((), "header", idle_s=60.0), *super().rules(models))


class KnowsTheFirst(FakeAffinity):
    """Has a rule for one model only."""

    def rules(self, models: Models) -> Rules:
        return tuple(attrs.evolve(rule, models=rule.models[:1]) for rule in super().rules(models))


class KeepsTheOrder(FakeAffinity):
    """Names the models in the order in which they come."""

    def rules(self, models: Models) -> Rules:
        names = tuple(model.name for model in models if model.sequence_batching)
        return tuple(attrs.evolve(rule, models=names) for rule in super().rules(models))


class Remembers(FakeAffinity):
    """Names every model that it has ever seen."""

    def rules(self, models: Models) -> Rules:
        seen = self.__dict__.setdefault("seen", {})
        seen |= {model.name: model for model in models}
        return super().rules(tuple(seen.values()))


class SortsInPlace(FakeAffinity):
    """Sorts what it was given."""

    def rules(self, models: Models) -> Rules:
        if isinstance(models, list):
            models.reverse()
        return super().rules(models)


class Waits(FakeAffinity):
    """Waits before it answers."""

    def rules(self, models: Models) -> Rules:
        if len(models) == 20:
            threading.Event().wait(0.01)
        return super().rules(models)
