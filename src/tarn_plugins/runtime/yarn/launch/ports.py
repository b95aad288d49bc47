"""At which ports a Triton is to listen, before anybody looked what is free on its node. Pure."""

from tarn.domain.spec import TritonSpec

__all__ = ["wanted_ports"]

_DEFAULTS = (8000, 8001, 8002)
"""Triton's own; a node that has one taken gets the next."""


def wanted_ports(triton: TritonSpec) -> tuple[int, int, int]:
    """Return the HTTP, gRPC and metrics port of a first instance; 0: chosen late, a free one."""
    given = (triton.http_port, triton.grpc_port, triton.metrics_port)
    http, grpc, metrics = (
        default if port is None else port for port, default in zip(given, _DEFAULTS, strict=True)
    )
    return http, grpc, metrics
