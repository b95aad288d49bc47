"""Add up the requests of each model over all instances, as totals that never fall.

Only the scraper's thread writes them; `Totals.picture` may be called by any thread.
"""

from collections.abc import Mapping

import attrs

from tarn.domain.counters import NOTHING, CounterSet, InstanceCounters
from tarn.domain.model_totals import MOST_MODELS, OTHER, ModelTotals
from tarn.triton.model_counters import NAMELESS, Rows

__all__ = ["Totals"]

_NO_TOTALS = ModelTotals()
_NOTHING_COUNTED = InstanceCounters()


class Totals:
    """The counters of each instance, and the totals of at most *most* models.

    All further models are summed as one. A model that no instance has any more keeps its totals
    until their place is needed.
    """

    def __init__(self, most: int = MOST_MODELS) -> None:
        self._most = most
        # By instance id.
        self._counted: dict[str, InstanceCounters] = {}
        # Instance id to model to the requests that waited there at the newest look.
        self._pending: dict[str, Mapping[str, float]] = {}
        # Model to how many instances have it.
        self._holders: dict[str, int] = {}
        # Model that an instance has, to whether it has its own totals; decided when it is added.
        self._own: dict[str, bool] = {}
        # Models with totals that no instance has any more, those that are so for longest first.
        self._idle: dict[str, None] = {}
        self._totals: dict[str, ModelTotals] = {}
        self._others = 0

    def picture(self) -> tuple[Mapping[str, ModelTotals], int]:
        """Return a copy of the totals by model, and how many models `OTHER` has."""
        return dict(self._totals), self._others

    def add(self, instance_id: str, rows: Rows, *, fresh: bool) -> InstanceCounters:
        """Add the newest *rows* of an instance, and return its counters.

        Args:
            instance_id: The instance.
            rows: Its counters, as read.
            fresh: It was started under this master, so that all its counts are new.
        """
        before = self._counted.get(instance_id, _NOTHING_COUNTED)
        after, more = before.looked(rows.of, rows.source)
        if after is not before or rows.pending is not self._pending.get(instance_id):
            new = fresh or before.source is not None
            self._take(instance_id, after, more if new else {}, rows.pending)
        return after

    def silent(self, instance_id: str) -> None:
        """Forget the requests that wait in an instance, since it does not report them any more."""
        if (counted := self._counted.get(instance_id)) is not None:
            self._take(instance_id, counted, {}, {})

    def forget(self, instance_id: str) -> None:
        """Forget an instance that is not looked at any more."""
        self._take(instance_id, _NOTHING_COUNTED, {}, {})
        del self._counted[instance_id], self._pending[instance_id]

    def _take(
        self,
        instance_id: str,
        after: InstanceCounters,
        more: Mapping[str, CounterSet],
        waits: Mapping[str, float],
    ) -> None:
        before = self._counted.get(instance_id, _NOTHING_COUNTED).models
        waited = self._pending.get(instance_id, {})
        if before.keys() != after.models.keys():
            # A model that is back gets its place again before a new one replaces the longest idle.
            new = [name for name in after.models if name not in before]
            for name in sorted(new, key=lambda name: name not in self._idle):
                self._hold(name)
            for name in before.keys() - after.models.keys():
                self._let_go(name, waited.get(name))
        for name in after.models:
            counted, was, now = more.get(name, NOTHING), waited.get(name), waits.get(name)
            if counted != NOTHING or was != now:
                self._move(name, counted, was, now)
        self._counted[instance_id], self._pending[instance_id] = after, waits

    def _move(
        self, name: str, counted: CounterSet, waited: float | None, waits: float | None
    ) -> None:
        """Add what one instance *counted* for a model, and the change of its waiting requests."""
        key = name if self._own[name] else OTHER
        total = self._totals.get(key, _NO_TOTALS)
        self._totals[key] = attrs.evolve(
            total,
            counted=total.counted.plus(counted),
            pending=max(0.0, total.pending + (waits or 0.0) - (waited or 0.0)),
            queues=total.queues + (waits is not None) - (waited is not None),
        )

    def _hold(self, name: str) -> None:
        holders = self._holders.get(name, 0)
        self._holders[name] = holders + 1
        if not holders:
            own = name not in (OTHER, NAMELESS) and self._has_place(name)
            self._own[name] = own
            self._others += not own
            self._move(name, NOTHING, None, None)

    def _has_place(self, name: str) -> bool:
        if name in self._idle:
            del self._idle[name]
            return True
        if len(self._totals) - (OTHER in self._totals) < self._most:
            return True
        if not self._idle:
            return False
        longest = next(iter(self._idle))
        del self._idle[longest], self._totals[longest]
        return True

    def _let_go(self, name: str, waited: float | None) -> None:
        self._move(name, NOTHING, waited, None)
        self._holders[name] -= 1
        if self._holders[name]:
            return
        del self._holders[name]
        if self._own.pop(name):
            self._idle[name] = None
        else:
            self._others -= 1
