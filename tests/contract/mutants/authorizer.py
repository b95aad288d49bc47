"""Authorizers with one fault each."""

import threading
from collections.abc import Sequence

from tarn.domain import Principal, Readiness, Verdict
from tarn.testing.fakes import FakeAuthorizer


class RaisesForUnknownActions(FakeAuthorizer):
    """Knows its actions, and no others."""

    def check(self, principal: Principal, action: str, model: str) -> Verdict:
        if action not in {"infer", "status", "scale", "down"}:
            raise ValueError(action)
        return super().check(principal, action, model)


class AnswersTrue(FakeAuthorizer):
    """Gives a bool where a verdict is asked for."""

    def check(self, principal: Principal, action: str, model: str) -> Verdict:
        return super().check(principal, action, model).allowed  # type: ignore[return-value]


class AnswersYes(FakeAuthorizer):
    """Gives a word where a bool is asked for, and any word is true."""

    def check(self, principal: Principal, action: str, model: str) -> Verdict:
        verdict = super().check(principal, action, model)
        return Verdict("yes" if verdict.allowed else "no", verdict.reason)  # type: ignore[arg-type]


class GivesNoReason(FakeAuthorizer):
    """Leaves everybody in the dark."""

    def check(self, principal: Principal, action: str, model: str) -> Verdict:
        return Verdict(super().check(principal, action, model).allowed, "")


class MixesUpThreads(FakeAuthorizer):
    """Keeps the asker in itself while it thinks."""

    def check(self, principal: Principal, action: str, model: str) -> Verdict:
        self.__dict__["asker"] = principal
        threading.Event().wait(0.0005)
        return super().check(self.__dict__["asker"], action, model)


class AllowsOnceItSaidNo(FakeAuthorizer):
    """Lets in whoever asks a second time."""

    def check(self, principal: Principal, action: str, model: str) -> Verdict:
        asked = self.__dict__.setdefault("asked", set())
        if (principal, action, model) in asked:
            return Verdict(allowed=True, reason="you again")
        asked.add((principal, action, model))
        return super().check(principal, action, model)


class ChokesOnNames(FakeAuthorizer):
    """Takes every name for ASCII."""

    def check(self, principal: Principal, action: str, model: str) -> Verdict:
        for word in (principal.user, action, model):
            word.encode("ascii")
        return super().check(principal, action, model)


class ThinksForMinutes(FakeAuthorizer):
    """Answers after the caller's deadline."""

    def check(self, principal: Principal, action: str, model: str) -> Verdict:
        if not self.__dict__.setdefault("slow", False):
            self.__dict__["slow"] = True
            threading.Event().wait(0.8)
        return super().check(principal, action, model)


class IsReadyInOneWord(FakeAuthorizer):
    """Gives a bool where readiness is asked for."""

    def ready(self) -> Readiness:
        return True  # type: ignore[return-value]


class IsUnreadyWithoutReason(FakeAuthorizer):
    """Does not say why it cannot answer."""

    def ready(self) -> Readiness:
        return Readiness(ready=False)


class FailsOpen(FakeAuthorizer):
    """Allows everything while it cannot answer."""

    def ready(self) -> Readiness:
        return Readiness(ready=False, reason="the policies could not be read")

    def check(self, principal: Principal, action: str, model: str) -> Verdict:
        return Verdict(allowed=True, reason="nobody forbids it")


class ForgetsTheOrderOfAList(FakeAuthorizer):
    """Answers a list from its end."""

    def check_each(
        self, principal: Principal, action: str, models: Sequence[str]
    ) -> tuple[Verdict, ...]:
        return super().check_each(principal, action, [*reversed(models)])


class AnswersAListOnce(FakeAuthorizer):
    """Gives one answer for a whole list."""

    def check_each(
        self, principal: Principal, action: str, models: Sequence[str]
    ) -> tuple[Verdict, ...]:
        return super().check_each(principal, action, models[:1])


class ClosesOnce(FakeAuthorizer):
    """Cannot be closed a second time."""

    def close(self) -> None:
        if self.__dict__.setdefault("closed", False):
            raise RuntimeError
        self.__dict__["closed"] = True
