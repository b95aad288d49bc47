"""A signal that is the mean of one metric."""

import math
from collections.abc import Mapping

import attrs

from tarn.domain import Known, Sample, Unknown
from tarn.hookspecs import Factory
from tarn.interfaces import MasterContext, Signal

__all__ = ["FakeSignal", "FakeSignalSettings", "History", "fake_signal_factory"]

History = tuple[tuple[float, Mapping[str, Sample[float]]], ...]
"""What was scraped from one instance: (monotonic seconds, metrics), oldest first."""


@attrs.frozen
class FakeSignalSettings:
    """What can be set on the fake signal."""

    metric: str = "pending"


class FakeSignal:
    """The mean of everything known of one metric in the window, over all instances."""

    def __init__(self, settings: FakeSignalSettings | None = None) -> None:
        self.settings = settings or FakeSignalSettings()

    def read(self, samples: Mapping[str, History], window_s: float) -> Sample[float]:
        """Return the mean, as old as the newest value in it."""
        newest_s = max(
            (taken_s for history in samples.values() for taken_s, _ in history), default=0
        )
        values, ages_s = [], []
        for history in samples.values():
            for taken_s, metrics in history:
                sample = metrics.get(self.settings.metric)
                fresh = newest_s - taken_s <= window_s
                if fresh and isinstance(sample, Known) and math.isfinite(sample.value):
                    values.append(sample.value)
                    ages_s.append(newest_s - taken_s + sample.age_s)
        if not values:
            return Unknown(f"{self.settings.metric} is unknown in the last {window_s:g} s")
        return Known(math.fsum(value / len(values) for value in values), min(ages_s))


def fake_signal_factory(kind: type[FakeSignal] = FakeSignal) -> Factory[Signal]:
    """Return a factory of signals of *kind*."""

    def create(settings: FakeSignalSettings, _context: MasterContext) -> Signal:
        return kind(settings)

    return Factory(FakeSignalSettings, create, "the mean of one metric, for tests")
