"""Each request has an id: answered as ``X-Request-Id``, written in the log and in events."""

import logging
import re
import secrets
from collections.abc import Iterable

from starlette.requests import Request
from starlette.types import Scope

from tarn.domain import Requester
from tarn.http.rights import PRINCIPAL, principal_of
from tarn.log import request_id

__all__ = ["HEADER", "log_request", "request_id_of", "requester_of"]

HEADER = "X-Request-Id"
_NAME = HEADER.lower().encode()
_ID = re.compile(rb"[A-Za-z0-9][A-Za-z0-9._:-]{7,63}")
_LOG = logging.getLogger("tarn.http.requests")
_OFTEN = ("/api/v1/followers/", "/api/v1/demand")
"""Writes that come each second from one place: nobody wants a line for each."""
_FAILED = 500


def request_id_of(headers: Iterable[tuple[bytes, bytes]]) -> str:
    """Return the id of a request with these *headers*: the one that it brings, or a new one.

    A proxy in front may have given it one, by which its own log can be searched. It proves
    nothing; one with anything but letters, digits and ``._:-`` is not taken.
    """
    brought = [value for name, value in headers if name == _NAME]
    if len(brought) == 1 and _ID.fullmatch(brought[0]):
        return brought[0].decode("ascii")
    return secrets.token_hex(8)


def requester_of(request: Request) -> Requester:
    """Return who asks, by which request, and from where."""
    who = principal_of(request)
    address = request.client.host if request.client else ""
    return Requester(request_id(), who.user, who.via, address)


def log_request(scope: Scope, status: int, took_s: float) -> None:
    """Write a line about a request that was answered: writes and failures for all to read."""
    path = scope["path"]
    write = scope["method"] == "PUT" and PRINCIPAL in scope and not path.startswith(_OFTEN)
    level = logging.INFO if write or status >= _FAILED else logging.DEBUG
    if _LOG.isEnabledFor(level):
        who = scope.get(PRINCIPAL)
        user = f"{who.user} ({who.via})" if who is not None else "nobody proven"
        host = (scope.get("client") or ("",))[0]
        words = (scope["method"], path[:200], status, user, host, took_s * 1e3)
        # a failure can be asked for without end
        kind = None if write else {"kind": f"{path} answered {status} to {host}"}
        _LOG.log(level, "%s %r answered %d to %s at %s in %.1f ms", *words, extra=kind)
