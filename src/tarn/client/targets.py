"""Where requests can go: the HTTP services of single Tritons, or of a load balancer."""

from urllib.parse import urlsplit

import attrs

from tarn.domain.address import host_port
from tarn.errors import ConfigError

__all__ = ["ServiceAddress", "parse"]

RIGHT = "Expected 'host:port', 'http://host:port' or 'https://host:port/path'"


@attrs.frozen(order=True, cache_hash=True)
class ServiceAddress:
    """One HTTP service; equal only when it is the same instance at the same address."""

    host: str
    port: int
    instance_id: str = ""
    """Empty where no master says it."""
    grpc_port: int | None = None
    path: str = ""
    """Prefix of every path, without slashes at its ends."""
    tls: bool = False

    @property
    def address(self) -> str:
        """``host:port``, the host of IPv6 in brackets."""
        return host_port(self.host, self.port)

    @property
    def grpc_address(self) -> str:
        """``host:port`` of the gRPC service; where nobody says it, of the only one known."""
        return host_port(self.host, self.grpc_port or self.port)

    @property
    def url(self) -> str:
        """The base URL, without a slash at its end."""
        scheme = "https" if self.tls else "http"
        return f"{scheme}://{self.address}/{self.path}".rstrip("/")

    @property
    def name(self) -> str:
        """What errors call it."""
        return f"{self.instance_id} at {self.address}" if self.instance_id else self.address


def parse(text: str) -> ServiceAddress:
    """Read ``host:port`` or a URL.

    Raises:
        ConfigError: It is neither.
    """
    try:
        parts = urlsplit(text if "://" in text else f"http://{text}")
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise ConfigError(f"'{text}' is not an address: {error}", right=RIGHT) from error
    if parts.scheme not in {"http", "https"} or not host or parts.query or parts.fragment:
        raise ConfigError(f"'{text}' is not the address of a Triton", right=RIGHT)
    if parts.username is not None or parts.password is not None:
        raise ConfigError("an address with a user or a password is not supported", right=RIGHT)
    tls = parts.scheme == "https"
    if port is None and "://" not in text:
        raise ConfigError(f"'{text}' has no port", right=RIGHT)
    return ServiceAddress(host, port or (443 if tls else 80), path=parts.path.strip("/"), tls=tls)
