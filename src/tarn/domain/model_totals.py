"""Requests of each model, summed over the fleet, and their rates. Pure."""

from collections.abc import Mapping

import attrs

from tarn.domain.counters import NOTHING, CounterSet

__all__ = ["MOST_MODELS", "OTHER", "ModelRates", "ModelTotals", "ModelTotalsHistory"]

OTHER = "_other"
"""Name for all models beyond `MOST_MODELS` together, and for a model with this very name."""
MOST_MODELS = 500
"""The most models that get numbers of their own, so that the master's memory is bounded."""
# A rate is the growth over about this time: one second of few requests says little.
SPAN_S = 10.0
LOOK_EACH_S = 1.0
_US = 1e6


@attrs.frozen
class ModelTotals:
    """One model's requests: those that ended under this master, and those that wait now."""

    counted: CounterSet = NOTHING
    """Those that ended; no number of it falls."""
    pending: float = 0.0
    """Requests that wait, in the instances that report it."""
    queues: int = 0
    """How many instances report it."""


_NONE = ModelTotals()


@attrs.frozen
class ModelRates:
    """The rates of one model; None: not known."""

    requests_per_s: float | None = None
    failures_per_s: float | None = None
    latency_s: float | None = None
    """Mean time from arrival to answer of the requests that ended lately; None: none did."""
    queue_s: float | None = None
    busy: float | None = None
    """Mean number of requests that wait or execute; those that execute are an estimate."""
    cache_hit_share: float | None = None
    """The part of the looked-up requests that the response cache answered, 0 to 1; None: none was
    looked up."""
    first_response_s: float | None = None
    """Mean time from arrival to the first response; None: Triton does not time it, or none came."""


@attrs.frozen
class ModelTotalsHistory:
    """The totals of the last seconds, oldest first."""

    looks: tuple[tuple[float, Mapping[str, ModelTotals]], ...] = attrs.field(default=(), hash=False)
    """(monotonic seconds, totals by model)."""
    others: int = 0
    """How many models there are in `OTHER` now."""

    @property
    def newest(self) -> Mapping[str, ModelTotals]:
        """The totals as they are now, by model; empty before the first look."""
        return self.looks[-1][1] if self.looks else {}

    def due(self, now_s: float) -> bool:
        """Say whether it is time for another look."""
        return not self.looks or now_s - self.looks[-1][0] >= LOOK_EACH_S

    def looked(
        self, now_s: float, totals: Mapping[str, ModelTotals], others: int
    ) -> "ModelTotalsHistory":
        """Return it with one more look, and without those older than `SPAN_S`."""
        kept = [look for look in self.looks if now_s - look[0] <= SPAN_S]
        return ModelTotalsHistory((*kept, (now_s, totals)), others)

    def rates(self, model: str) -> ModelRates:
        """Return the rates of *model*; they are not known before the second look."""
        if len(self.looks) < 2 or model not in self.newest:  # noqa: PLR2004 (first and last)
            return ModelRates()
        (began_s, before), (ended_s, after) = self.looks[0], self.looks[-1]
        new, span_s = after[model], ended_s - began_s
        if span_s <= 0:
            return ModelRates()
        # A model that was forgotten meanwhile began again at 0.
        more = new.counted.since(before.get(model, _NONE).counted)
        # Little's law: the mean number that executes is the time spent executing, per second.
        looked_up = more.cache_hits + more.cache_misses
        executing = max(0.0, more.request_us - more.queue_us) / _US / span_s
        return ModelRates(
            more.completed / span_s,
            more.failed / span_s,
            more.request_us / more.completed / _US if more.completed else None,
            more.queue_us / more.completed / _US if more.completed else None,
            new.pending + executing if new.queues else None,
            more.cache_hits / looked_up if looked_up else None,
            more.first_response_us / more.first_responses / _US if more.first_responses else None,
        )
