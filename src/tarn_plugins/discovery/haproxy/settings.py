"""The settings in ``discovery[].options`` of ``haproxy``."""

import re
from pathlib import Path

import attrs

from tarn.domain import FOLLOWER_NAME

__all__ = ["HaproxySettings", "HaproxyTarget", "check_name"]

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
    """A HAProxy on this machine, and the servers in it that belong to a fleet.

    Without ``slots``, the fleet's servers are those named like its instances, ``<fleet>-<nnnn>``;
    with ``slots``, those whose name begins with it. Every other server of the backends is left
    alone. If somebody changes a server of the fleet by hand, the change is undone. An added server
    has the weight 100: give the same to a server of your own next to it.
    """

    socket: Path
    """Unix socket of the Runtime API, ``level admin``."""
    backend: str = attrs.field(default="triton_backend", validator=_named)
    """The backend for HTTP."""
    grpc_backend: str = attrs.field(default="", validator=_named_or_none)
    """The backend for gRPC; empty: none."""
    slots: str = attrs.field(default="", validator=_prefix)
    """Name prefix of the placeholder servers; empty: servers are added and deleted."""
    check_interval_s: float = attrs.field(default=0.5, validator=attrs.validators.gt(0))
    """Seconds between two health checks of an added server that is up."""
    max_connections: int = attrs.field(default=0, validator=attrs.validators.ge(0))
    """Requests that an added server gets at once, the others queue; 0: no limit."""
    fleet: str = ""
    """The cluster's name; empty: any server named ``<anything>-<nnnn>`` is the fleet's."""
    at_least: int = attrs.field(default=0, validator=attrs.validators.ge(0))
    """Instances that must have room; fewer slots are an error of `reach`."""


def check_name(name: str) -> str:
    """Return *name* if it is valid for an agent.

    Raises:
        ValueError: It is not valid.
    """
    if not FOLLOWER_NAME.fullmatch(name):
        raise ValueError(
            f"'{name}' is not a valid follower name: use 1 to 64 letters, digits, dots, dashes "
            "and underscores"
        )
    return name


@attrs.frozen
class HaproxySettings:
    """Either ``followers``, or ``socket``; the other options belong to ``socket``."""

    followers: tuple[str, ...] = ()
    """Names of the agents (`tarn lb haproxy`) that run next to HAProxys on other machines."""
    socket: str = ""
    """Unix socket, level admin, of a HAProxy on the master's own machine, which the master controls
    itself."""
    backend: str = "triton_backend"
    """HAProxy's backend for HTTP."""
    grpc_backend: str = ""
    """HAProxy's backend for gRPC; empty: none."""
    slots: str = ""
    """Name prefix of the placeholder servers; empty: servers are added and deleted."""
    check_interval_s: float = 0.5
    """Seconds between two health checks of a server that is up."""
    max_connections: int = 0
    """Requests that a server gets at once, the others queue; 0: no limit."""

    def __attrs_post_init__(self) -> None:
        """Refuse options that contradict each other."""
        if self.followers and self.socket:
            raise ValueError(
                "haproxy has both followers and a socket, but HAProxy is controlled either by "
                "the agents in `followers` or by the master through `socket`; remove one of them"
            )
        if not self.followers and not self.socket:
            raise ValueError(
                "haproxy has neither followers nor a socket: list the agents that run next to "
                "your HAProxys, `followers: [NAME]`, each started with `tarn lb haproxy --name "
                "NAME`; or, for a HAProxy on the master's machine, set `socket: PATH` of its "
                "Runtime API"
            )
        for name in self.followers:
            check_name(name)
        if self.socket:
            self.target("", 0)

    def target(self, fleet: str, at_least: int) -> HaproxyTarget:
        """Return the HAProxy behind ``socket``, for the cluster *fleet*.

        Raises:
            ValueError: A name is not valid in HAProxy, a number is out of range, or the path is
                relative.
        """
        if not Path(self.socket).is_absolute():
            raise ValueError(f"socket '{self.socket}' is not an absolute path")
        return HaproxyTarget(
            Path(self.socket),
            self.backend,
            self.grpc_backend,
            self.slots,
            self.check_interval_s,
            self.max_connections,
            fleet,
            at_least,
        )
