"""The endpoint of one Triton, and host and port as one text."""

import attrs

__all__ = ["Endpoint", "apart", "bracketed", "host_port"]


def bracketed(host: str) -> str:
    """Return *host* as URLs write it: an IPv6 address in brackets."""
    # An IPv6 address has colons itself, so the port after it could not be told apart.
    return f"[{host}]" if ":" in host and not host.startswith("[") else host


def host_port(host: str, port: int | str) -> str:
    """Return ``host:port``, ``[fd00::1]:8000`` for an address of IPv6."""
    return f"{bracketed(host)}:{port}"


def apart(text: str) -> tuple[str, str]:
    """Split ``host:port`` into the host, without brackets, and the port."""
    host, _, port = text.rpartition(":")
    return host.removeprefix("[").removesuffix("]"), port


@attrs.frozen(order=True)
class Endpoint:
    """The address of one Triton: its host, and its three ports."""

    host: str
    http_port: int
    grpc_port: int
    metrics_port: int

    @property
    def http(self) -> str:
        """``host:port`` of the HTTP service, the form of ``/instances`` and of znodes."""
        return host_port(self.host, self.http_port)

    @property
    def grpc(self) -> str:
        """``host:port`` of the gRPC service."""
        return host_port(self.host, self.grpc_port)

    @property
    def metrics(self) -> str:
        """``host:port`` of the metrics service."""
        return host_port(self.host, self.metrics_port)
