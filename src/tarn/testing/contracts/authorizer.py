"""What an authorizer promises: an answer to every question, from any thread."""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tarn.domain import ANONYMOUS, Principal, Readiness, Verdict
from tarn.domain.access import FLEET_ACTIONS, MODEL_ACTIONS
from tarn.hookspecs import Factory
from tarn.interfaces import Authorizer
from tarn.testing.context import master_context
from tarn.testing.strategies import for_any, principals, texts
from tarn.testing.wait import within

__all__ = ["AuthorizerContract"]

_THREADS = 8
_ALL_WITHIN_S = 60.0


class AuthorizerContract:
    """Set `factory` and `settings`; `askers` should get different answers where they can."""

    factory: Factory[Authorizer]
    settings: Mapping[str, Any] = {}
    answer_within_s: float = 5.0
    """A caller's deadline."""
    askers: tuple[Principal, ...] = (
        ANONYMOUS,
        Principal("ops", frozenset({"ml-admins"}), "token"),
        Principal("alice", frozenset({"users"}), "spnego"),
    )
    actions: tuple[str, ...] = (*MODEL_ACTIONS, *FLEET_ACTIONS, "no such action", "")

    def make(self, tmp_path: Path) -> Authorizer:
        """Return the authorizer under test, made by its factory."""
        made = self.factory.settings(**self.settings)
        return self.factory.create(made, master_context(tmp_path))

    def test_answers_in_time(self, tmp_path: Path) -> None:
        """A caller's deadline is seconds, and a late answer is a no."""
        authorizer = self.make(tmp_path)
        _check(within(self.answer_within_s, lambda: authorizer.check(ANONYMOUS, "infer", "ocr")))

    def test_answers_every_action_with_a_verdict(self, tmp_path: Path) -> None:
        """Each principal gets an answer with a reason, for unknown actions too."""
        authorizer = self.make(tmp_path)
        for principal in self.askers:
            for action in self.actions:
                _check(authorizer.check(principal, action, "ocr"))
                _check(authorizer.check(principal, action, ""))

    @for_any(principal=principals, action=texts, model=texts)
    def test_answers_whatever_is_asked(
        self, tmp_path: Path, principal: Principal, action: str, model: str
    ) -> None:
        """Names come from the network: none of them makes it raise."""
        _check(self.make(tmp_path).check(principal, action, model))

    def test_the_same_question_gets_the_same_answer(self, tmp_path: Path) -> None:
        """Allowed stays allowed, denied stays denied, whatever was asked in between."""
        authorizer = self.make(tmp_path)
        first = self._answers(authorizer)
        assert self._answers(authorizer) == first

    def test_a_list_of_models_gets_the_answers_of_each(self, tmp_path: Path) -> None:
        """In their order, and as many as were asked for; of none there is none."""
        authorizer = self.make(tmp_path)
        models = ("ocr", "llama", "ocr", "", "no/such model")
        for principal in self.askers:
            for action in self.actions:
                each = tuple(authorizer.check(principal, action, model) for model in models)
                assert authorizer.check_each(principal, action, models) == each
                assert authorizer.check_each(principal, action, ()) == ()

    def test_closes_twice(self, tmp_path: Path) -> None:
        """A master closes it when it leaves, within a second; again is nothing."""
        authorizer = self.make(tmp_path)
        authorizer.check(ANONYMOUS, "infer", "ocr")
        for _ in range(2):
            within(1.0, authorizer.close)

    def test_many_threads_get_the_answers_of_one(self, tmp_path: Path) -> None:
        """Eight threads ask at once, and nobody gets another's answer."""
        authorizer = self.make(tmp_path)
        expected = self._answers(authorizer)
        with ThreadPoolExecutor(_THREADS) as pool:
            asked = [pool.submit(self._answers, authorizer) for _ in range(_THREADS * 4)]
            for answers in asked:
                assert answers.result(_ALL_WITHIN_S) == expected

    def test_says_whether_it_is_ready(self, tmp_path: Path) -> None:
        """Not being ready has a reason."""
        authorizer = self.make(tmp_path)
        readiness = within(self.answer_within_s, authorizer.ready)
        assert isinstance(readiness, Readiness)
        assert isinstance(readiness.ready, bool)
        assert readiness.ready or readiness.reason.strip()

    def test_allows_nobody_while_it_is_not_ready(self, tmp_path: Path) -> None:
        """What cannot be answered is denied, unless the answer is marked as stale."""
        authorizer = self.make(tmp_path)
        if not authorizer.ready().ready:
            for principal in self.askers:
                verdict = authorizer.check(principal, "admin", "")
                assert verdict.stale or not verdict.allowed

    def _answers(self, authorizer: Authorizer) -> list[bool]:
        return [
            authorizer.check(principal, action, "ocr").allowed
            for action in self.actions
            for principal in self.askers
        ]


def _check(verdict: Verdict) -> None:
    assert isinstance(verdict, Verdict)
    assert isinstance(verdict.allowed, bool)
    assert isinstance(verdict.stale, bool)
    assert verdict.reason.strip(), "a verdict without a reason explains nothing"
