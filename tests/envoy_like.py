"""What ejection after consecutive errors alone would have lost: Envoy's rule, on a trace. Pure.

Envoy's outlier detection ejects a host after ``consecutive_5xx`` (5) bad answers in a row, for
``base_ejection_time`` (30 s) and longer each time; a request without an answer within the route's
timeout (15 s) is a 504 and counts, too. These are its defaults; nothing else of it is played here.
"""

from collections.abc import Iterable

import attrs
from servers.haproxy import LoggedRequest

__all__ = ["EnvoyLike", "envoy_like", "failed"]

CONSECUTIVE_5XX = 5
ROUTE_TIMEOUT_S = 15.0


@attrs.frozen
class EnvoyLike:
    """What would have become of one host."""

    out_s: float | None
    """Seconds after the fault at which it would be ejected; None: not in this trace."""
    lost: int
    """Requests that failed and were sent to it by then, or in the whole trace."""

    def __str__(self) -> str:
        if self.out_s is None:
            return f"not within this trace, more than {self.lost} lost"
        return f"after {self.out_s:.1f} s, {self.lost} lost"


def failed(line: LoggedRequest) -> bool:
    """Return whether the client got no good answer by the server's fault."""
    return line.status >= 500 or line.status < 0 or line.ended - line.sent > ROUTE_TIMEOUT_S


def envoy_like(lines: Iterable[LoggedRequest], server: str, fault: float) -> EnvoyLike:
    """Return what the rule does with *server*, which falls sick at *fault* (Unix seconds)."""
    known = [(min(line.ended, line.sent + ROUTE_TIMEOUT_S), line) for line in lines]
    row, sent = 0, [line.sent for _, line in known if line.server == server and failed(line)]
    for at, line in sorted(known, key=lambda one: one[0]):
        if line.server != server or at < fault:
            continue
        row = row + 1 if failed(line) else 0
        if row == CONSECUTIVE_5XX:
            return EnvoyLike(at - fault, sum(one <= at for one in sent))
    return EnvoyLike(None, len(sent))
