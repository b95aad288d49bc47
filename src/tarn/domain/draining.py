"""The progress of one drain: requests that ended, unloaded models, acknowledgements."""

import attrs

from tarn.domain.counters import CounterSet
from tarn.domain.reading import Reading
from tarn.domain.samples import Known, Sample, Unknown

__all__ = ["DrainProgress"]

_NOT_ASKED = Unknown("its models were not asked to unload")


@attrs.frozen
class DrainProgress:
    """What is known of a drain since the instance left the view; for decisions and the receipt."""

    began: CounterSet | None = None
    """Its counters when it left the view, from which a later master goes on; None: not known."""
    last: CounterSet | None = None
    """Its newest counters; None: this master has not read any yet."""
    succeeded: float = 0.0
    """Requests that succeeded since it left, as far as they were seen."""
    failed: float = 0.0
    unseen: bool = False
    """More may have ended: a counter vanished with its model, or the newest look brought none."""
    fell: bool = False
    """A counter vanished with its model although TARN had not asked for the unload, so its last
    growth was not seen. Before TARN asks for an unload, nothing grows any more."""
    moved_s: float | None = None
    """Monotonic second at which a request was last seen to have succeeded since it left."""
    unload_s: float | None = None
    """Monotonic second at which its models were asked to unload; there is no way back."""
    unloaded: Sample[bool] = attrs.field(default=_NOT_ASKED)
    """Known(True): no model is left. Known(False): Triton waits for the last requests. Unknown: it
    was not asked, or it refused; the reason says which."""
    acknowledged: tuple[tuple[str, str], ...] = ()
    """(follower, the newest view that it acknowledged) when the stop was posted; ``3.88`` is
    revision 88 of the master of attempt 3."""
    parted: tuple[str, ...] = ()
    """Followers for which the drain did not wait, since their lease had run out."""
    cut: int | None = None
    """Requests and sessions at work when the stop was posted; None: not known."""
    more_cut: bool = False
    """``cut`` is a lower bound."""
    sequences_cut: int = 0
    """Sequences that had not ended when the stop was posted; they are in ``cut``, too."""
    resets: int = 0
    """`Reading.resets` of the newest look."""

    @property
    def refused(self) -> str:
        """Why Triton refuses to unload; empty when it does not refuse, or was not asked."""
        if self.unload_s is None or isinstance(self.unloaded, Known):
            return ""
        return self.unloaded.reason

    @property
    def proven(self) -> bool:
        """Whether Triton itself proved that no request executes any more."""
        return isinstance(self.unloaded, Known) and self.unloaded.value

    def unload(self, now_s: float) -> "DrainProgress":
        """Return it with the models asked to unload."""
        return attrs.evolve(self, unload_s=now_s, unloaded=Known(value=False))

    def looked(self, reading: Reading) -> "DrainProgress":
        """Return it after the newest look; the same object when nothing changed."""
        unloaded = self.unloaded if reading.unloaded is None else reading.unloaded
        counts = reading.counted
        if counts is None or reading.known("failures_total") is None:
            unseen = self.began is not None
            if (unloaded, unseen) == (self.unloaded, self.unseen):
                return self
            return attrs.evolve(self, unloaded=unloaded, unseen=unseen)
        return self._counted(counts, unloaded, reading)

    def ending(self, reading: Reading) -> "DrainProgress":
        """Return it after a look at an instance that was told to stop."""
        # It is expected then that the instance falls silent, and that counters vanish with models.
        counts = reading.counted
        if counts is None or self.last is None or counts == self.last:
            return self
        return attrs.evolve(self._counted(counts, self.unloaded, reading), fell=self.fell)

    def _counted(
        self, counts: CounterSet, unloaded: Sample[bool], reading: Reading
    ) -> "DrainProgress":
        if (counts, unloaded, self.fell, reading.resets) == (
            self.last,
            self.unloaded,
            self.unseen,
            self.resets,
        ):
            return self
        last, hidden = self.last, reading.resets > self.resets
        if last is None:  # an earlier master saved only the sum over all models
            hidden = self.began is not None and not counts.goes_on_from(self.began)
            last = counts if hidden or self.began is None else self.began
        more, hidden = counts.since(last), hidden and self.unload_s is None
        return attrs.evolve(
            self,
            began=self.began or reading.as_read or counts,
            last=counts,
            resets=reading.resets,
            moved_s=reading.taken_s if more.completed else self.moved_s,
            succeeded=self.succeeded + more.completed,
            failed=self.failed + more.failed,
            fell=self.fell or hidden,
            unseen=self.fell or hidden,
            unloaded=unloaded,
        )
