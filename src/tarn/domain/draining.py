"""What is known of one drain: what ended meanwhile, whether its models are unloaded, who let go."""

import attrs

from tarn.domain.reading import Reading
from tarn.domain.samples import Known, Sample, Unknown

__all__ = ["Counts", "DrainProgress"]

_NOT_ASKED = Unknown("its models were not asked to unload")


@attrs.frozen
class Counts:
    """Requests that ended since a Triton started, as its counters say; both only grow."""

    succeeded: float
    failed: float


@attrs.frozen
class DrainProgress:
    """Kept from the moment at which an instance leaves the view, for decisions and the receipt."""

    began: Counts | None = None
    """As read last before or as it left; None: not known."""
    last: Counts | None = None
    """As read last."""
    succeeded: float = 0.0
    """Requests that succeeded since it left, as far as they were seen."""
    failed: float = 0.0
    unseen: bool = False
    """More may have ended: a counter vanished with its model, or the newest look told nothing."""
    fell: bool = False
    """A counter vanished with its model, and not by our unload, before which all was seen to rest:
    what had moved in it since the look before is not seen."""
    moved_s: float | None = None
    """Monotonic second at which a request was last seen to have succeeded since it left."""
    unload_s: float | None = None
    """Monotonic second at which its models were asked to unload; there is no way back."""
    unloaded: Sample[bool] = attrs.field(default=_NOT_ASKED)
    """Known(True): no model is left. Known(False): the last requests are waited for. Unknown, once
    it was asked: Triton refused, and why."""
    acknowledged: tuple[tuple[str, str], ...] = ()
    """(follower, the newest view that it acknowledged) as the stop was posted; ``3.88`` is revision
    88 of the master of attempt 3."""
    parted: tuple[str, ...] = ()
    """Followers that were waited for no more, since their lease ran out."""
    cut: int | None = None
    """Requests and sessions at work when the stop was posted; None: not known."""
    more_cut: bool = False
    """``cut`` is the least that it can be."""

    @property
    def refused(self) -> str:
        """Why Triton does not unload, in words; empty when it does, or was not asked."""
        if self.unload_s is None or isinstance(self.unloaded, Known):
            return ""
        return self.unloaded.reason

    @property
    def proven(self) -> bool:
        """Whether Triton itself proved that nothing executes any more."""
        return isinstance(self.unloaded, Known) and self.unloaded.value

    def unload(self, now_s: float) -> "DrainProgress":
        """Return it with the models asked to unload."""
        return attrs.evolve(self, unload_s=now_s, unloaded=Known(value=False))

    def looked(self, reading: Reading) -> "DrainProgress":
        """Return it after the newest look, the very same where that told nothing new."""
        unloaded = self.unloaded if reading.unloaded is None else reading.unloaded
        counts = _counts(reading)
        if counts is None:
            unseen = self.began is not None
            if (unloaded, unseen) == (self.unloaded, self.unseen):
                return self
            return attrs.evolve(self, unloaded=unloaded, unseen=unseen)
        return self._counted(counts, unloaded, reading.taken_s)

    def ending(self, reading: Reading) -> "DrainProgress":
        """Return it after a look at one that was told to stop.

        Neither its silence nor a counter that vanishes with its model is news then.
        """
        counts, last = _counts(reading), self.last
        if counts is None or last is None:
            return self
        fell = counts.succeeded < last.succeeded or counts.failed < last.failed
        return self if fell else self._counted(counts, self.unloaded, reading.taken_s)

    def _counted(self, counts: Counts, unloaded: Sample[bool], taken_s: float) -> "DrainProgress":
        if (counts, unloaded, self.fell) == (self.last, self.unloaded, self.unseen):
            return self
        last = self.last or counts
        more = counts.succeeded - last.succeeded, counts.failed - last.failed
        fell = self.fell or (min(more) < 0 and self.unload_s is None)
        return attrs.evolve(
            self,
            began=self.began or counts,
            last=counts,
            moved_s=taken_s if counts.succeeded != last.succeeded else self.moved_s,
            succeeded=self.succeeded + max(0.0, more[0]),
            failed=self.failed + max(0.0, more[1]),
            fell=fell,
            unseen=fell,
            unloaded=unloaded,
        )


def _counts(reading: Reading) -> Counts | None:
    match reading.metrics.get("requests_total"), reading.metrics.get("failures_total"):
        case Known(value=succeeded), Known(value=failed):
            return Counts(succeeded, failed)
    return None
