"""Ask the affinity for its rules, on a thread of its own, when the models change."""

import threading
from collections.abc import Callable, Mapping

import attrs

from tarn.control.mailbox import Worker
from tarn.domain import AffinityRule, Known, ModelTraits, Reading
from tarn.domain.affinity import (
    MOST_MODELS,
    MOST_RULES,
    AffinityStatus,
    resolve_ensembles,
)
from tarn.errors import PluginError
from tarn.interfaces import Affinity, Clock

__all__ = ["AffinityRunner", "KnownTraits"]


@attrs.frozen
class KnownTraits:
    """The traits of models, as far as the scraper has read their configurations."""

    models: Mapping[str, ModelTraits] = attrs.field(factory=dict, hash=False)
    """By name; also those of models that no instance serves any more."""
    current: frozenset[str] = frozenset()
    """The models whose traits were read since their last load."""


class AffinityRunner:
    """Keeps the rules of the affinity for the models that are known.

    Args:
        affinity: Makes the rules.
        clock: Monotonic seconds.
        wake: Called when there are new rules; must not block.
        owner: The plugin of the affinity, for errors.
    """

    def __init__(
        self, affinity: Affinity, clock: Clock, wake: Callable[[], None], owner: str = ""
    ) -> None:
        self._affinity, self._owner = affinity, owner
        self._lock = threading.Lock()
        self._made: tuple[Mapping[str, ModelTraits], tuple[AffinityRule, ...]] | None = None
        self._posted: Mapping[str, ModelTraits] | None = None
        self.worker: Worker[Mapping[str, ModelTraits]] = Worker("affinity", self._make, clock, wake)

    def status(self, traits: KnownTraits, readings: Mapping[str, Reading]) -> AffinityStatus:
        """Return the newest rules, and ask for others if the *traits* changed; never blocks.

        Control thread only. The *readings* say which models are served.
        """
        if traits.models != self._posted:
            self._posted = traits.models
            self.worker.post(traits.models)
        with self._lock:
            made = self._made
        if made is None:
            return AffinityStatus()
        models, rules = made
        complete = models == traits.models and _served(readings) <= traits.current
        return AffinityStatus(rules, complete=complete)

    def close(self) -> None:
        """End the thread; does not wait for an affinity that hangs."""
        self.worker.close(0.1)

    def _make(self, models: Mapping[str, ModelTraits]) -> None:
        rules = self._affinity.rules(resolve_ensembles(models.values()))
        if wrong := _problem(rules):
            raise PluginError(self._owner or "affinity", f"rules() returned {wrong}")
        with self._lock:
            self._made = models, rules


def _problem(rules: object) -> str:
    """Say what is wrong with the answer of an affinity; empty if nothing is."""
    if not isinstance(rules, tuple) or not all(isinstance(one, AffinityRule) for one in rules):
        return "something other than a tuple of AffinityRule"
    if len(rules) > MOST_RULES:
        return f"{len(rules)} rules; at most {MOST_RULES} are possible"
    names = sum(len(rule.models) for rule in rules)
    if names > MOST_MODELS:
        return f"rules with {names} names of models; at most {MOST_MODELS} are possible"
    return ""


def _served(readings: Mapping[str, Reading]) -> frozenset[str]:
    """Return the names of all models that are READY somewhere."""
    # Equal instances share one list of models.
    lists = {id(r.models.value): r.models.value for r in readings.values()
             if isinstance(r.models, Known)}  # fmt: skip
    return frozenset(
        model.name for models in lists.values() for model in models if model.state == "READY"
    )
