"""``/authorize``: whether a user may use a model, for proxies in front of the models."""

from urllib.parse import parse_qsl

import attrs
from starlette.requests import Request
from starlette.responses import Response

from tarn.domain import ANONYMOUS, Principal
from tarn.domain.access import AUTHORIZE, MODEL_ACTIONS
from tarn.errors import NotAuthorizedError, ProviderError
from tarn.http.answers import Endpoints, error_answer, json_answer, text_answer, wants_json
from tarn.http.commands import wrong
from tarn.http.request import is_name, principal_of
from tarn.http.rights import EVERY, Groups, Rights
from tarn.triton.repository import is_model_name

__all__ = ["Authorize", "AuthorizeRequest", "question"]

MOST_FIELDS = 16
RETRY_AFTER_S = 2.0
_FOUND = "is not a parameter of this request"
# The text is part of the contract.
MISSING = "Missing 'action' or 'model' parameter"


@attrs.frozen
class AuthorizeRequest:
    """One question to ``/authorize``."""

    action: str
    model: str
    user: str | None
    """The user whom it is about; None: the principal that asks."""


def question(query: bytes) -> AuthorizeRequest | None:
    """Return the question in *query*; None if the model or the action is missing.

    Raises:
        ConfigError: A field is given twice, or is not valid.
    """
    try:
        pairs = parse_qsl(
            query.decode("ascii"),
            keep_blank_values=True,
            errors="strict",
            max_num_fields=MOST_FIELDS,
        )
    except ValueError as error:
        raise wrong(
            "query", _FOUND, f"at most {MOST_FIELDS} fields in UTF-8, percent-encoded"
        ) from error
    for name in ("action", "model", "user"):
        if sum(key == name for key, _ in pairs) > 1:
            raise wrong(name, _FOUND, "given once")
    fields = dict(pairs)
    if not fields.get("action") or not fields.get("model"):
        return None
    action, model, user = fields["action"], fields["model"], fields.get("user")
    if action not in MODEL_ACTIONS:
        raise wrong("action", _FOUND, f"one of: {', '.join(MODEL_ACTIONS)}")
    if model != EVERY and not is_model_name(model):
        raise wrong(
            "model", _FOUND, "the name of a model: letters, digits, '_', '.' and '-'; or '*'"
        )
    if user is not None and not is_name(user):
        raise wrong("user", _FOUND, "the short name of a user; if left out, the one who asks")
    return AuthorizeRequest(action, model, user)


@attrs.frozen(eq=False)
class Authorize:
    """The route. Lives on one event loop."""

    rights: Rights
    groups: Groups

    def routes(self) -> Endpoints:
        """Return what answers each path."""
        return {"/authorize": self.authorize}

    async def authorize(self, request: Request) -> Response:
        """Answer ``true`` or ``false``; anything but a 200 with ``true`` means no."""
        found = question(request.scope["query_string"])
        if found is None:
            return text_answer(MISSING, 400)
        if self.rights.begins():
            # No verdict rather than a no: a proxy may then use the verdict that it got before.
            return error_answer(
                ProviderError("authorizer", "is not ready yet", retry_after_s=RETRY_AFTER_S)
            )
        principal = principal_of(request)
        if not _about_self(found, principal):
            verdict = await self.rights.on_fleet(principal, AUTHORIZE)
            if not verdict.allowed:
                error = NotAuthorizedError(principal.user, AUTHORIZE)
                return error_answer(error, reason=verdict.reason)
        user = await self._user(found, principal)
        verdict = await self.rights.on_model(user, found.action, found.model)
        if wants_json(request.headers.get("accept", "")):
            answer = {"allowed": verdict.allowed, "reason": verdict.reason, "stale": verdict.stale}
            return json_answer({**attrs.asdict(found), "user": user.user, **answer})
        return text_answer("true" if verdict.allowed else "false")

    async def _user(self, found: AuthorizeRequest, principal: Principal) -> Principal:
        if found.user is None:
            return ANONYMOUS if principal.via == "token" else principal
        if found.user == ANONYMOUS.user:
            return ANONYMOUS
        if _about_self(found, principal):
            return principal
        return Principal(found.user, await self.groups(found.user), via="proxy")


def _about_self(found: AuthorizeRequest, principal: Principal) -> bool:
    if found.user is None:
        return True
    # A holder of the api token has no name, so a name never means the holder.
    return found.user == principal.user and principal.via != "token"
