"""Which action each route asks for: the one table. Pure.

The application lets nothing through to a route that does not stand here.
"""

import attrs

from tarn.domain.access import ADMIN, FOLLOW, VIEW
from tarn.http.commands import VERBS

__all__ = ["ACTIONS", "NOWHERE", "OPEN", "READ", "SELF", "WRITE", "RoutePermission", "asking"]

OPEN = "open"
"""Asks nobody, and therefore names nobody."""
SELF = "ask"
"""Everybody who is believed may ask; the route decides what about."""

READ = ("GET", "HEAD")
WRITE = ("PUT",)
"""The proxy of YARN's ResourceManager passes GET and PUT only, so every write is a PUT."""


@attrs.frozen
class RoutePermission:
    """What a request to a path needs."""

    action: str
    """Of `tarn.domain.access`, or ``OPEN``, or ``SELF``; empty: there is no such route."""
    methods: tuple[str, ...] = READ


NOWHERE = RoutePermission("", ())

ACTIONS = {
    "/health": RoutePermission(OPEN),
    "/livez": RoutePermission(OPEN),
    "/readyz": RoutePermission(OPEN),
    "/dashboard": RoutePermission(OPEN),
    "/authorize": RoutePermission(SELF),
    "/": RoutePermission(VIEW),
    "/instances": RoutePermission(VIEW),
    "/config": RoutePermission(VIEW),
    "/metrics": RoutePermission(VIEW),
    "/alerts": RoutePermission(VIEW),
    "/api/v1/status": RoutePermission(VIEW),
    "/api/v1/instances": RoutePermission(VIEW),
    "/api/v1/events": RoutePermission(VIEW),
    "/api/v1/decisions": RoutePermission(VIEW),
    "/api/v1/scaling": RoutePermission(VIEW),
    "/api/v1/history": RoutePermission(VIEW),
    "/api/v1/alerts": RoutePermission(VIEW),
    "/api/v1/usage": RoutePermission(VIEW),
    "/api/v1/control": RoutePermission(VIEW),
    "/api/v1/stream": RoutePermission(VIEW),
    "/api/v1/me": RoutePermission(SELF),
    "/api/v1/session": RoutePermission(OPEN, WRITE),
    "/api/v1/session/end": RoutePermission(SELF, WRITE),
    "/api/v1/session/link": RoutePermission(SELF, WRITE),
    "/api/v1/logs": RoutePermission(ADMIN),
    "/api/v1/models": RoutePermission(VIEW),
    "/api/v1/sd": RoutePermission(VIEW),
    "/api/v1/followers/{name}": RoutePermission(FOLLOW, WRITE),
    "/api/v1/demand": RoutePermission(FOLLOW, WRITE),
    **{f"/api/v1/{verb}": RoutePermission(ADMIN, WRITE) for verb in VERBS},
}
"""Path of a route -> what it needs; ``{name}`` stands for one part of a path."""

_EXACT = {path: need for path, need in ACTIONS.items() if "{" not in path}
_UNDER = {path.partition("{")[0]: need for path, need in ACTIONS.items() if "{" in path}


def asking(path: str) -> RoutePermission:
    """Return what a request to *path* (decoded, as the server has it) needs, or ``NOWHERE``.

    Nothing is normalized: a path with a dot, a doubled slash or a slash at its end is another one.
    """
    need = _EXACT.get(path)
    if need is not None:
        return need
    head, slash, last = path.rpartition("/")
    return _UNDER.get(head + slash, NOWHERE) if last else NOWHERE
