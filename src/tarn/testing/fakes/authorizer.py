"""An authorizer with its rules in memory."""

from collections.abc import Sequence

import attrs

from tarn.domain import Principal, Readiness, Verdict
from tarn.hookspecs import Factory
from tarn.interfaces import Authorizer, MasterContext

__all__ = ["FakeAuthorizer", "FakeAuthorizerSettings", "fake_authorizer_factory"]


@attrs.frozen
class FakeAuthorizerSettings:
    """Who may do what; whatever no rule allows is denied."""

    allow: tuple[tuple[str, str], ...] = ()
    """(user, action) pairs; ``*`` stands for any."""
    hidden: tuple[str, ...] = ()
    """Models to which nobody has a right."""
    unready: str = ""
    """Why it cannot answer; empty when it can."""


class FakeAuthorizer:
    """Answers from its settings, and so from any number of threads."""

    def __init__(self, settings: FakeAuthorizerSettings | None = None) -> None:
        self.settings = settings or FakeAuthorizerSettings((("*", "*"),))

    def check(self, principal: Principal, action: str, model: str) -> Verdict:
        """Answer by the rules; while unready everything is denied."""
        if self.settings.unready:
            return Verdict(allowed=False, reason=self.settings.unready)
        if model in self.settings.hidden:
            return Verdict(allowed=False, reason=f"nobody may use {model!r}")
        for user, what in self.settings.allow:
            if user in ("*", principal.user) and what in ("*", action):
                return Verdict(allowed=True, reason=f"the rule ({user}, {what}) allows it")
        return Verdict(allowed=False, reason=f"no rule lets {principal.user!r} {action}")

    def check_each(
        self, principal: Principal, action: str, models: Sequence[str]
    ) -> tuple[Verdict, ...]:
        """Answer for each model."""
        return tuple(self.check(principal, action, model) for model in models)

    def ready(self) -> Readiness:
        """Say whether `unready` is empty."""
        return Readiness(ready=not self.settings.unready, reason=self.settings.unready)

    def close(self) -> None:
        """Do nothing: nothing is open."""


def fake_authorizer_factory(kind: type[FakeAuthorizer] = FakeAuthorizer) -> Factory[Authorizer]:
    """Return a factory of authorizers of *kind*."""

    def create(settings: FakeAuthorizerSettings, _context: MasterContext) -> Authorizer:
        return kind(settings)

    return Factory(FakeAuthorizerSettings, create, "rules in memory, for tests")
