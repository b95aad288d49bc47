"""Answers in JSON, text and errors, as the client asked; and the body of a write."""

import asyncio
import hashlib
import hmac
import json
import re
from collections.abc import Awaitable, Callable, Mapping

from starlette.requests import Request
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
from tarn.http.commands import wrong
from tarn.http.render import encode
from tarn.http.request import identity_of

__all__ = [
    "Endpoints",
    "RejectedError",
    "body_of",
    "error_answer",
    "json_answer",
    "json_object",
    "raw_body",
    "text_answer",
    "wants_json",
    "wants_openmetrics",
]

# The endpoint of each route, by path; `tarn.http.admission.ACTIONS` has its methods and its right.
Endpoints = Mapping[str, Callable[[Request], Awaitable[Response]]]
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
    """A request that is answered with *status* and *error*."""

    def __init__(
        self, status: int, error: TarnError, headers: Mapping[str, str] | None = None
    ) -> None:
        self.status, self.error, self.headers = status, error, headers
        super().__init__(str(error))


def json_answer(
    body: bytes | object, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """Return *body* as an answer; bytes must be JSON already."""
    content = body if isinstance(body, bytes) else (encode(body) + "\n").encode()
    return Response(content, status, headers, JSON)


def text_answer(text: str | bytes, status: int = 200) -> Response:
    """Return *text* as an answer in UTF-8."""
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
    """Return whether an ``Accept`` header prefers JSON to text."""
    best, answer = 0.0, False
    for part in accept.lower().split(","):
        kind = part.split(";")[0].strip()
        quality = _weight(part)
        if kind in (JSON, "text/plain", "text/*", "*/*") and quality > best:
            best, answer = quality, kind == JSON
    return answer


def wants_openmetrics(accept: str) -> bool:
    """Return whether an ``Accept`` header prefers OpenMetrics to Prometheus' text."""
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


LARGEST_BODY = 256 * 1024
BODY_WITHIN_S = 10.0


async def body_of(request: Request) -> Mapping[str, object]:
    """Return the JSON object in the body; an empty body is an empty object.

    Raises:
        RejectedError: It is too large or late, not declared as JSON, or not what was signed.
        ConfigError: It is not a JSON object.
    """
    raw = await raw_body(request)
    if not raw.strip():
        return {}
    kind = request.headers.get("content-type", "").split(";")[0].strip().lower()
    if kind != JSON:
        found = f"Content-Type = '{kind[:60]}'" if kind else "Content-Type is missing"
        raise RejectedError(415, ConfigError(found, right=f"Expected {JSON}"))
    return json_object(raw)


def json_object(raw: bytes) -> Mapping[str, object]:
    """Return the JSON object in *raw*; of blanks only it is an empty object.

    Raises:
        ConfigError: It is not a JSON object.
    """
    if not raw.strip():
        return {}
    try:
        body = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise wrong("body", "is not JSON", "a JSON object in UTF-8") from error
    if not isinstance(body, dict):
        raise wrong("body", "is not an object", "a JSON object")
    return body


async def raw_body(request: Request) -> bytes:
    """Return the bytes of the body.

    Raises:
        RejectedError: It is too large or late, or not what was signed.
    """
    raw = await _read(request)
    signed = identity_of(request.scope).digest
    if signed is not None and not hmac.compare_digest(hashlib.sha256(raw).hexdigest(), signed):
        error = ConfigError("is not the body that was signed", code="TARN-2002", where="body")
        raise RejectedError(401, error)
    return raw


async def _read(request: Request) -> bytes:
    declared = request.headers.get("content-length", "0")
    if declared.isdecimal() and int(declared[:12]) > LARGEST_BODY:
        raise _too_large()
    parts, size = [], 0
    try:
        async with asyncio.timeout(BODY_WITHIN_S):
            async for part in request.stream():
                parts.append(part)
                size += len(part)
                if size > LARGEST_BODY:
                    raise _too_large()
    except TimeoutError as error:
        late: TarnError = TimedOutError(f"the body did not arrive within {BODY_WITHIN_S:g} s")
        raise RejectedError(408, late, {"Connection": "close"}) from error
    return b"".join(parts)


def _too_large() -> RejectedError:
    error = wrong("body", "is too large", f"at most {LARGEST_BODY // 1024} KiB")
    return RejectedError(413, error, {"Connection": "close"})
