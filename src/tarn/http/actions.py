"""Which action each route asks for: the one table. Pure.

The application lets nothing through to a route that does not stand here.
"""

import attrs

from tarn.domain.access import ADMIN, FOLLOW, VIEW
from tarn.http.commands import VERBS

__all__ = ["ACTIONS", "NOWHERE", "OPEN", "READ", "SELF", "WRITE", "Asking", "asking"]

OPEN = "open"
"""Asks nobody, and therefore names nobody."""
SELF = "ask"
"""Everybody who is believed may ask; the route decides what about."""

READ = ("GET", "HEAD")
WRITE = ("PUT",)
"""The proxy of YARN's ResourceManager passes GET and PUT only, so every write is a PUT."""


@attrs.frozen
class Asking:
    """What a request to a path needs."""

    action: str
    """Of `tarn.domain.access`, or ``OPEN``, or ``SELF``; empty: there is no such route."""
    methods: tuple[str, ...] = READ


NOWHERE = Asking("", ())

ACTIONS = {
    "/health": Asking(OPEN),
    "/livez": Asking(OPEN),
    "/readyz": Asking(OPEN),
    "/dashboard": Asking(OPEN),
    "/authorize": Asking(SELF),
    "/": Asking(VIEW),
    "/instances": Asking(VIEW),
    "/config": Asking(VIEW),
    "/metrics": Asking(VIEW),
    "/alerts": Asking(VIEW),
    "/api/v1/status": Asking(VIEW),
    "/api/v1/instances": Asking(VIEW),
    "/api/v1/events": Asking(VIEW),
    "/api/v1/decisions": Asking(VIEW),
    "/api/v1/scaling": Asking(VIEW),
    "/api/v1/history": Asking(VIEW),
    "/api/v1/alerts": Asking(VIEW),
    "/api/v1/usage": Asking(VIEW),
    "/api/v1/control": Asking(VIEW),
    "/api/v1/stream": Asking(VIEW),
    "/api/v1/me": Asking(SELF),
    "/api/v1/session": Asking(OPEN, WRITE),
    "/api/v1/session/end": Asking(SELF, WRITE),
    "/api/v1/session/link": Asking(SELF, WRITE),
    "/api/v1/logs": Asking(ADMIN),
    "/api/v1/models": Asking(VIEW),
    "/api/v1/sd": Asking(VIEW),
    "/api/v1/followers/{name}": Asking(FOLLOW, WRITE),
    "/api/v1/demand": Asking(FOLLOW, WRITE),
    **{f"/api/v1/{verb}": Asking(ADMIN, WRITE) for verb in VERBS},
}
"""Path of a route -> what it needs; ``{name}`` stands for one part of a path."""

_EXACT = {path: need for path, need in ACTIONS.items() if "{" not in path}
_UNDER = {path.partition("{")[0]: need for path, need in ACTIONS.items() if "{" in path}


def asking(path: str) -> Asking:
    """Return what a request to *path* (decoded, as the server has it) needs, or ``NOWHERE``.

    Nothing is normalized: a path with a dot, a doubled slash or a slash at its end is another one.
    """
    need = _EXACT.get(path)
    if need is not None:
        return need
    head, slash, last = path.rpartition("/")
    return _UNDER.get(head + slash, NOWHERE) if last else NOWHERE
