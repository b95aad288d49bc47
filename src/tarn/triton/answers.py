"""Whose fault an answer of Triton is: the caller's, the model's, or the server's. Pure.

It follows from the status and the message; the status alone is not enough. Measured on Triton 2.51,
over HTTP:

- A body that is not JSON, or lacks a member, is answered **500**: "failed to parse the request JSON
  buffer", "Unable to parse 'shape': …". A wrong name, type or shape is 400, an unknown model or
  version, and one that was unloaded, 404; a decoupled model 501.
- A Python model that raises is 500: "Failed to process the request(s) for model 'm_0_0', message:
  …"; one that answers with a ``TritonError`` is 500 with its text alone.
- A model whose Python process is gone is 500, a second later: "Stub process 'm_0_0' is not
  healthy."
- A full queue is 503: "Exceeds maximum queue size". The instance is busy, perhaps not sick.

Over gRPC the same messages come with INVALID_ARGUMENT, NOT_FOUND, UNIMPLEMENTED, INTERNAL and
UNAVAILABLE.
"""

import enum
import json

__all__ = ["GRPC_STATUS", "Culprit", "blame", "error_line"]

# Characters of an error that are shown to people.
LONGEST_LINE = 300

GRPC_STATUS = {
    "INVALID_ARGUMENT": 400,
    "UNAUTHENTICATED": 401,
    "PERMISSION_DENIED": 403,
    "NOT_FOUND": 404,
    "ALREADY_EXISTS": 409,
    "CANCELLED": 499,
    "INTERNAL": 500,
    "UNKNOWN": 500,
    "UNIMPLEMENTED": 501,
    "UNAVAILABLE": 503,
    "DEADLINE_EXCEEDED": 504,
}
"""The HTTP status that Triton or a proxy would send for each gRPC status."""

_ERROR = 400
_INTERNAL = 500
_UNIMPLEMENTED = 501
_UNAVAILABLE = 503
# Only these parts of the message distinguish the causes (seen on 2.51).
_STUB = "Stub process '"
_NOT_HEALTHY = "is not healthy"
_FULL = "Exceeds maximum queue size"
_MALFORMED = (
    "failed to parse the request JSON buffer",
    "Unable to parse ",
    "failed to get request params",
)
_TRACEBACK = "\n\nAt:\n"


class Culprit(enum.StrEnum):
    """Whose fault an error is."""

    NOBODY = "nobody"
    """The request was not taken, since the queue is full."""
    CALLER = "caller"
    """The request is wrong; every other instance would refuse it too."""
    MODEL = "model"
    """The model raised an error, perhaps for this request, perhaps for every one."""
    SERVER = "server"
    """The instance cannot answer any request."""


def blame(status: int, said: str) -> Culprit:
    """Return whose fault an error is.

    Args:
        status: The HTTP status, at least 400; for gRPC, that of `GRPC_STATUS`.
        said: Triton's message.
    """
    if status < _INTERNAL or status == _UNIMPLEMENTED:
        return Culprit.CALLER
    if status == _UNAVAILABLE and _FULL in said:
        return Culprit.NOBODY
    if status != _INTERNAL or (_STUB in said and _NOT_HEALTHY in said):
        return Culprit.SERVER
    return Culprit.CALLER if said.startswith(_MALFORMED) else Culprit.MODEL


def error_line(body: bytes) -> str:
    """Return Triton's message in *body*, the answer of an error, as one line for people."""
    text = body.decode("utf-8", "replace")
    try:
        said = json.loads(text)
    except (ValueError, RecursionError):
        said = text
    if isinstance(said, dict):
        said = said.get("error", text)
    line = " ".join(str(said).partition(_TRACEBACK)[0].split())
    return line if len(line) <= LONGEST_LINE else f"{line[:LONGEST_LINE]} …"
