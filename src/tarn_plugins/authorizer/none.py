"""The authorizer `none`: every model is open to everybody; the fleet to whom it belongs."""

from collections.abc import Mapping, Sequence

import attrs

from tarn.domain import Principal, Readiness, Verdict
from tarn.domain.access import MODEL_ACTIONS
from tarn.hookspecs import Factory, hookimpl
from tarn.interfaces import Authorizer, MasterContext

__all__ = ["NoAuthorizer", "NoneSettings", "tarn_authorizers"]

_REASON = "no authorizer is configured"
_GUARDED = (
    "no authorizer is configured: only the api token, the owner and admins may act; viewers may "
    "look"
)


@attrs.frozen
class NoneSettings:
    """``authorizer.options`` of ``use: none``: there are none."""


@attrs.frozen
class NoAuthorizer:
    """Opens every model, and says so in each answer; the fleet too where no proof is asked for."""

    open_fleet: bool = False

    def check(self, principal: Principal, action: str, model: str) -> Verdict:
        """Return yes for a model; for the fleet only where nobody asks for token or ticket."""
        allowed = self.open_fleet or action in MODEL_ACTIONS
        return Verdict(allowed=allowed, reason=_REASON if allowed else _GUARDED)

    def check_each(
        self, principal: Principal, action: str, models: Sequence[str]
    ) -> tuple[Verdict, ...]:
        """Return the same for each."""
        return (self.check(principal, action, ""),) * len(models)

    def ready(self) -> Readiness:
        """Return yes: there is nothing that could be away."""
        return Readiness(ready=True, reason=_REASON)

    def close(self) -> None:
        """Do nothing: nothing is open."""


def _create(_settings: NoneSettings, context: MasterContext) -> Authorizer:
    api = context.spec.api
    return NoAuthorizer(open_fleet=api.token == "none" and api.spnego is None)  # noqa: S105 (a kind)


@hookimpl
def tarn_authorizers() -> Mapping[str, Factory[Authorizer]]:
    """Offer the authorizer that a spec gets when it names none."""
    return {"none": Factory(NoneSettings, _create, "allows everything, and says so")}
