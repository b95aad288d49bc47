"""The two HTTP ports of a fake Triton, on asyncio. Stdlib only."""

import asyncio
import contextlib
import functools
import json
from collections.abc import Awaitable, Callable, Mapping

from tarn.testing.fake_state import FakeModel, FakeTritonState, metrics_text, part
from tarn.testing.fake_tensors import BadRequest, echo

__all__ = ["FakeServer"]

_TEXTS = {200: "OK", 400: "Bad Request", 404: "Not Found", 405: "Method Not Allowed"}


class FakeResponse:
    """What goes back: a status, a body, and what the head says of it."""

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


_TURNS = 3
"""Turns of the loop until an accepted socket is a connection: asyncio loses those whose listener is
closed before, and their sockets stay open."""


async def _body(reader: asyncio.StreamReader, headers: Mapping[str, str]) -> bytes:
    """Return a request's body, whole or in chunks: gateways send those."""
    if headers.get("transfer-encoding", "").lower() != "chunked":
        return await reader.readexactly(int(headers.get("content-length", "0")))
    body = bytearray()
    while size := int((await reader.readuntil(b"\r\n")).partition(b";")[0], 16):
        body += await reader.readexactly(size)
        await reader.readexactly(2)
    await reader.readexactly(2)
    return bytes(body)


class FakeServer:
    """Serves one `FakeTritonState` on two ports; every method runs on one asyncio loop."""

    def __init__(self, state: FakeTritonState) -> None:
        self.state = state
        self.http_port = self.metrics_port = 0
        self.requests: list[tuple[str, str, bytes]] = []
        """(method, path, body) of what is not a look; the last thousand."""
        self.looks = 0
        """Questions for name, health, index and metrics."""
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
        """Open both ports; 0 finds a free one. ``OSError`` when one is taken."""
        self.http_port = await self._bind(host, http_port, "http", self._route)
        self.metrics_port = await self._bind(host, metrics_port, "metrics", self._metrics)

    async def load(self, model: FakeModel) -> None:
        """Load *model* and wait for it: LOADING for ``load_s``, then READY or UNAVAILABLE."""
        self.state.models.setdefault(model.name, model)
        model.state, model.reason = "LOADING", ""
        await asyncio.sleep(model.load_s)
        if model.error:
            model.state, model.reason = "UNAVAILABLE", model.error
        else:
            model.state = "READY"

    def hang(self) -> None:
        """From now on take everything and answer nothing, like a stopped process."""
        self.state.hanging = True
        self._thawed.clear()

    def thaw(self) -> None:
        """Answer everything again, what came meanwhile too."""
        self.state.hanging = False
        self._thawed.set()

    def http_connections(self) -> int:
        """Return how many HTTP connections are open."""
        return sum(name == "http" for name in self._open.values())

    def drop_connections(self) -> None:
        """End every connection, and go on listening."""
        for writer in tuple(self._open):
            writer.transport.abort()

    async def crash(self) -> None:
        """End like a killed process: every socket closes; nothing listens when this returns."""
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
        """End like a Triton that got SIGTERM; False when *timeout_s* passed before all was done.

        New connections are taken and closed without an answer, requests in work end, and each
        open HTTP connection is waited for, an idle one too.
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
        """How many inferences wait or execute: what no Triton tells."""
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
            """Note the connection before anything can be cancelled, so that it is closed."""
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
                if serving
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
        """Change some settings, and answer all; null unsets one, as for Triton's trace settings."""
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
        """Answer at once, unload once the last request in it ended: so does Triton."""
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
