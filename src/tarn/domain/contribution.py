"""What one instance contributes to the fleet's signals, look by look. Pure."""

import attrs

from tarn.domain.reading import Reading
from tarn.domain.samples import Known, Unknown

__all__ = ["COUNTERS", "GAUGES", "NOT_SCRAPED", "PARTS", "WORKING", "Contribution", "Part", "see"]

GAUGES = ("pending", "executing", "gpu_utilization")
COUNTERS = ("requests_total", "failures_total", "queue_us_total", "request_us_total")
_NAMES = (*GAUGES, *COUNTERS)
_COUNTED = len(GAUGES)
_PENDING, _GPU = 0, 2
_REQUESTS, _QUEUE, _REQUEST = 0, 2, 3
_ONE_LOOK = "a single sample does not show how fast a counter grows"
NOT_SCRAPED = Unknown("not scraped yet")

WORKING = 0.1
"""Requests in computation, in the mean of a span, from which a GPU at 0 is not believed. Triton
gives whole percents: fewer short requests may leave a GPU at 0 indeed."""

PARTS = len(GAUGES) + len(COUNTERS) + 1
"""How many parts a contribution has."""

Part = float | str
"""What one instance says, or why it does not say: a tick makes some for each of ten thousand."""


@attrs.frozen(eq=False)
class Contribution:
    """What one instance says, and what it will be measured against next."""

    reading: Reading
    moment_s: float | None
    """When the newest counters were read; None before the first."""
    base: tuple[Part, ...]
    """The counters and the pending requests of that moment."""
    parts: tuple[Part, ...]
    """Each of `GAUGES`; then the growth of each of `COUNTERS`, and of the pending requests, per
    second."""
    moved_s: float | None = None
    """When a request was last seen to have ended well, or none to wait; None before the first
    look."""

    def stuck(self, for_s: float) -> float:
        """Return how many requests wait here while none ended well for *for_s* seconds; else 0."""
        waits, moment_s = self.parts[_PENDING], self.moment_s
        if isinstance(waits, str) or moment_s is None or self.moved_s is None:
            return 0.0
        return waits if moment_s - self.moved_s >= for_s else 0.0


def see(
    before: Contribution | None, reading: Reading, now_s: float, oldest_s: float
) -> Contribution | Unknown:
    """Return what *reading* contributes at *now_s*, after everything *before*.

    Args:
        before: The contribution of the last look; None at the first.
        reading: What was scraped last; perhaps the same as before.
        now_s: Monotonic seconds of this look.
        oldest_s: What was read longer ago counts as unknown.
    """
    if before is None or before.reading is not reading:
        before = _measured(before, reading)
    moment_s = before.moment_s
    if moment_s is not None and now_s - moment_s > oldest_s:
        return Unknown(f"last read {now_s - moment_s:.0f} s ago")
    return before


def _measured(before: Contribution | None, reading: Reading) -> Contribution:
    read = _read(reading)
    gauges, base = read[:_COUNTED], (*read[_COUNTED:], read[_PENDING])
    age_s = _age_s(reading)
    if age_s is None:  # a scrape that failed: the next one is measured against the last good one
        moment_s, old = (None, base) if before is None else (before.moment_s, before.base)
        moved_s = None if before is None else before.moved_s
        return Contribution(reading, moment_s, old, gauges + base, moved_s)
    moment_s = reading.taken_s - age_s
    if before is None or before.moment_s is None:
        return Contribution(reading, moment_s, base, gauges + (_ONE_LOOK,) * len(base), moment_s)
    if moment_s <= before.moment_s:  # the same scrape, with newer news of its health
        return attrs.evolve(before, reading=reading)
    rates = _rates(before.base, base, moment_s - before.moment_s)
    if gauges[_GPU] == 0:
        gauges = _believed(before, gauges, rates)
    moved_s = before.moved_s if _stands_still(gauges, rates) else moment_s
    return Contribution(reading, moment_s, base, gauges + rates, moved_s)


def _stands_still(gauges: tuple[Part, ...], rates: tuple[Part, ...]) -> bool:
    """Say whether requests wait and none has ended well since the last look.

    A dead Python process fails one request a second: its queue is not worked off by that.
    """
    waits = gauges[_PENDING]
    return not isinstance(waits, str) and waits > 0 and rates[_REQUESTS] == 0


def _read(reading: Reading) -> tuple[Part, ...]:
    """Return what the reading says of each of the names."""
    get = reading.metrics.get
    parts: list[Part] = []
    for name in _NAMES:
        sample = get(name, NOT_SCRAPED)
        parts.append(sample.value if isinstance(sample, Known) else sample.reason)
    return tuple(parts)


def _age_s(reading: Reading) -> float | None:
    """Return how old what is known of the counters is; None: nothing of them is."""
    for name in COUNTERS:
        sample = reading.metrics.get(name)
        if isinstance(sample, Known):
            return sample.age_s
    return None


def _rates(old: tuple[Part, ...], new: tuple[Part, ...], span_s: float) -> tuple[Part, ...]:
    rates: list[Part] = []
    for place, now in enumerate(new):
        was = old[place]
        if isinstance(now, str):
            rates.append(now)
        elif isinstance(was, str):
            rates.append(_ONE_LOOK)
        elif now < was and place < len(COUNTERS):  # what waits may get fewer, a counter may not
            rates.append("a counter fell: a model was unloaded")
        else:
            rates.append((now - was) / span_s)
    return tuple(rates)


def _believed(
    before: Contribution, gauges: tuple[Part, ...], rates: tuple[Part, ...]
) -> tuple[Part, ...]:
    """Return *gauges*, less a GPU that stood at 0 at both ends of a span in which work was done."""
    if not _is_zero(before):
        return gauges
    ended, queue_us, request_us = rates[_REQUESTS], rates[_QUEUE], rates[_REQUEST]
    if isinstance(ended, str) or isinstance(queue_us, str) or isinstance(request_us, str):
        return gauges
    if ended <= 0 or (request_us - queue_us) / 1e6 < WORKING:
        return gauges
    doubt = (
        f"the GPU gauge stands at 0 while {ended:.3g} requests end per second: it is stuck, or "
        "their models do not run on a GPU"
    )
    return (*gauges[:_GPU], doubt)


def _is_zero(before: Contribution) -> bool:
    read = before.reading.metrics.get("gpu_utilization")
    return isinstance(read, Known) and read.value == 0
