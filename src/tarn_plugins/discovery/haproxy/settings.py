"""What ``discovery[].options`` of ``haproxy`` may hold."""

from pathlib import Path

import attrs

from tarn.domain import FOLLOWER_NAME
from tarn_plugins.discovery.haproxy.target import HaproxyTarget

__all__ = ["HaproxySettings", "check_name"]


def check_name(name: str) -> str:
    """Return the name of an agent.

    Raises:
        ValueError: No agent can be called so.
    """
    if not FOLLOWER_NAME.fullmatch(name):
        raise ValueError(
            f"'{name}' is not a valid follower name: use 1 to 64 letters, digits, dots, dashes "
            "and underscores"
        )
    return name


@attrs.frozen
class HaproxySettings:
    """Either ``followers``, or ``socket``; the rest belongs to ``socket``."""

    followers: tuple[str, ...] = ()
    """Names of the agents (`tarn lb haproxy`) next to HAProxys elsewhere, which acknowledge."""
    socket: str = ""
    """Unix socket, level admin, of a HAProxy on the master's own machine, which the master drives
    itself."""
    backend: str = "triton_backend"
    """HAProxy's backend for HTTP."""
    grpc_backend: str = ""
    """The same for gRPC; empty: none."""
    slots: str = ""
    """How the names of placeholder servers begin; empty: servers are added and deleted."""
    check_interval_s: float = 0.5
    """Between two health checks of a server that is up."""
    max_connections: int = 0
    """Requests that a server gets at once, the others queue; 0: no limit."""

    def __attrs_post_init__(self) -> None:
        """Refuse what cannot be meant."""
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
        """Return what is driven through ``socket`` for the cluster *fleet*.

        Raises:
            ValueError: A name that HAProxy cannot have, a number out of range, a relative path.
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
