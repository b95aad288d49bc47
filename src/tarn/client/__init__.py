"""Clients of a fleet: tritonclient's API, balanced per request.

::

    with tarn.client.http("http://master:40001", api_token=TOKEN) as client:
        client.infer("ocr", inputs)

A *fleet* is a `tarn.Cluster`; the URL of a master, with its scheme; the ``host:port`` of one
Triton, without a scheme; or a list of Tritons and load balancers, with or without schemes.
"""

import importlib
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import attrs

from tarn.client.targets import ClientOptions, ServiceAddress, parse
from tarn.errors import ConfigError, ProviderMissingError
from tarn.follow import Master, MasterSource, Trust

if TYPE_CHECKING:
    from tarn.client.awaiting import AioClient
    from tarn.client.blocking import HttpClient
    from tarn.client.streaming import GrpcClient

__all__ = ["ClientOptions", "Fleetlike", "Master", "aio", "grpc", "http"]


@runtime_checkable
class HasSource(Protocol):
    """The part of `tarn.Cluster` that this package needs."""

    @property
    def source(self) -> MasterSource:
        """Finds its master."""


Fleetlike = HasSource | MasterSource | str | Iterable[str]


def http(
    fleet: Fleetlike,
    *,
    api_token: str | None = None,
    ca: str | Path | None = None,
    **options: Any,
) -> "HttpClient":
    """Return a client for threads, with the methods of ``tritonclient.http``.

    Args:
        fleet: See the module.
        api_token: The token for a master's URL; None if it asks for none.
        ca: PEM file with the authorities to trust for https addresses: of the master, such as
            ``tls_ca.pem`` of its cluster, or of a list's Tritons and load balancers. None: the
            authorities of the system.
        options: Fields of `ClientOptions`, such as ``wait_s=5`` or ``retry_resets=False``.

    Raises:
        ConfigError: *fleet* or an option is not valid, or *ca* cannot be used, as when no address
            of a list has https.
        ProviderMissingError: tritonclient is not installed.
        TarnError: No master answers there, or it denies access.
    """
    _needs("tritonclient", "geventhttpclient", "numpy", extra="client")
    from tarn.client.blocking import HttpClient  # noqa: PLC0415 (needs an extra)

    targets, source = _resolved(fleet, api_token, ca)
    return HttpClient(targets, source, _options(options, targets, ca))


def aio(
    fleet: Fleetlike,
    *,
    api_token: str | None = None,
    ca: str | Path | None = None,
    **options: Any,
) -> "AioClient":
    """Return a client for asyncio, with the methods of ``tritonclient.http.aio``.

    The parameters are those of `http`. The master is asked when the client is first used.
    """
    _needs("tritonclient", "aiohttp", "geventhttpclient", "numpy", extra="client")
    from tarn.client.awaiting import AioClient  # noqa: PLC0415 (needs an extra)

    targets, source = _resolved(fleet, api_token, ca)
    return AioClient(targets, source, _options(options, targets, ca))


def grpc(
    fleet: Fleetlike,
    *,
    api_token: str | None = None,
    ca: str | Path | None = None,
    **options: Any,
) -> "GrpcClient":
    """Return a client that infers and streams over gRPC, with ``tritonclient.grpc``.

    The parameters are those of `http`; a list has the addresses of gRPC services. Addresses with
    ``https://`` use TLS; without *ca*, gRPC trusts its own list of authorities.
    """
    _needs("tritonclient", "grpc", "numpy", extra="grpc")
    from tarn.client.streaming import GrpcClient  # noqa: PLC0415 (needs an extra)

    targets, source = _resolved(fleet, api_token, ca)
    roots = None
    if targets and ca is not None:
        Trust(Path(ca)).context()  # raises an error that names what is wrong with the file
        roots = Path(ca).read_bytes()
    return GrpcClient(targets, source, _options(options), roots)


def _resolved(
    fleet: Fleetlike, api_token: str | None, ca: str | Path | None
) -> tuple[tuple[ServiceAddress, ...], MasterSource | None]:
    """Return the targets, or the source of a master that knows them."""
    if isinstance(fleet, HasSource):
        return (), fleet.source
    if isinstance(fleet, str) and "://" in fleet:
        trust = Trust(None if ca is None else Path(ca))
        return (), Master(fleet.rstrip("/"), api_token, trust)
    if not isinstance(fleet, str) and not isinstance(fleet, Iterable):
        return (), fleet
    targets = tuple(parse(text) for text in ([fleet] if isinstance(fleet, str) else fleet))
    if not targets:
        raise ConfigError("the list of Tritons is empty")
    if ca is not None and not any(target.tls for target in targets):
        raise ConfigError(
            f"ca is given, but {targets[0].address} is not an https:// address",
            right="Expected an address with https://",
        )
    return targets, None


def _options(
    given: dict[str, Any], targets: tuple[ServiceAddress, ...] = (), ca: str | Path | None = None
) -> ClientOptions:
    """Return the options; *ca* counts for the *targets* of a list unless ``tls`` is given."""
    if targets and ca is not None and given.get("tls") is None:
        given = {**given, "tls": Trust(Path(ca)).context()}
    try:
        return ClientOptions(**given)
    except (TypeError, ValueError) as error:
        names = ", ".join(field.name for field in attrs.fields(ClientOptions))
        raise ConfigError(f"{error}", right=f"A client's options are {names}") from error


def _needs(*modules: str, extra: str) -> None:
    for module in modules:
        try:
            importlib.import_module(module)
        except ImportError as error:
            raise ProviderMissingError(
                "client",
                f"it needs {module}: {ProviderMissingError.reason(module, error)}",
                next_step=f"pip install 'tarn-orchestrator[{extra}]'",
            ) from error
