"""What each model did, summed over the fleet, and how fast that grows. Pure."""

from collections.abc import Mapping

import attrs

__all__ = ["MOST_MODELS", "OTHER", "ModelRates", "ModelTotals", "ModelTotalsHistory"]

OTHER = "_other"
"""Stands for all models beyond `MOST_MODELS`, as one; also for one that is called so."""
MOST_MODELS = 500
"""Models with numbers of their own: whoever loads more of them cannot fill the master."""
SPAN_S = 10.0
"""A rate is the growth over about this time: one second of few requests says little."""
LOOK_EACH_S = 1.0
_US = 1e6


@attrs.frozen
class ModelTotals:
    """One model: what ended under this master's eyes, and what waits now."""

    succeeded: float = 0.0
    """Requests that ended well; never falls."""
    failed: float = 0.0
    request_us: float = 0.0
    """From arrival to answer, of those that ended well."""
    queue_us: float = 0.0
    pending: float = 0.0
    """Requests that wait in those instances that say so."""
    queues: int = 0
    """Instances that say how many wait."""


_NONE = ModelTotals()


@attrs.frozen
class ModelRates:
    """How fast one model works; None: not known."""

    requests_per_s: float | None = None
    failures_per_s: float | None = None
    latency_s: float | None = None
    """The mean from arrival to answer, of those that ended lately; None: none did."""
    queue_s: float | None = None
    busy: float | None = None
    """Requests that wait or execute, in the mean: what executes is an estimate by Little's law."""


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
        """Return it with one more look, and without those that are too old."""
        kept = [look for look in self.looks if now_s - look[0] <= SPAN_S]
        return ModelTotalsHistory((*kept, (now_s, totals)), others)

    def rates(self, model: str) -> ModelRates:
        """Return how fast *model* works; nothing is known before the second look."""
        if len(self.looks) < 2 or model not in self.newest:  # noqa: PLR2004 (first and last)
            return ModelRates()
        (began_s, before), (ended_s, after) = self.looks[0], self.looks[-1]
        return _rates(before.get(model, _NONE), after[model], ended_s - began_s)


def _rates(old: ModelTotals, new: ModelTotals, span_s: float) -> ModelRates:
    succeeded, failed = new.succeeded - old.succeeded, new.failed - old.failed
    request_us, queue_us = new.request_us - old.request_us, new.queue_us - old.queue_us
    if span_s <= 0 or min(succeeded, failed, request_us, queue_us) < 0:  # forgotten, and back
        return ModelRates()
    executing = max(0.0, request_us - queue_us) / _US / span_s
    return ModelRates(
        succeeded / span_s,
        failed / span_s,
        request_us / succeeded / _US if succeeded else None,
        queue_us / succeeded / _US if succeeded else None,
        new.pending + executing if new.queues else None,
    )
