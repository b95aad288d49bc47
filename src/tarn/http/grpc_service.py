"""Triton's gRPC service for the management requests of the fleet.

Each method becomes the HTTP request that asks the same, and passes through the whole application:
so identity, rights and limits are those of any route. Needs ``grpcio`` and Triton's messages, which
``tritonclient[grpc]`` brings. It listens from when a load balancer first asks for the port, since
importing them takes half a second and 40 MiB.
"""

import asyncio
import base64
import importlib
import json
import logging
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import attrs
from starlette.types import ASGIApp, Message

from tarn.domain.endpoint import host_port

__all__ = ["METHODS", "GrpcListener", "GrpcMethod"]

_LOG = logging.getLogger(__name__)

SERVICE = "inference.GRPCInferenceService"
# A load that brings files; more is refused by the application anyway.
LONGEST_MESSAGE = 1 << 20
# Requests at one time; more are refused.
MOST_AT_ONCE = 128
LONGEST_METADATA = 16 * 1024
# A connection without a request is closed after this time.
IDLE_MS = 60_000
CLOSE_WITHIN_S = 0.5
LACKS = "the master has no tritonclient[grpc]: pip install 'tarn-orchestrator[grpc]'"

_OK, _BAD_REQUEST = 200, 400
# Measured on Triton 2.51, which answers the same errors over both protocols.
_CODES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    409: "FAILED_PRECONDITION",
    413: "RESOURCE_EXHAUSTED",
    429: "RESOURCE_EXHAUSTED",
    503: "UNAVAILABLE",
}

Json = dict[str, Any]


@attrs.frozen
class GrpcMethod:
    """How a method of the service is asked over HTTP, and its answer is told."""

    name: str
    """Of the method; its messages are called ``<name>Request`` and ``<name>Response``."""
    ask: Callable[[Any], tuple[str, str, Json]]
    """Returns (HTTP method, path, body) for a request message."""
    tell: Callable[[int, Any], Json] = lambda _status, body: dict(body or {})
    """Returns the fields of the response message, from the HTTP status and body."""


def _model(asked: Any, below: str = "") -> str:
    version = f"/versions/{quote(asked.version, safe='')}" if asked.version else ""
    return f"/v2/models/{quote(asked.name, safe='')}{version}{below}"


def _statistics(asked: Any) -> tuple[str, str, Json]:
    return "GET", _model(asked, "/stats") if asked.name else "/v2/models/stats", {}


def _repository(verb: str) -> Callable[[Any], tuple[str, str, Json]]:
    def ask(asked: Any) -> tuple[str, str, Json]:
        path = f"/v2/repository/models/{quote(asked.model_name, safe='')}/{verb}"
        return "POST", path, {"parameters": dict(_parameters(asked))}

    return ask


def _parameters(asked: Any) -> Iterable[tuple[str, object]]:
    for name, one in asked.parameters.items():
        kind = one.WhichOneof("parameter_choice")
        value = getattr(one, kind) if kind else None
        if isinstance(value, bytes):  # a file; over HTTP it is base64
            value = base64.b64encode(value).decode()
        yield name, value


def _trace(asked: Any) -> tuple[str, str, Json]:
    of_model = f"/v2/models/{quote(asked.model_name, safe='')}" if asked.model_name else "/v2"
    settings = {name: _trace_value(one) for name, one in asked.settings.items()}
    return "POST" if settings else "GET", f"{of_model}/trace/setting", settings


def _trace_value(one: Any) -> object:
    values = list(one.value)
    if not values:
        return None  # restores the server's value
    return values if len(values) > 1 else values[0]


def _log(asked: Any) -> tuple[str, str, Json]:
    settings = {
        name: getattr(one, one.WhichOneof("parameter_choice"))
        for name, one in asked.settings.items()
        if one.WhichOneof("parameter_choice")
    }
    return "POST" if settings else "GET", "/v2/logging", settings


def _trace_fields(_status: int, body: Any) -> Json:
    return {
        "settings": {
            name: {"value": value if isinstance(value, list) else [str(value)]}
            for name, value in (body or {}).items()
        }
    }


def _log_fields(_status: int, body: Any) -> Json:
    def field(value: object) -> Json:
        if isinstance(value, bool):
            return {"bool_param": value}
        whole = isinstance(value, int) and value >= 0
        return {"uint32_param": value} if whole else {"string_param": str(value)}

    return {"settings": {name: field(value) for name, value in (body or {}).items()}}


def _regions(family: str, verb: str = "status") -> Callable[[Any], tuple[str, str, Json]]:
    def ask(asked: Any) -> tuple[str, str, Json]:
        region = f"/region/{quote(asked.name, safe='')}" if asked.name else ""
        path = f"/v2/{family}sharedmemory{region}/{verb}"
        if verb != "register":
            return "GET" if verb == "status" else "POST", path, {}
        if family == "system":
            body = {"key": asked.key, "offset": asked.offset}
        else:
            handle = base64.b64encode(asked.raw_handle).decode()
            body = {"raw_handle": {"b64": handle}, "device_id": asked.device_id}
        return "POST", path, {**body, "byte_size": asked.byte_size}

    return ask


def _region_fields(_status: int, body: Any) -> Json:
    return {"regions": {row["name"]: row for row in body or ()}}


METHODS = (
    GrpcMethod("ServerMetadata", lambda _asked: ("GET", "/v2", {})),
    GrpcMethod(
        "ModelReady",
        lambda asked: ("GET", _model(asked, "/ready"), {}),
        lambda status, _body: {"ready": status == _OK},
    ),
    GrpcMethod("ModelMetadata", lambda asked: ("GET", _model(asked), {})),
    GrpcMethod(
        "ModelConfig",
        lambda asked: ("GET", _model(asked, "/config"), {}),
        lambda _status, body: {"config": body},
    ),
    GrpcMethod("ModelStatistics", _statistics),
    GrpcMethod(
        "RepositoryIndex",
        lambda asked: ("POST", "/v2/repository/index", {"ready": bool(asked.ready)}),
        lambda _status, body: {"models": body},
    ),
    GrpcMethod("RepositoryModelLoad", _repository("load"), lambda _status, _body: {}),
    GrpcMethod("RepositoryModelUnload", _repository("unload"), lambda _status, _body: {}),
    GrpcMethod("TraceSetting", _trace, _trace_fields),
    GrpcMethod("LogSettings", _log, _log_fields),
    *(
        GrpcMethod(f"{family.title()}SharedMemory{verb.title()}", _regions(family, verb))
        for family in ("system", "cuda")
        for verb in ("register", "unregister")
    ),
    GrpcMethod("SystemSharedMemoryStatus", _regions("system"), _region_fields),
    GrpcMethod("CudaSharedMemoryStatus", _regions("cuda"), _region_fields),
)


class GrpcListener:
    """Serves gRPC on the event loop of the HTTP application.

    Args:
        host: The address to listen on.
        port: 0 for a free one.
        prefix: The path below which the application answers as Triton does.
        proof: PEM file with the key and the certificate of the master; None: no TLS.
    """

    def __init__(
        self, host: str, port: int = 0, *, prefix: str = "/triton", proof: Path | None = None
    ) -> None:
        self._host, self._wanted, self._prefix, self._proof = host, port, prefix, proof
        self._app: ASGIApp | None = None
        self._server: Any = None
        self._port = 0
        self._lock = asyncio.Lock()
        self.lack = ""
        """Why it does not listen; empty: it does, or nobody asked yet."""

    def bind(self, app: ASGIApp) -> None:
        """Answer by *app* from now on. Event loop only."""
        self._app = app

    async def port(self) -> int:
        """Listen if that has not begun, and return the port; 0: see `lack`."""
        async with self._lock:
            if not self._port and not self.lack:
                try:
                    self._port = await self._listen()
                except ImportError:
                    self.lack = LACKS
                except (OSError, RuntimeError) as error:
                    self.lack = f"the master cannot listen for gRPC at {self._host}: {error}"
                if self.lack:
                    _LOG.warning("no gRPC: %s", self.lack)
        return self._port

    async def close(self) -> None:
        """End the service. Event loop only, idempotent."""
        server, self._server, self._port = self._server, None, 0
        if server is not None:
            await server.stop(CLOSE_WITHIN_S)

    async def _listen(self) -> int:
        grpc, messages, as_json = await asyncio.to_thread(_imported)
        calls = _Calls(self, grpc, messages, as_json)
        options = [
            ("grpc.max_receive_message_length", LONGEST_MESSAGE),
            ("grpc.max_metadata_size", LONGEST_METADATA),
            ("grpc.max_concurrent_streams", MOST_AT_ONCE),
            ("grpc.max_connection_idle_ms", IDLE_MS),
            ("grpc.so_reuseport", 0),
        ]
        server = grpc.aio.server(options=options, maximum_concurrent_rpcs=MOST_AT_ONCE)
        server.add_generic_rpc_handlers((calls.handler(),))
        where = host_port(self._host, self._wanted)
        if self._proof is None:
            port = server.add_insecure_port(where)
        else:
            pem = await asyncio.to_thread(self._proof.read_bytes)
            port = server.add_secure_port(where, grpc.ssl_server_credentials([(pem, pem)]))
        await server.start()
        self._server = server
        return int(port)

    async def asked(self, scope: Json, body: bytes) -> tuple[int, bytes]:
        """Return status and body of the application's answer to an HTTP request."""
        assert self._app is not None
        sent, status, parts = False, 500, []

        async def receive() -> Message:
            nonlocal sent
            if sent:
                return {"type": "http.disconnect"}
            sent = True
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            else:
                parts.append(message.get("body", b""))

        full = {**scope, "path": self._prefix + scope["path"], "root_path": ""}
        full["raw_path"] = full["path"].encode()
        tls = {"extensions": {"tls": {"client_cert_name": None}}} if self._proof else {}
        server = (self._host, self._port)
        scheme = "https" if self._proof else "http"
        await self._app({**full, **tls, "server": server, "scheme": scheme}, receive, send)
        return status, b"".join(parts)


def _imported() -> tuple[Any, Any, Any]:
    grpc = importlib.import_module("grpc")
    importlib.import_module("grpc.aio")
    messages = importlib.import_module("tritonclient.grpc.service_pb2")
    return grpc, messages, importlib.import_module("google.protobuf.json_format")


@attrs.frozen
class _Calls:
    """The methods, as grpcio calls them."""

    listener: GrpcListener
    grpc: Any
    messages: Any
    as_json: Any

    def handler(self) -> Any:
        """Return the handler of the service."""
        return self.grpc.method_handlers_generic_handler(
            SERVICE, {method.name: self._handler(method) for method in METHODS}
        )

    def _handler(self, method: GrpcMethod) -> Any:
        request = getattr(self.messages, f"{method.name}Request")
        response = getattr(self.messages, f"{method.name}Response")

        async def call(asked: Any, context: Any) -> Any:
            return await self._call(method, asked, context, response)

        return self.grpc.unary_unary_rpc_method_handler(
            call, request_deserializer=request.FromString, response_serializer=_bytes
        )

    async def _call(self, method: GrpcMethod, asked: Any, context: Any, response: Any) -> Any:
        verb, path, body = method.ask(asked)
        raw = json.dumps(body).encode() if verb == "POST" else b""
        status, said = await self.listener.asked(_scope(verb, path, context), raw)
        answer = json.loads(said) if said.strip() else None
        not_ready = method.name == "ModelReady" and status == _BAD_REQUEST
        if status != _OK and not not_ready:
            error = answer.get("error", "") if isinstance(answer, Mapping) else ""
            code = getattr(self.grpc.StatusCode, _CODES.get(status, "INTERNAL"))
            await context.abort(code, str(error))
        fields = method.tell(status, answer)
        return self.as_json.ParseDict(fields, response(), ignore_unknown_fields=True)


def _bytes(message: Any) -> bytes:
    return bytes(message.SerializeToString())


def _scope(verb: str, path: str, context: Any) -> Json:
    """Return the HTTP request, with the proofs in the metadata as headers."""
    peer = str(context.peer()).partition(":")[2].replace("%5B", "[").replace("%5D", "]")
    address, _, port = peer.rpartition(":")
    headers = [
        (name.lower().encode("latin-1"), value.encode("latin-1", "replace"))
        for name, value in context.invocation_metadata() or ()
        if isinstance(value, str) and not name.startswith(":")
    ]
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "2",
        "method": verb,
        "path": path,
        "query_string": b"",
        "headers": headers,
        "client": (address.strip("[]"), int(port) if port.isdecimal() else 0),
    }
