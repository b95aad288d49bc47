"""The two HTTP ports of a fake Triton, on asyncio. Stdlib only."""

import asyncio
import contextlib
import functools
import json
import struct
from collections.abc import Awaitable, Callable, Mapping

from tarn.testing.fake_state import FakeModel, FakeTritonState, metrics_text, part

__all__ = ["BadRequest", "FakeServer", "echo"]

_CODES = {
    "BOOL": "?",
    "UINT8": "B",
    "UINT16": "H",
    "UINT32": "I",
    "UINT64": "Q",
    "INT8": "b",
    "INT16": "h",
    "INT32": "i",
    "INT64": "q",
    "FP16": "e",
    "FP32": "f",
    "FP64": "d",
}

_Json = dict[str, object]


class BadRequest(ValueError):  # noqa: N818 (the client's fault, answered with 400)
    """The request is not valid; the text is the answer's ``error``."""

    def __init__(self, status: int, text: str) -> None:
        self.status = status
        super().__init__(text)


def echo(model: str, body: bytes, json_length: int | None) -> tuple[bytes, int | None]:
    """Return the body of the answer, and the length of its JSON part if binary data follows.

    Each input comes back as an output of the same type, shape and data: ``IN`` as ``OUT``,
    ``INPUT0`` as ``OUTPUT0``, any other under its own name. Binary data
    (``Inference-Header-Content-Length``) is understood, and given when the request asks for it.

    Raises:
        BadRequest: *body* is not an inference request.
    """
    head, tail = (body, b"") if json_length is None else (body[:json_length], body[json_length:])
    asked, inputs = _parsed(head)
    outputs, blobs = [], []
    try:
        for tensor in inputs:
            raw = _raw_size(tensor)
            blob, tail = tail[:raw], tail[raw:]
            output, blob = _answer(asked, tensor, blob if raw else None)
            outputs.append(output)
            blobs.append(blob)
    except (KeyError, TypeError, ValueError, AttributeError, struct.error) as error:
        raise BadRequest(400, f"an input cannot be read: {error!r}") from error
    answer: _Json = {"model_name": model, "model_version": "1", "outputs": outputs}
    if "id" in asked:
        answer = {"id": asked["id"], **answer}
    text = json.dumps(answer, separators=(",", ":")).encode()
    data = b"".join(blobs)
    return text + data, len(text) if data else None


def _parsed(head: bytes) -> tuple[_Json, list[_Json]]:
    try:
        asked = json.loads(head)
    except ValueError as error:
        text = f"failed to parse the request JSON buffer: {error}"
        raise BadRequest(500, text) from error  # 500, as Triton 2.51 answers
    inputs = asked.get("inputs") if isinstance(asked, dict) else None
    if not isinstance(inputs, list):
        raise BadRequest(500, "Unable to parse 'inputs': not an array")
    return asked, inputs


def _answer(asked: _Json, tensor: _Json, blob: bytes | None) -> tuple[_Json, bytes]:
    name, datatype = str(tensor["name"]), str(tensor["datatype"])
    if name.startswith("IN"):
        name = name.replace("INPUT", "OUTPUT", 1) if name.startswith("INPUT") else "OUT" + name[2:]
    output: _Json = {"name": name, "datatype": datatype, "shape": tensor["shape"]}
    if _wants_binary(asked, name):
        data = blob if blob is not None else _encode(datatype, _flat(tensor["data"]))
        output["parameters"] = {"binary_data_size": len(data)}
        return output, data
    output["data"] = _flat(tensor["data"]) if blob is None else _decode(datatype, blob)
    return output, b""


def _wants_binary(asked: _Json, name: str) -> bool:
    for output in asked.get("outputs") or ():  # type: ignore[attr-defined]
        if output["name"] == name:
            return bool(output.get("parameters", {}).get("binary_data", False))
    parameters = asked.get("parameters") or {}
    return isinstance(parameters, dict) and bool(parameters.get("binary_data_output", False))


def _raw_size(tensor: _Json) -> int:
    parameters = tensor.get("parameters") or {}
    return int(parameters.get("binary_data_size", 0)) if isinstance(parameters, dict) else 0


def _flat(data: object) -> list[object]:
    if not isinstance(data, list):
        return [data]
    return [leaf for part in data for leaf in _flat(part)]


def _encode(datatype: str, values: list[object]) -> bytes:
    if datatype == "BYTES":
        texts = [str(value).encode() for value in values]
        return b"".join(struct.pack("<I", len(text)) + text for text in texts)
    return struct.pack(f"<{len(values)}{_CODES[datatype]}", *values)


def _decode(datatype: str, blob: bytes) -> list[object]:
    if datatype != "BYTES":
        code = _CODES[datatype]
        return list(struct.unpack(f"<{len(blob) // struct.calcsize(code)}{code}", blob))
    texts: list[object] = []
    while blob:
        (size,) = struct.unpack_from("<I", blob)
        texts.append(blob[4 : 4 + size].decode())
        blob = blob[4 + size :]
    return texts


_TEXTS = {200: "OK", 400: "Bad Request", 404: "Not Found", 405: "Method Not Allowed"}


class FakeResponse:
    """A response: a status, a body, and its description in the headers."""

    def __init__(
        self,
        status: int,
        body: bytes = b"",
        kind: str = "text/plain",
        json_length: int | None = None,
    ) -> None:
        self.status, self.body, self.kind, self.json_length = status, body, kind, json_length

    def render(self, *, chunked: bool) -> bytes:
        """Return the bytes on the wire."""
        head = f"HTTP/1.1 {self.status} {_TEXTS.get(self.status, 'Error')}\r\n"
        head += f"Content-Type: {self.kind}\r\n"
        if self.json_length is not None:
            head += f"Inference-Header-Content-Length: {self.json_length}\r\n"
        if not chunked:
            return f"{head}Content-Length: {len(self.body)}\r\n\r\n".encode() + self.body
        half = len(self.body) // 2
        parts = [part for part in (self.body[:half], self.body[half:]) if part]
        chunks = b"".join(f"{len(part):x}\r\n".encode() + part + b"\r\n" for part in parts)
        return f"{head}Transfer-Encoding: chunked\r\n\r\n".encode() + chunks + b"0\r\n\r\n"


_NOT_FOUND = FakeResponse(404, b'{"error":"Not Found"}')


# Turns of the loop until an accepted socket is a connection. If its listener is closed earlier,
# asyncio loses the socket, which stays open.
_TURNS = 3


async def _body(reader: asyncio.StreamReader, headers: Mapping[str, str]) -> bytes:
    """Return a request's body; gateways send it in chunks."""
    if headers.get("transfer-encoding", "").lower() != "chunked":
        return await reader.readexactly(int(headers.get("content-length", "0")))
    body = bytearray()
    while size := int((await reader.readuntil(b"\r\n")).partition(b";")[0], 16):
        body += await reader.readexactly(size)
        await reader.readexactly(2)
    await reader.readexactly(2)
    return bytes(body)


class FakeServer:
    """Serves one `FakeTritonState` on two ports; all methods run on one asyncio loop."""

    def __init__(self, state: FakeTritonState) -> None:
        self.state = state
        self.http_port = self.metrics_port = 0
        self.requests: list[tuple[str, str, bytes]] = []
        """(method, path, body) of the last thousand requests that are not in `looks`."""
        self.looks = 0
        """Number of requests for name, health, index and metrics."""
        self._listeners: list[asyncio.Server] = []
        self._open: dict[asyncio.StreamWriter, str] = {}
        self._busy: set[asyncio.Task[None]] = set()
        self._slots: dict[str, asyncio.Semaphore] = {}
        self._loads: set[asyncio.Task[None]] = set()
        self._thawed = asyncio.Event()
        self._one_ended = asyncio.Event()

    async def listen(
        self, host: str = "127.0.0.1", http_port: int = 0, metrics_port: int = 0
    ) -> None:
        """Open both ports; 0 finds a free one. Raises ``OSError`` if one is taken."""
        self.http_port = await self._bind(host, http_port, "http", self._route)
        self.metrics_port = await self._bind(host, metrics_port, "metrics", self._metrics)

    async def load(self, model: FakeModel) -> None:
        """Load *model*: it is LOADING for ``load_s``, then READY or UNAVAILABLE."""
        self.state.models.setdefault(model.name, model)
        model.state, model.reason = "LOADING", ""
        await asyncio.sleep(model.load_s)
        if model.error:
            model.state, model.reason = "UNAVAILABLE", model.error
        else:
            model.state = "READY"

    def hang(self) -> None:
        """Accept requests, but do not answer them, like a stopped process."""
        self.state.hanging = True
        self._thawed.clear()

    def thaw(self) -> None:
        """Answer again, also the requests that came meanwhile."""
        self.state.hanging = False
        self._thawed.set()

    def http_connections(self) -> int:
        """Return the number of open HTTP connections."""
        return sum(name == "http" for name in self._open.values())

    def drop_connections(self) -> None:
        """End every connection, but continue to listen."""
        for writer in tuple(self._open):
            writer.transport.abort()

    async def crash(self) -> None:
        """End like a killed process: every socket is closed when this returns."""
        loop = asyncio.get_running_loop()
        for listener in self._listeners:
            for sock in listener.sockets:
                loop.remove_reader(sock.fileno())
        for _ in range(_TURNS):
            await asyncio.sleep(0)
        for listener in self._listeners:
            listener.close()
        self.drop_connections()
        for task in (*self._busy, *self._loads):
            task.cancel()

    async def exit(self, timeout_s: float, *, waits_for_connections: bool = True) -> bool:
        """End like a Triton after SIGTERM; return False if *timeout_s* was too short.

        New connections are closed without an answer, requests in progress are finished, and every
        open HTTP connection is waited for, even an idle one.
        """
        self.state.exiting = True
        loop = asyncio.get_running_loop()
        end_s = loop.time() + timeout_s
        while self.executing or (waits_for_connections and self.http_connections()):
            if loop.time() >= end_s:
                return False
            await asyncio.sleep(0.02)
        return True

    @property
    def executing(self) -> int:
        """The number of inferences that wait or execute, which a real Triton does not tell."""
        return sum(model.pending + model.executing for model in self.state.models.values())

    # -- wire --------------------------------------------------------------------------------

    async def _bind(
        self, host: str, port: int, name: str, route: "Callable[..., Awaitable[FakeResponse]]"
    ) -> int:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
                while await self._one(reader, writer, route):
                    pass

        def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            # before any task can be cancelled, so that the connection is always closed
            if name == "http" and self.state.exiting:
                writer.transport.abort()
                return
            self._open[writer] = name
            task = asyncio.get_running_loop().create_task(serve(reader, writer))
            self._busy.add(task)
            task.add_done_callback(functools.partial(self._served, writer))

        listener = await asyncio.start_server(take, host, port, backlog=128)
        self._listeners.append(listener)
        return int(listener.sockets[0].getsockname()[1])

    def _served(self, writer: asyncio.StreamWriter, task: asyncio.Task[None]) -> None:
        self._busy.discard(task)
        self._open.pop(writer, None)
        writer.close()

    async def _one(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        route: "Callable[..., Awaitable[FakeResponse]]",
    ) -> bool:
        head = await reader.readuntil(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        method, path, _ = first.split(" ", 2)
        pairs = (line.partition(":") for line in lines if line)
        headers = {key.strip().lower(): value.strip() for key, _, value in pairs}
        body = await _body(reader, headers)
        if self.state.hanging:
            await self._thawed.wait()
        if self.state.delay_s:
            await asyncio.sleep(self.state.delay_s)
        answer = await route(method, path, headers, body)
        text = answer.render(chunked=self.state.chunked)
        writer.write(text if self.state.garbage is None else self.state.garbage)
        await writer.drain()
        return headers.get("connection", "").lower() != "close"

    # -- routes ------------------------------------------------------------------------------

    async def _metrics(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes
    ) -> FakeResponse:
        if path != "/metrics":
            return FakeResponse(404)
        self.looks += 1
        text = self.state.metrics if self.state.metrics is not None else metrics_text(self.state)
        return FakeResponse(200, text, "text/plain; charset=utf-8")

    async def _route(  # noqa: PLR0911 (one for each part of its API)
        self, method: str, path: str, headers: Mapping[str, str], body: bytes
    ) -> FakeResponse:
        parts = path.partition("?")[0].strip("/").split("/")
        name, value = self.state.restricted.get(part(parts), ("", ""))
        if name and headers.get(name) != value:
            return _error(403, f"This API is restricted, expecting header '{name}'", "text/plain")
        looked = self._look(parts)
        if looked is not None:
            self.looks += 1
            return looked
        self.requests = [*self.requests[-999:], (method, path, body)]
        match parts:
            case ["v2", "models", "stats"]:
                return _json({"model_stats": [m.stats() for m in self.state.models.values()]})
            case ["v2", "logging"] | ["v2", "trace", "setting"]:
                return self._settings("", parts[1], body)
            case ["v2", "models", name, "trace", "setting"]:
                return self._settings(name, "trace", body)
            case ["v2", "models", name, *rest]:
                return await self._model(name, rest, headers, body)
            case ["v2", "repository", "models", name, "load" | "unload" as verb]:
                return await self._change(name, verb)
        return _NOT_FOUND

    def _look(self, parts: list[str]) -> FakeResponse | None:
        match parts:
            case ["v2", "health", "live" | "ready" as what]:
                good = self.state.live if what == "live" else self.state.is_ready
                return FakeResponse(200 if good else 400)
            case ["v2"]:
                return _json(_server(self.state))
            case ["v2", "repository", "index"]:
                return _json([model.index() for model in self.state.models.values()])
        return None

    async def _model(
        self, name: str, rest: list[str], headers: Mapping[str, str], body: bytes
    ) -> FakeResponse:
        model = self.state.models.get(name)
        what = "/".join(rest[2:] if rest[:1] == ["versions"] else rest)
        serving = model is not None and model.state == "READY"
        if what == "ready":
            return (
                FakeResponse(200)
                if self.state.is_model_ready(name)
                else FakeResponse(400, b'{"error":"Model version not ready"}')
            )
        if model is None or not serving:
            why = "is not found" if model is None else "has no available versions"
            kind = "text/plain" if what == "infer" else "application/json"  # seen on 2.51
            return _error(404, f"Request for unknown model: '{name}' {why}", kind)
        if what == "infer":
            return await self._infer(model, headers, body)
        told = {"": model.metadata, "config": model.config, "stats": model.stats_answer}
        return _json(told[what]()) if what in told else _NOT_FOUND

    async def _infer(
        self, model: FakeModel, headers: Mapping[str, str], body: bytes
    ) -> FakeResponse:
        loop = asyncio.get_running_loop()
        length = headers.get("inference-header-content-length")
        slots = self._slots.setdefault(model.name, asyncio.Semaphore(model.instances))
        model.pending += 1
        asked_s = loop.time()
        try:
            await slots.acquire()
        finally:
            model.pending -= 1
        model.executing += 1
        began_s = loop.time()
        try:
            if model.latency_s:
                await asyncio.sleep(model.latency_s)
            text, json_length = echo(model.name, body, int(length) if length else None)
        except BadRequest as error:
            model.failures["OTHER"] += 1
            return _error(error.status, str(error))
        finally:
            model.executing -= 1
            slots.release()
            self._one_ended.set()
        model.succeeded(began_s - asked_s, loop.time() - began_s)
        kind = "application/json" if json_length is None else "application/octet-stream"
        return FakeResponse(200, text, kind, json_length)

    def _settings(self, name: str, kind: str, body: bytes) -> FakeResponse:
        """Change some settings and return all; null removes one, as in Triton's trace settings."""
        if name and name not in self.state.models:
            return _error(400, f"Request for unknown model : {name}")
        trace = self.state.trace_settings.setdefault(name, {})
        kept = trace if kind == "trace" else self.state.log_settings
        kept.update(json.loads(body or b"{}"))
        for unset in [setting for setting, value in kept.items() if value is None]:
            del kept[unset]
        return _json(kept)

    async def _change(self, name: str, verb: str) -> FakeResponse:
        model = self.state.models.get(name)
        if model is None and verb == "load":
            return _error(500, f"failed to load '{name}', failed to poll from model repository")
        if model is None:
            return _json(None)
        if verb == "load":
            await self.load(model)
            failed = f"load failed for model '{name}': {model.error}"
            return _error(400, failed) if model.error else _json(None)
        model.state, model.reason = "UNLOADING", ""
        task = asyncio.get_running_loop().create_task(self._unload(model))
        self._loads.add(task)
        task.add_done_callback(self._loads.discard)
        return _json(None)

    async def _unload(self, model: FakeModel) -> None:
        # Triton answers at once, and unloads the model after its last request
        while model.pending or model.executing:
            self._one_ended.clear()
            await self._one_ended.wait()
        model.state, model.reason = "UNAVAILABLE", "unloaded"


def _server(state: FakeTritonState) -> dict[str, object]:
    extensions = ["model_repository", "model_configuration", "binary_tensor_data", "statistics"]
    return {"name": state.server_id, "version": state.version, "extensions": extensions}


def _json(value: object, status: int = 200) -> FakeResponse:
    body = b"" if value is None else json.dumps(value, separators=(",", ":")).encode()
    return FakeResponse(status, body, "application/json")


def _error(status: int, text: str, kind: str = "application/json") -> FakeResponse:
    return FakeResponse(status, _json({"error": text}).body, kind)
