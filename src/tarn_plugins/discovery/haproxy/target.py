"""Which HAProxy is driven, and how: the one value that the engine is made with."""

import re
from pathlib import Path

import attrs

__all__ = ["HaproxyTarget"]

_BACKEND = re.compile(r"[A-Za-z0-9_.:-]+")
_PREFIX = re.compile(r"[A-Za-z0-9_.-]+")


def _named(_target: object, field: "attrs.Attribute[str]", value: str) -> None:
    if not _BACKEND.fullmatch(value):
        raise ValueError(f"{field.name} '{value}' is not a valid HAProxy backend name")


def _named_or_none(target: object, field: "attrs.Attribute[str]", value: str) -> None:
    if value:
        _named(target, field, value)


def _prefix(_target: object, field: "attrs.Attribute[str]", value: str) -> None:
    if value and not _PREFIX.fullmatch(value):
        raise ValueError(f"{field.name} '{value}' is not a valid server-name prefix")


@attrs.frozen
class HaproxyTarget:
    """A HAProxy on this machine, and what of it belongs to a fleet.

    Ours are, without ``slots``, the servers named like the fleet's instances, ``<fleet>-<nnnn>``;
    with ``slots``, those whose name begins with it. Every other server of the backends is left
    alone. A server that is ours and that somebody changed by hand is put right again. An added
    server has the weight 100: give a server of your own next to it the same.
    """

    socket: Path
    """Unix socket of the Runtime API, ``level admin``."""
    backend: str = attrs.field(default="triton_backend", validator=_named)
    """Takes HTTP."""
    grpc_backend: str = attrs.field(default="", validator=_named_or_none)
    """Takes gRPC; empty: there is none."""
    slots: str = attrs.field(default="", validator=_prefix)
    """How the names of placeholder servers begin; empty: servers are added and deleted."""
    check_interval_s: float = attrs.field(default=0.5, validator=attrs.validators.gt(0))
    """Seconds between two health checks of a server that is up (only where servers are added)."""
    max_connections: int = attrs.field(default=0, validator=attrs.validators.ge(0))
    """Requests that a server gets at once, the others queue; 0: no limit (only servers added)."""
    fleet: str = ""
    """The cluster's name; empty: any server named ``<anything>-<nnnn>`` is ours."""
    at_least: int = attrs.field(default=0, validator=attrs.validators.ge(0))
    """Instances that there must be room for; fewer slots are an error of `reach`."""
