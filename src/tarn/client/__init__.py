"""Clients of a fleet: tritonclient's API, balanced per request.

::

    with tarn.client.http("http://master:40001", api_token=TOKEN) as client:
        client.infer("ocr", inputs)

A *fleet* is a `tarn.Cluster`; the URL of a master, with its scheme; the ``host:port`` of one
Triton, without; or a list of Tritons and load balancers, with or without.
"""

import importlib
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import attrs

from tarn.client.options import Options
from tarn.client.targets import Target, parse
from tarn.errors import ConfigError, ProviderMissingError
from tarn.follow import Master, Source, Trust

if TYPE_CHECKING:
    from tarn.client.awaiting import AioClient
    from tarn.client.blocking import HttpClient
    from tarn.client.streaming import GrpcClient

__all__ = ["Fleetlike", "Master", "Options", "aio", "grpc", "http"]


@runtime_checkable
class HasSource(Protocol):
    """What a `tarn.Cluster` is to this package."""

    @property
    def source(self) -> Source:
        """Finds its master."""


Fleetlike = HasSource | Source | str | Iterable[str]


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
        api_token: Of the master at a URL; None where it asks for none.
        ca: PEM file by which the master at an https URL is known, as ``tls_ca.pem`` of its cluster;
            None: the authorities of the system.
        options: Fields of `Options`, like ``wait_s=5`` or ``retry_resets=False``.

    Raises:
        ConfigError: *fleet* is no fleet, or an option is none.
        ProviderMissingError: tritonclient is not installed.
        TarnError: No master answers there, or not to this user.
    """
    _needs("tritonclient", "geventhttpclient", "numpy", extra="client")
    from tarn.client.blocking import HttpClient  # noqa: PLC0415 (needs an extra)

    targets, source = _resolved(fleet, api_token, ca)
    return HttpClient(targets, source, _options(options))


def aio(
    fleet: Fleetlike,
    *,
    api_token: str | None = None,
    ca: str | Path | None = None,
    **options: Any,
) -> "AioClient":
    """Return a client for asyncio, with the methods of ``tritonclient.http.aio``.

    The parameters are those of `http`. It asks the master when it is first used.
    """
    _needs("tritonclient", "aiohttp", "geventhttpclient", "numpy", extra="client")
    from tarn.client.awaiting import AioClient  # noqa: PLC0415 (needs an extra)

    targets, source = _resolved(fleet, api_token, ca)
    return AioClient(targets, source, _options(options))


def grpc(
    fleet: Fleetlike,
    *,
    api_token: str | None = None,
    ca: str | Path | None = None,
    **options: Any,
) -> "GrpcClient":
    """Return a client that infers and streams over gRPC, with ``tritonclient.grpc``.

    The parameters are those of `http`; addresses in a list are those of the gRPC services.
    """
    _needs("tritonclient", "grpc", "numpy", extra="grpc")
    from tarn.client.streaming import GrpcClient  # noqa: PLC0415 (needs an extra)

    targets, source = _resolved(fleet, api_token, ca)
    return GrpcClient(targets, source, _options(options))


def _resolved(
    fleet: Fleetlike, api_token: str | None, ca: str | Path | None
) -> tuple[tuple[Target, ...], Source | None]:
    """Return (targets, source): one of them says who serves."""
    if isinstance(fleet, HasSource):
        return (), fleet.source
    if isinstance(fleet, str) and "://" in fleet:
        trust = Trust(None if ca is None else Path(ca))
        return (), Master(fleet.rstrip("/"), api_token, trust)
    if isinstance(fleet, str):
        return (parse(fleet),), None
    if not isinstance(fleet, Iterable):
        return (), fleet
    targets = tuple(parse(text) for text in fleet)
    if not targets:
        raise ConfigError("the list of Tritons is empty")
    return targets, None


def _options(given: dict[str, Any]) -> Options:
    try:
        return Options(**given)
    except (TypeError, ValueError) as error:
        names = ", ".join(field.name for field in attrs.fields(Options))
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
