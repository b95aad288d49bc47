"""The JSON object in the body of a write: bounded in size and time."""

import asyncio
import hashlib
import hmac
import json
from collections.abc import Mapping

from starlette.requests import Request

from tarn.errors import ConfigError, TarnError, TimedOutError
from tarn.http.answers import JSON, RejectedError
from tarn.http.request_info import DIGEST

__all__ = ["body_of"]

LARGEST_BODY = 256 * 1024
BODY_WITHIN_S = 10.0


async def body_of(request: Request) -> Mapping[str, object]:
    """Return the JSON object in the body; an empty body is an empty object.

    Raises:
        RejectedError: It is too large, too late, not said to be JSON, or not what was signed.
        ConfigError: It is not a JSON object.
    """
    raw = await _read(request)
    signed = request.scope.get(DIGEST)
    if signed is not None and not hmac.compare_digest(hashlib.sha256(raw).hexdigest(), signed):
        error = ConfigError("is not the body that was signed", code="TARN-2002", where="body")
        raise RejectedError(401, error)
    if not raw.strip():
        return {}
    kind = request.headers.get("content-type", "").split(";")[0].strip().lower()
    if kind != JSON:
        found = f"Content-Type = '{kind[:60]}'" if kind else "Content-Type is missing"
        raise RejectedError(415, ConfigError(found, right=f"Expected {JSON}"))
    try:
        body = json.loads(raw)
    except (ValueError, RecursionError) as error:
        right = "Expected a JSON object in UTF-8"
        raise ConfigError("is not JSON", code="TARN-2002", where="body", right=right) from error
    if not isinstance(body, dict):
        right = "Expected a JSON object"
        raise ConfigError("is not an object", code="TARN-2002", where="body", right=right)
    return body


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
    right = f"Expected at most {LARGEST_BODY // 1024} KiB"
    error = ConfigError("is too large", code="TARN-2002", where="body", right=right)
    return RejectedError(413, error, {"Connection": "close"})
