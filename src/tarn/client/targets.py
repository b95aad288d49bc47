"""The addresses of services, and the options of a client."""

import ssl
from urllib.parse import urlsplit

import attrs

from tarn.domain.endpoint import host_port
from tarn.errors import ConfigError

__all__ = ["ClientOptions", "ServiceAddress", "parse"]


def _positive(_self: object, attribute: "attrs.Attribute[float]", value: float) -> None:
    if not value > 0:
        raise ValueError(f"{attribute.name} = {value} is not above 0")


@attrs.frozen
class ClientOptions:
    """The options of a client; every time is in seconds."""

    wait_s: float = attrs.field(default=30.0, validator=attrs.validators.ge(0))
    """How long a call waits for an instance to be ready or reachable."""
    connect_within_s: float = attrs.field(default=2.0, validator=_positive)
    """How long one attempt to connect may take; a host without power does not answer at all."""
    answer_within_s: float = attrs.field(default=60.0, validator=_positive)
    """How long a call waits for the next byte of its answer; tritonclient's default."""
    control_within_s: float = attrs.field(default=900.0, validator=_positive)
    """How long all instances in the view may take for a control call, such as loading a model."""
    retry_resets: bool = True
    """Whether an inference that was cut is sent again; it may then be executed twice."""
    tls: ssl.SSLContext | None = attrs.field(default=None, repr=False)
    """The context for https addresses; None for the system's certificates."""


RIGHT = "Expected 'host:port', 'http://host:port' or 'https://host:port/path'"


@attrs.frozen(order=True, cache_hash=True)
class ServiceAddress:
    """One HTTP service; equal only if it is the same instance at the same address."""

    host: str
    port: int
    instance_id: str = ""
    """Empty without a master."""
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
        """``host:port`` of the gRPC service; without `grpc_port`, the same as `address`."""
        return host_port(self.host, self.grpc_port or self.port)

    @property
    def url(self) -> str:
        """The base URL, without a slash at its end."""
        scheme = "https" if self.tls else "http"
        return f"{scheme}://{self.address}/{self.path}".rstrip("/")

    @property
    def name(self) -> str:
        """Its name in error texts."""
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
