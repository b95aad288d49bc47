"""What a master remembers of the hours: history, usage, and since when things are wrong. Pure."""

from collections.abc import Mapping

import attrs

from tarn.control.alerts import Key, onsets
from tarn.control.samples import history_sample, usage_sample
from tarn.control.snapshot import Snapshot
from tarn.domain.history import FleetHistory
from tarn.domain.usage import FleetUsage

__all__ = ["RetainedHistory"]


@attrs.frozen
class RetainedHistory:
    """Everything remembered, as one value."""

    history: FleetHistory = attrs.field(factory=FleetHistory)
    usage: FleetUsage = attrs.field(factory=FleetUsage)
    since: Mapping[Key, float] = attrs.field(factory=dict, hash=False)
    """Wall seconds since which each thing is wrong that is."""
    trouble: str = ""
    """Why it is not kept for the next master, or what of the last one's was lost; mostly empty."""

    def looked(self, snapshot: Snapshot, gpus: int = 0) -> "RetainedHistory":
        """Return it with one more snapshot; of a stale one only what is wrong is taken.

        *gpus* is how many each instance has.
        """
        since = onsets(self.since, snapshot)
        if snapshot.stale:
            return attrs.evolve(self, since=since)
        seen = history_sample(snapshot)
        history, usage = (
            self.history.looked(seen),
            self.usage.looked(usage_sample(snapshot, seen, gpus)),
        )
        return attrs.evolve(self, history=history, usage=usage, since=since)
