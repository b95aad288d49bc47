"""Signals with one fault each."""

import math
import threading
from collections.abc import Mapping

import attrs

from tarn.domain import Known, Sample, Unknown
from tarn.testing.fakes import FakeSignal

History = tuple[tuple[float, Mapping[str, Sample[float]]], ...]


class TakesUnknownForZero(FakeSignal):
    """Gives zero when nothing is known."""

    def read(self, samples: Mapping[str, History], window_s: float) -> Sample[float]:
        answer = super().read(samples, window_s)
        return Known(0.0) if isinstance(answer, Unknown) else answer


class GivesNotANumber(FakeSignal):
    """Gives NaN when nothing is known."""

    def read(self, samples: Mapping[str, History], window_s: float) -> Sample[float]:
        answer = super().read(samples, window_s)
        return Known(math.nan) if isinstance(answer, Unknown) else answer


class NeedsEverybody(FakeSignal):
    """Knows nothing as long as one instance is silent."""

    def read(self, samples: Mapping[str, History], window_s: float) -> Sample[float]:
        if not all(samples.values()):
            return Unknown("somebody is silent")
        return super().read(samples, window_s)


class LooksBackForEver(FakeSignal):
    """Ignores the window."""

    def read(self, samples: Mapping[str, History], window_s: float) -> Sample[float]:
        return super().read(samples, math.inf)


class DividesByZero(FakeSignal):
    """Takes the mean of nothing."""

    def read(self, samples: Mapping[str, History], window_s: float) -> Sample[float]:
        count = sum(len(history) for history in samples.values())
        answer = super().read(samples, window_s)
        return attrs.evolve(answer, age_s=answer.age_s / count) if count else Known(1 / count)  # type: ignore[union-attr]


class Smooths(FakeSignal):
    """Mixes its last answer into the next."""

    def read(self, samples: Mapping[str, History], window_s: float) -> Sample[float]:
        answer = super().read(samples, window_s)
        if isinstance(answer, Known):
            last = self.__dict__.get("last", answer.value)
            self.__dict__["last"] = answer.value
            return Known((answer.value + last) / 2, answer.age_s)
        return answer


class CleansUp(FakeSignal):
    """Throws away what it has read."""

    def read(self, samples: Mapping[str, History], window_s: float) -> Sample[float]:
        answer = super().read(samples, window_s)
        for history in samples.values():
            for _, metrics in history:
                metrics.clear()  # type: ignore[attr-defined]
        return answer


class GivesNoReason(FakeSignal):
    """Is unknown without a word."""

    def read(self, samples: Mapping[str, History], window_s: float) -> Sample[float]:
        answer = super().read(samples, window_s)
        return Unknown("") if isinstance(answer, Unknown) else answer


class KnowsNothing(FakeSignal):
    """Is never known."""

    def read(self, samples: Mapping[str, History], window_s: float) -> Sample[float]:
        return Unknown("never looked")


class IsFromTheFuture(FakeSignal):
    """Gives a negative age."""

    def read(self, samples: Mapping[str, History], window_s: float) -> Sample[float]:
        answer = super().read(samples, window_s)
        return attrs.evolve(answer, age_s=-1.0) if isinstance(answer, Known) else answer


class Thinks(FakeSignal):
    """Waits before it answers."""

    def read(self, samples: Mapping[str, History], window_s: float) -> Sample[float]:
        if any(len(history) == 10 for history in samples.values()):
            threading.Event().wait(0.01)
        return super().read(samples, window_s)
