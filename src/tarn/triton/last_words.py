"""The last error in tritonserver's own log. Pure."""

import re
from collections.abc import Iterable

from tarn.triton.restricted import LAUNCH_OPTIONS, without_keys

__all__ = ["hopeless", "last_error", "port_taken"]

_LOGGED = re.compile(r'^E\d{4} [\d:.]+ \d+ [\w./-]+:\d+\] "?(?P<text>.*?)"?$')
"""A line of Triton's log: ``E1127 23:52:36.259414 2510 server.cc:241] "…"``."""
_PLAIN = re.compile(
    r"^(?:error|fatal error|terminate called|.*: error)\b.*|^\S*tritonserver: .+", re.IGNORECASE
)
_LOADER = re.compile(r"error while loading shared libraries|unrecognized option|option '--")
"""The same command can never do better."""
_HARMLESS = ("CudaDriverHelper has not been initialized",)
"""Logged as an error on every machine without a GPU."""
_LONGEST = 500
_TOO_OLD = (
    " (this Triton is older than restricted APIs, of the end of 2023: set triton.restricted: [] "
    "and keep its ports from others, or take a newer one)"
)


def last_error(lines: Iterable[str]) -> str:
    """Return the text of the last error in Triton's log; '' when there is none."""
    found = ""
    for line in lines:
        logged = _LOGGED.match(line.rstrip())
        if logged and not any(harmless in line for harmless in _HARMLESS):
            found = logged["text"].replace('\\"', '"')
        elif not logged and _PLAIN.match(line):
            found = line.strip().rpartition("/")[2] if "tritonserver: " in line else line.strip()
    if "unrecognized option" in found and any(f"--{name}" in found for name in LAUNCH_OPTIONS):
        found = without_keys(found) + _TOO_OLD
    return found if len(found) <= _LONGEST else f"{found[:_LONGEST]} …"


def hopeless(error: str) -> bool:
    """Say whether *error* is one that the same command ends with every time."""
    return _LOADER.search(error) is not None


def port_taken(error: str) -> bool:
    """Say whether *error* tells that somebody else listens on one of its ports."""
    return "already in use" in error
