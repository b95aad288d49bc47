"""Answers: JSON, plain text, and errors in one shape."""

import re
from collections.abc import Mapping

from starlette.responses import Response

from tarn.errors import (
    ConfigError,
    ConflictError,
    NotAuthorizedError,
    NotFoundError,
    ProviderError,
    RefusedError,
    TarnError,
    TimedOutError,
    UnreachableError,
)
from tarn.http.render import encode

__all__ = [
    "RejectedError",
    "error_answer",
    "json_answer",
    "text_answer",
    "wants_json",
    "wants_openmetrics",
]

JSON = "application/json"
TEXT = "text/plain; charset=utf-8"

_STATUS: tuple[tuple[type[TarnError], int], ...] = (
    (ConfigError, 400),
    (NotAuthorizedError, 403),
    (NotFoundError, 404),
    (RefusedError, 409),
    (ConflictError, 412),
    (ProviderError, 503),
    (TimedOutError, 503),
    (UnreachableError, 503),
)


class RejectedError(Exception):
    """A request that HTTP itself has a status for: *status*, and the error to show."""

    def __init__(
        self, status: int, error: TarnError, headers: Mapping[str, str] | None = None
    ) -> None:
        self.status, self.error, self.headers = status, error, headers
        super().__init__(str(error))


def json_answer(
    body: bytes | object, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """Return *body* (bytes: JSON already) as an answer."""
    content = body if isinstance(body, bytes) else (encode(body) + "\n").encode()
    return Response(content, status, headers, JSON)


def text_answer(text: str | bytes, status: int = 200) -> Response:
    """Return *text* as UTF-8; the length is that of the bytes."""
    content = text if isinstance(text, bytes) else text.encode("utf-8", "replace")
    return Response(content, status, media_type=TEXT)


def error_answer(
    error: TarnError,
    status: int | None = None,
    headers: Mapping[str, str] | None = None,
    **more: object,
) -> Response:
    """Return *error* as ``{"error": {code, where, found, right, next_step, ...}}``."""
    status = status or next((s for kind, s in _STATUS if isinstance(error, kind)), 500)
    body: dict[str, object] = {
        "code": error.code,
        "where": error.where,
        "found": error.found,
        "right": error.right,
        "next_step": error.next_step,
    }
    added = dict(headers or {})
    if isinstance(error, ConflictError):
        body["spec_revision"] = error.spec_revision
        added["ETag"] = f'"{error.spec_revision}"'
    if isinstance(error, NotAuthorizedError):
        body |= {"principal": error.principal, "action": error.action, "model": error.model}
    if isinstance(error, ProviderError) and error.retry_after_s is not None:
        added["Retry-After"] = str(max(1, round(error.retry_after_s)))
    return json_answer({"error": body | more}, status, added)


_QUALITY = re.compile(r";\s*q\s*=\s*([^;\s]*)")


def wants_json(accept: str) -> bool:
    """Say whether an ``Accept`` header asks for JSON, and for nothing textual before it."""
    best, answer = 0.0, False
    for part in accept.lower().split(","):
        kind = part.split(";")[0].strip()
        quality = _weight(part)
        if kind in (JSON, "text/plain", "text/*", "*/*") and quality > best:
            best, answer = quality, kind == JSON
    return answer


def wants_openmetrics(accept: str) -> bool:
    """Say whether an ``Accept`` header asks for OpenMetrics rather than for Prometheus' text."""
    best: dict[str, float] = {}
    for part in accept.lower().split(","):
        kind = part.split(";")[0].strip()
        best[kind] = max(best.get(kind, 0.0), _weight(part))
    wanted = best.get("application/openmetrics-text", 0.0)
    return wanted > 0 and wanted >= best.get("text/plain", 0.0)


def _weight(part: str) -> float:
    match = _QUALITY.search(part)
    if not match:
        return 1.0
    try:
        return float(match[1])
    except ValueError:
        return 0.0
