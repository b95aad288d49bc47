"""Where one Triton listens."""

import attrs

from tarn.domain.address import host_port

__all__ = ["Endpoint"]


@attrs.frozen(order=True)
class Endpoint:
    """A host as others reach it, and Triton's three ports."""

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
