"""Where Triton is asked for what a control call says. Pure.

Measured on Triton 2.51: a load answers when the model is READY or has failed, an unload and a
change of settings at once. A trace setting that is null takes the server's value again. A log
setting that Triton does not know is taken, and ignored.
"""

import json
from urllib.parse import quote

from tarn.domain.control_calls import CallKind, ControlCall

__all__ = ["failure_in", "question"]

_LONGEST_ERROR = 1024


def question(call: ControlCall) -> tuple[str, str, bytes]:
    """Return (path, part of Triton's API whose key it needs, body) of the POST for *call*."""
    name = quote(call.model, safe="")
    match call.kind:
        case CallKind.LOAD | CallKind.UNLOAD:
            parameters = json.loads(call.body)
            body = json.dumps({"parameters": parameters} if parameters else {}).encode()
            return f"/v2/repository/models/{name}/{call.kind}", "model-repository", body
        case CallKind.TRACE:
            where = f"/v2/models/{name}/trace/setting" if call.model else "/v2/trace/setting"
            return where, "trace", call.body.encode()
        case CallKind.LOG:
            return "/v2/logging", "logging", call.body.encode()


def failure_in(status: int, body: bytes) -> str:
    """Return Triton's own words for a call that was not done."""
    try:
        said = json.loads(body)
    except (ValueError, RecursionError):
        said = None
    error = said.get("error") if isinstance(said, dict) else None
    if not isinstance(error, str) or not error.strip():
        error = body[:_LONGEST_ERROR].decode(errors="replace")
    return f"{status} {' '.join(error.split())[:_LONGEST_ERROR]}".strip()
