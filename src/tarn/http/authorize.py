"""``/authorize``: may they? Asked by what lets requests through to the models."""

from collections.abc import Mapping
from urllib.parse import parse_qsl

import attrs
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tarn.domain import ANONYMOUS, Principal
from tarn.domain.access import AUTHORIZE, MODEL_ACTIONS
from tarn.errors import ConfigError, NotAuthorizedError, ProviderError
from tarn.http.answers import error_answer, json_answer, text_answer, wants_json
from tarn.http.identity.claims import is_name
from tarn.http.rights import EVERY, Rights, principal_of
from tarn.http.sources import Groups
from tarn.triton.repository import is_model_name

__all__ = ["Authorize", "AuthorizeRequest", "question"]

MOST_FIELDS = 16
RETRY_AFTER_S = 2.0
MISSING = "Missing 'action' or 'model' parameter"
"""The contract's words."""


@attrs.frozen
class AuthorizeRequest:
    """What is asked."""

    action: str
    model: str
    user: str | None
    """About whom; None: about who asks."""


def question(query: bytes) -> AuthorizeRequest | None:
    """Return what *query* asks; None: the model or the action is missing.

    Raises:
        ConfigError: A field stands twice, is empty, or is nothing that could be one.
    """
    fields = _fields(query)
    if not fields.get("action") or not fields.get("model"):
        return None
    action, model, user = fields["action"], fields["model"], fields.get("user")
    if action not in MODEL_ACTIONS:
        raise _wrong("action", f"one of: {', '.join(MODEL_ACTIONS)}")
    if model != EVERY and not is_model_name(model):
        raise _wrong("model", "the name of a model: letters, digits, '_', '.' and '-'; or '*'")
    if user is not None and not is_name(user):
        raise _wrong("user", "the short name of a user; if left out, the one who asks")
    return AuthorizeRequest(action, model, user)


def _fields(query: bytes) -> Mapping[str, str]:
    try:
        pairs = parse_qsl(
            query.decode("ascii"),
            keep_blank_values=True,
            errors="strict",
            max_num_fields=MOST_FIELDS,
        )
    except ValueError as error:
        raise _wrong("query", f"at most {MOST_FIELDS} fields in UTF-8, percent-encoded") from error
    for name in ("action", "model", "user"):
        if sum(key == name for key, _ in pairs) > 1:
            raise _wrong(name, "given once")
    return dict(pairs)


def _wrong(where: str, right: str) -> ConfigError:
    found = "is not a parameter of this request"
    return ConfigError(found, code="TARN-2002", where=where, right=f"Expected {right}")


@attrs.frozen(eq=False)
class Authorize:
    """The route. Lives on one event loop."""

    rights: Rights
    groups: Groups

    def routes(self) -> list[Route]:
        """Return the route."""
        return [Route("/authorize", self.authorize)]

    async def authorize(self, request: Request) -> Response:
        """Answer ``true`` or ``false``; everything else than a 200 with ``true`` is a no."""
        found = question(request.scope["query_string"])
        if found is None:
            return text_answer(MISSING, 400)
        if self.rights.begins():
            # no verdict, rather than a no: who asks for others may go by what it heard before
            return error_answer(
                ProviderError("authorizer", "is not ready yet", retry_after_s=RETRY_AFTER_S)
            )
        principal = principal_of(request)
        if not _about_self(found, principal):
            verdict = await self.rights.on_fleet(principal, AUTHORIZE)
            if not verdict.allowed:
                error = NotAuthorizedError(principal.user, AUTHORIZE)
                return error_answer(error, reason=verdict.reason)
        whom = await self._whom(found, principal)
        verdict = await self.rights.on_model(whom, found.action, found.model)
        if wants_json(request.headers.get("accept", "")):
            answer = {"allowed": verdict.allowed, "reason": verdict.reason, "stale": verdict.stale}
            return json_answer({**attrs.asdict(found), "user": whom.user, **answer})
        return text_answer("true" if verdict.allowed else "false")

    async def _whom(self, found: AuthorizeRequest, principal: Principal) -> Principal:
        if found.user is None:
            return ANONYMOUS if principal.via == "token" else principal
        if found.user == ANONYMOUS.user:
            return ANONYMOUS
        if _about_self(found, principal):
            return principal
        return Principal(found.user, await self.groups(found.user), via="proxy")


def _about_self(found: AuthorizeRequest, principal: Principal) -> bool:
    """Say whether somebody asks about themselves; the api token is nobody's name."""
    if found.user is None:
        return True
    return found.user == principal.user and principal.via != "token"
