"""What a farm's ceiling promises: a number, or the word that the farm does not answer."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tarn.domain import Known, Sample, Unknown
from tarn.hookspecs import Factory
from tarn.interfaces import CeilingSource
from tarn.testing.context import master_context
from tarn.testing.wait import until, within

__all__ = ["CeilingSourceContract"]


class CeilingSourceContract:
    """Set `factory` and `settings`; write `grant` and `go_away` for the farm behind the source."""

    factory: Factory[CeilingSource]
    settings: Mapping[str, Any] = {}
    within_s: float = 10.0
    """How long a change at the farm may take to arrive."""
    answer_within_s: float = 5.0
    """How long a call may take, the farm there or away."""

    def make(self, tmp_path: Path) -> CeilingSource:
        """Return the source under test, made by its factory."""
        made = self.factory.settings(**self.settings)
        return self.factory.create(made, master_context(tmp_path))

    def status(self) -> dict[str, object]:
        """Return what the cluster tells the farm."""
        return {"name": "alice", "desired": 2, "min": 1, "max": 8, "instances": ["fleet-0001"]}

    def grant(self, replicas: int) -> None:
        """Let the farm grant *replicas* from now on."""
        raise NotImplementedError

    def go_away(self) -> None:
        """Let the farm answer nothing from now on."""
        raise NotImplementedError

    def test_before_the_first_word_it_is_known_or_unknown(self, tmp_path: Path) -> None:
        """A source that was never registered answers, in words or with a number."""
        _check(self._ask(self.make(tmp_path)))

    def test_says_what_is_granted(self, tmp_path: Path) -> None:
        """A registered cluster hears its ceiling, and each change of it."""
        source = self._registered(tmp_path, 3)
        self._becomes(source, 3)
        self.grant(5)
        self._becomes(source, 5)

    def test_a_ceiling_of_nothing_is_known(self, tmp_path: Path) -> None:
        """Zero granted is a number, not the want of one."""
        self._becomes(self._registered(tmp_path, 0), 0)

    def test_a_farm_that_does_not_answer_is_unknown(self, tmp_path: Path) -> None:
        """No old number, no zero, no exception."""
        source = self._registered(tmp_path, 3)
        self._becomes(source, 3)
        self.go_away()
        source.register(self.status())
        until(lambda: isinstance(self._ask(source), Unknown), self.within_s, "an unknown ceiling")
        _check(self._ask(source))

    def test_registering_again_changes_nothing(self, tmp_path: Path) -> None:
        """It is told every few seconds, the same as often as not."""
        source = self._registered(tmp_path, 4)
        for _ in range(5):
            source.register(self.status())
        self._becomes(source, 4)

    def test_the_status_is_left_as_it_was(self, tmp_path: Path) -> None:
        """What is registered belongs to the caller."""
        self.grant(2)
        status, kept = self.status(), self.status()
        self.make(tmp_path).register(status)
        assert status == kept

    def test_answers_in_time(self, tmp_path: Path) -> None:
        """Neither call waits longer than a few seconds, the farm there or away."""
        source = self._registered(tmp_path, 3)
        self.go_away()
        within(self.answer_within_s, lambda: source.register(self.status()), "register")
        _check(self._ask(source))

    def _registered(self, tmp_path: Path, granted: int) -> CeilingSource:
        self.grant(granted)
        source = self.make(tmp_path)
        source.register(self.status())
        return source

    def _ask(self, source: CeilingSource) -> Sample[int]:
        return within(self.answer_within_s, source.ceiling, "ceiling")

    def _becomes(self, source: CeilingSource, replicas: int) -> None:
        def granted() -> bool:
            answer = self._ask(source)
            _check(answer)
            return isinstance(answer, Known) and answer.value == replicas

        until(granted, self.within_s, f"a ceiling of {replicas}")


def _check(answer: Sample[int]) -> None:
    if isinstance(answer, Known):
        assert type(answer.value) is int, answer
        assert answer.value >= 0, answer
    else:
        assert isinstance(answer, Unknown)
        assert answer.reason.strip()
