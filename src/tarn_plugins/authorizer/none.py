"""The authorizer `none`: everybody may use every model; only its owners may use the fleet."""

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
    """``authorizer.options`` of ``use: none``, which has no options."""


@attrs.frozen
class NoAuthorizer:
    """Allows every action on models, and on the fleet if *open_fleet*."""

    open_fleet: bool = False

    def check(self, principal: Principal, action: str, model: str) -> Verdict:
        """Allow every action on a model; on the fleet only if no token or ticket is needed."""
        allowed = self.open_fleet or action in MODEL_ACTIONS
        return Verdict(allowed=allowed, reason=_REASON if allowed else _GUARDED)

    def check_each(
        self, principal: Principal, action: str, models: Sequence[str]
    ) -> tuple[Verdict, ...]:
        """Return the same verdict for each model."""
        return (self.check(principal, action, ""),) * len(models)

    def ready(self) -> Readiness:
        """Return that it is ready: it depends on nothing."""
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
