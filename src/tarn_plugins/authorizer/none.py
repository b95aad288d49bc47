"""The authorizer `none`: everybody who got past the api token may do everything."""

from collections.abc import Mapping

import attrs

from tarn.domain import Principal, Readiness, Verdict
from tarn.hookspecs import Factory, hookimpl
from tarn.interfaces import Authorizer, MasterContext

__all__ = ["NoAuthorizer", "Settings", "tarn_authorizers"]

_REASON = "no authorizer is configured"


@attrs.frozen
class Settings:
    """``authorizer.options`` of ``use: none``: there are none."""


@attrs.frozen
class NoAuthorizer:
    """Allows everything, and says so in each answer."""

    def check(self, principal: Principal, action: str, model: str) -> Verdict:
        """Return yes."""
        return Verdict(allowed=True, reason=_REASON)

    def ready(self) -> Readiness:
        """Return yes: there is nothing that could be away."""
        return Readiness(ready=True, reason=_REASON)


def _create(_settings: Settings, _context: MasterContext) -> Authorizer:
    return NoAuthorizer()


@hookimpl
def tarn_authorizers() -> Mapping[str, Factory[Authorizer]]:
    """Offer the authorizer that a spec gets when it names none."""
    return {"none": Factory(Settings, _create, "allows everything, and says so")}
