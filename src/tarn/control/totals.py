"""Adds up, over all instances, what each model did: totals that never fall while it is known.

One writer, the scraper's thread; `Totals.picture` may be called by any thread.
"""

from collections.abc import Mapping

import attrs

from tarn.domain.model_totals import MOST_MODELS, OTHER, ModelTotals
from tarn.triton.model_counters import NAMELESS, ModelCounters

__all__ = ["Totals"]

_NOTHING = ModelCounters()
_NO_TOTALS = ModelTotals()
_Rows = Mapping[str, ModelCounters]


class Totals:
    """The totals by model, bounded: models beyond *most* are summed as one.

    A model that no instance has any more keeps its totals until their place is needed.
    """

    def __init__(self, most: int = MOST_MODELS) -> None:
        self._most = most
        self._rows: dict[str, _Rows] = {}
        """Instance id to its newest rows."""
        self._holders: dict[str, int] = {}
        """Model to how many instances have it."""
        self._own: dict[str, bool] = {}
        """Held model to whether it has totals of its own; decided once, while it is held."""
        self._idle: dict[str, None] = {}
        """Models with totals that nobody has any more, the longest first."""
        self._totals: dict[str, ModelTotals] = {}
        self._others = 0

    def picture(self) -> tuple[Mapping[str, ModelTotals], int]:
        """Return the totals by model, and how many models stand in `OTHER`; never changes."""
        return dict(self._totals), self._others

    def add(self, instance_id: str, rows: _Rows, *, fresh: bool) -> None:
        """Take in the newest *rows* of an instance.

        Args:
            instance_id: Whose they are.
            rows: What it says of each of its models.
            fresh: It was started under this master, so that all that it counts is new.
        """
        before = self._rows.get(instance_id, {})
        known = instance_id in self._rows
        # A model that is back gets its place again before a new one replaces the longest idle.
        for name, row in sorted(rows.items(), key=lambda item: item[0] not in self._idle):
            if name not in before:
                self._hold(name)
                self._move(name, _NOTHING if fresh or known else row, row, waited=None)
            elif row != before[name]:
                old = before[name]
                self._move(name, old, row, waited=old.pending)
        for name, row in before.items():
            if name not in rows:
                self._let_go(name, row.pending)
        self._rows[instance_id] = rows

    def silent(self, instance_id: str) -> None:
        """Forget what waits there: it does not say any more. What ended there stays counted."""
        rows = self._rows.get(instance_id)
        if rows is None:
            return
        quiet = {name: row._replace(pending=None) for name, row in rows.items()}
        self.add(instance_id, quiet, fresh=False)

    def forget(self, instance_id: str) -> None:
        """Let an instance go that is looked at no more."""
        self.add(instance_id, {}, fresh=False)
        del self._rows[instance_id]

    def _move(
        self, name: str, old: ModelCounters, new: ModelCounters, *, waited: float | None
    ) -> None:
        """Add what grew from *old* to *new*; a counter that fell began again at 0."""
        key = name if self._own[name] else OTHER
        total = self._totals.get(key, _NO_TOTALS)
        self._totals[key] = attrs.evolve(
            total,
            succeeded=total.succeeded + _grown(old.succeeded, new.succeeded),
            failed=total.failed + _grown(old.failed, new.failed),
            request_us=total.request_us + _grown(old.request_us, new.request_us),
            queue_us=total.queue_us + _grown(old.queue_us, new.queue_us),
            pending=max(0.0, total.pending + (new.pending or 0.0) - (waited or 0.0)),
            queues=total.queues + (new.pending is not None) - (waited is not None),
        )

    def _hold(self, name: str) -> None:
        holders = self._holders.get(name, 0)
        self._holders[name] = holders + 1
        if holders:
            return
        own = name not in (OTHER, NAMELESS) and self._has_place(name)
        self._own[name] = own
        self._others += not own

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
        self._move(name, _NOTHING, _NOTHING, waited=waited)
        self._holders[name] -= 1
        if self._holders[name]:
            return
        del self._holders[name]
        if self._own.pop(name):
            self._idle[name] = None
        else:
            self._others -= 1


def _grown(old: float, new: float) -> float:
    return new - old if new >= old else new
