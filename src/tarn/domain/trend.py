"""How fast a signal grows, if it grows steadily: neither a jump nor noise is a trend. Pure."""

from collections.abc import Iterable
from itertools import pairwise

from tarn.domain.samples import Known, Sample

__all__ = ["TREND_S", "steady_growth"]

TREND_S = 100.0
"""How far back a trend is looked for."""
_PARTS = 5


def steady_growth(history: Iterable[tuple[float, Sample[float]]], now_s: float) -> float:
    """Return the growth per second that lasted over the last `TREND_S`; 0 when none did.

    The time is cut into five parts, and the second smallest of the four differences between the
    means of neighbours counts. A jump touches two of them at most, so it is none of this growth;
    of the differences that noise makes, the second smallest is seldom above zero.

    Args:
        history: (monotonic seconds, sample), oldest first.
        now_s: The end of the last part.
    """
    part_s = TREND_S / _PARTS
    sums, counts = [0.0] * _PARTS, [0] * _PARTS
    for at_s, sample in history:
        age_s = now_s - at_s
        if 0 <= age_s < TREND_S and isinstance(sample, Known):
            place = _PARTS - 1 - int(age_s / part_s)
            sums[place] += sample.value
            counts[place] += 1
    if not all(counts):
        return 0.0
    means = [total / count for total, count in zip(sums, counts, strict=True)]
    rises = sorted(later - earlier for earlier, later in pairwise(means))
    return max(0.0, rises[1] / part_s)
