"""What a signal promises: one number for the fleet, or the word that there is none."""

import copy
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tarn.domain import Known, Sample, Unknown
from tarn.hookspecs import Factory
from tarn.interfaces import Signal
from tarn.testing.context import master_context
from tarn.testing.strategies import for_any, histories
from tarn.testing.wait import within

__all__ = ["SignalContract"]

_METRICS = ("pending", "executing", "requests_total", "queue_us_total")
_History = tuple[tuple[float, Mapping[str, Sample[float]]], ...]
_QUESTIONS = 100


class SignalContract:
    """Set `factory`, `settings`, and `metrics`: what it reads, with values that mean something."""

    factory: Factory[Signal]
    settings: Mapping[str, Any] = {}
    answers_within_s: float = 2.0
    """How long a hundred answers may take."""
    metrics: tuple[str, ...] = ("pending",)

    def make(self, tmp_path: Path) -> Signal:
        """Return the signal under test, made by its factory."""
        made = self.factory.settings(**self.settings)
        return self.factory.create(made, master_context(tmp_path))

    def history(self, start_s: float = 1000.0) -> _History:
        """Return ten seconds of one healthy instance; counters rise."""
        return tuple(
            (start_s + second, {name: Known(5.0 + second) for name in self.metrics})
            for second in range(10)
        )

    def test_nothing_scraped_is_unknown(self, tmp_path: Path) -> None:
        """No instance, or an instance without a sample, is not zero."""
        signal = self.make(tmp_path)
        for samples in ({}, {"fleet-0001": ()}):
            answer = signal.read(samples, 30.0)
            assert isinstance(answer, Unknown)
            assert answer.reason.strip()

    def test_unknown_samples_make_it_unknown(self, tmp_path: Path) -> None:
        """Unknown is not zero, and neither is absent."""
        signal = self.make(tmp_path)
        unknown = {name: Unknown("timed out") for name in self.metrics}
        for metrics in (unknown, {}):
            answer = signal.read({"fleet-0001": ((1000.0, metrics), (1001.0, metrics))}, 30.0)
            assert isinstance(answer, Unknown)

    def test_known_samples_make_it_known(self, tmp_path: Path) -> None:
        """A healthy instance is enough."""
        answer = self.make(tmp_path).read({"fleet-0001": self.history()}, 30.0)
        assert isinstance(answer, Known)
        assert answer.age_s >= 0

    def test_a_silent_instance_does_not_hide_the_others(self, tmp_path: Path) -> None:
        """What is known of the rest still counts."""
        samples = {"fleet-0001": self.history(), "fleet-0002": ()}
        assert isinstance(self.make(tmp_path).read(samples, 30.0), Known)

    def test_looks_no_further_back_than_the_window(self, tmp_path: Path) -> None:
        """What is ten windows old changes nothing."""
        signal, now = self.make(tmp_path), self.history()
        old = tuple((0.0 + n, {name: Known(9e9) for name in self.metrics}) for n in range(3))
        assert signal.read({"fleet-0001": (*old, *now)}, 30.0) == signal.read(
            {"fleet-0001": now}, 30.0
        )

    @for_any(samples=histories(_METRICS))
    def test_answers_every_history_with_a_number_or_a_reason(
        self, tmp_path: Path, samples: dict[str, _History]
    ) -> None:
        """No history makes it raise; a number is finite."""
        answer = self.make(tmp_path).read(samples, 30.0)
        if isinstance(answer, Known):
            assert math.isfinite(answer.value)
            assert answer.age_s >= 0
        else:
            assert isinstance(answer, Unknown)
            assert answer.reason.strip()

    @for_any(samples=histories(_METRICS))
    def test_is_pure(self, tmp_path: Path, samples: dict[str, _History]) -> None:
        """Same samples, same answer, and they are left as they were."""
        signal, kept = self.make(tmp_path), copy.deepcopy(samples)
        first = signal.read(samples, 30.0)
        signal.read({"fleet-0009": self.history()}, 30.0)
        assert signal.read(samples, 30.0) == first
        assert samples == kept

    def test_answers_at_once(self, tmp_path: Path) -> None:
        """A hundred questions are answered in two seconds."""
        signal, samples = self.make(tmp_path), {"fleet-0001": self.history()}

        def ask() -> None:
            for _ in range(_QUESTIONS):
                signal.read(samples, 30.0)

        within(self.answers_within_s, ask, "a hundred answers")
