"""A programmable fake Triton, for use in this process, in a fleet, or as a program.

In a test::

    with FakeTriton("ocr") as triton:
        ...  # triton.endpoint is a tarn.domain.Endpoint on 127.0.0.1
        triton.hang()          # takes connections, never answers
        triton.crash()         # both ports end at once, as after kill -9

As a program that takes tritonserver's options, so that a runtime can start it instead::

    python -m tarn.testing.fake_triton --model-repository DIR --http-port 8000 --metrics-port 8002

Other options (``--name value`` or ``--name=value``): ``--grpc-port``, ``--http-address``,
``--grpc-address``, ``--metrics-address``, ``--exit-timeout-secs``, ``--exit-on-error``,
``--model-control-mode``, ``--load-model``, ``--http-restricted-api``; the rest is ignored.
``--model-repository`` may be repeated. The program behaves as ``fake.json`` in a model's directory
says: ``{"latency_s": 0.1, "instances": 1, "load_s": 2, "error": "why it does not load", "crash":
"why the server ends"}``; or as the environment says for all models: ``FAKE_TRITON_LOAD_S``,
``FAKE_TRITON_LATENCY_S``, ``FAKE_TRITON_CRASH`` (the text of the error line),
``FAKE_TRITON_EXIT_CODE`` (1), ``FAKE_TRITON_CRASH_AFTER_S`` (seconds of service before it ends).

The fake behaves as Triton 2.51 was seen
to: it listens only after its models are loaded, counts a request when it ends, does not report what
executes, and after SIGTERM waits for open HTTP connections. Stdlib only.
"""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar

from tarn.testing.fake_http import FakeServer
from tarn.testing.fake_state import FakeModel, FakeTritonState

if TYPE_CHECKING:
    from tarn.domain import Endpoint
import json
import os
import signal
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

__all__ = ["FakeModel", "FakeTriton", "main", "options"]


def options(argv: list[str]) -> dict[str, list[str]]:
    """Return each option's values in order; ``true`` for an option without a value."""
    found: dict[str, list[str]] = {}
    words = list(argv)
    while words:
        word = words.pop(0)
        if not word.startswith("--"):
            continue
        name, equals, value = word[2:].partition("=")
        if not equals:
            value = words.pop(0) if words and not words[0].startswith("--") else "true"
        found.setdefault(name, []).append(value)
    return found


def main() -> NoReturn:
    """Serve until SIGTERM; exit with 0 if everything ended in time, else 1, like Triton."""
    environ = os.environ  # noqa: TID251 (a program of its own, and stdlib only)
    sys.exit(asyncio.run(_serve(options(sys.argv[1:]), environ)))


async def _serve(given: Mapping[str, list[str]], environ: Mapping[str, str]) -> int:
    models, crash = _models(given, environ)
    state = FakeTritonState(models)
    state.server_id = given.get("id", [state.server_id])[-1]
    state.restricted = _restricted(given.get("http-restricted-api", []))
    server = FakeServer(state)
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    await asyncio.gather(*(_load(server, model) for model in models))
    bad = [model for model in models if model.error]
    if bad and given.get("exit-on-error", ["true"])[-1].lower() not in ("false", "0"):
        crash = crash or "failed to load all models"
    if crash:
        _log("E", "main.cc:535", f"error: creating server: Internal - {crash}")
        return int(environ.get("FAKE_TRITON_EXIT_CODE", "1"))
    if not await _listen(server, given):
        return 1
    if after_s := float(environ.get("FAKE_TRITON_CRASH_AFTER_S", "0")):
        loop.call_later(after_s, os.kill, os.getpid(), signal.SIGKILL)
    await ended.wait()
    return await _exit(server, float(given.get("exit-timeout-secs", ["30"])[-1]))


def _restricted(groups: list[str]) -> dict[str, tuple[str, str]]:
    """Return the header that opens each part, from values like ``logging,trace:name=value``."""
    found: dict[str, tuple[str, str]] = {}
    for group in groups:
        parts, _, setting = group.partition(":")
        name, _, value = setting.partition("=")
        found |= dict.fromkeys(parts.split(","), (name.lower(), value))
    return found


async def _exit(server: FakeServer, timeout_s: float) -> int:
    sys.stderr.write("Signal (15) received.\n")
    _log("I", "server.cc:305", "Waiting for in-flight requests to complete.")
    clean = await server.exit(timeout_s)
    if not clean:
        text = "failed to stop server: Internal - Exit timeout expired. Exiting immediately."
        _log("E", "main.cc:535", text)
    await server.crash()
    return 0 if clean else 1


async def _load(server: FakeServer, model: FakeModel) -> None:
    _log("I", "model_lifecycle.cc:472", f"loading: {model.name}:1")
    await server.load(model)
    if model.error:
        text = f"failed to load '{model.name}' version 1: {model.error}"
        _log("E", "model_lifecycle.cc:642", text)
    else:
        _log("I", "model_lifecycle.cc:839", f"successfully loaded '{model.name}'")


async def _listen(server: FakeServer, given: Mapping[str, list[str]]) -> bool:
    address = given.get("http-address", ["0.0.0.0"])[-1]  # noqa: S104 (Triton's default)
    host = address.removeprefix("ipv6:")  # as Triton's HTTP servers want an address of IPv6
    ports = {
        name: int(given.get(f"{name}-port", [default])[-1])
        for name, default in (("http", "8000"), ("grpc", "8001"), ("metrics", "8002"))
    }
    try:
        await asyncio.start_server(_ignore, host, ports["grpc"])
        await server.listen(host, ports["http"], ports["metrics"])
    except OSError as error:
        text = f"failed to start HTTP service: Unavailable - Socket '{host}' already in use"
        _log("E", "main.cc:387", f"{text}: {error}")
        return False
    _log("I", "grpc_server.cc:2558", f"Started GRPCInferenceService at {host}:{ports['grpc']}")
    _log("I", "http_server.cc:4713", f"Started HTTPService at {host}:{server.http_port}")
    _log("I", "http_server.cc:362", f"Started Metrics Service at {host}:{server.metrics_port}")
    return True


async def _ignore(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Accept a gRPC connection, and do not answer."""
    await reader.read()
    writer.close()


def _models(
    given: Mapping[str, list[str]], environ: Mapping[str, str]
) -> tuple[list[FakeModel], str]:
    """Return the models to load, and why the server ends at once ('': it does not)."""
    crash = environ.get("FAKE_TRITON_CRASH", "")
    wanted = given.get("load-model", ["*"])
    explicit = given.get("model-control-mode", ["none"])[-1] == "explicit"
    models = []
    for repository in given.get("model-repository", []):
        for directory in sorted(Path(repository).iterdir()):
            named = not explicit or "*" in wanted or directory.name in wanted
            if not directory.is_dir() or directory.name.startswith(".") or not named:
                continue
            program = directory / "fake.json"
            told = dict(json.loads(program.read_text())) if program.exists() else {}
            crash = crash or str(told.pop("crash", ""))
            models.append(_model(directory.name, told, environ))
    return models, crash


def _model(name: str, told: dict[str, object], environ: Mapping[str, str]) -> FakeModel:
    latency_s = told.get("latency_s", environ.get("FAKE_TRITON_LATENCY_S", "0"))
    load_s = told.get("load_s", environ.get("FAKE_TRITON_LOAD_S", "0"))
    return FakeModel(
        name,
        latency_s=float(str(latency_s)),
        instances=int(str(told.get("instances", 1))),
        load_s=float(str(load_s)),
        error=str(told.get("error", "")),
    )


def _log(level: str, place: str, text: str) -> None:
    """Write a line as Triton does: ``I1128 00:05:53.784599 7827 http_server.cc:4713] "text"``."""
    stamp = time.strftime("%m%d %H:%M:%S")
    sys.stderr.write(f'{level}{stamp}.000000 {os.getpid()} {place}] "{text}"\n')
    sys.stderr.flush()


T = TypeVar("T")

DEADLINE_S = 5.0
"""Seconds for each call on the fake's thread."""


class FakeTriton:
    """One fake server on its own thread, listening on 127.0.0.1.

    Args:
        models: Names or `FakeModel` objects; all are loaded when the fake starts.
        http_port: 0 finds a free one; the port of an ended fake makes it "come back".
        metrics_port: The same for the port of the metrics.
        version: The version in ``/v2``; before 2.38 there is no pending gauge.
    """

    def __init__(
        self,
        *models: str | FakeModel,
        http_port: int = 0,
        metrics_port: int = 0,
        version: str = "2.51.0",
    ) -> None:
        named = [FakeModel(m) if isinstance(m, str) else m for m in models or ("echo",)]
        self.state = FakeTritonState(named, version=version)
        self._wanted_ports = (http_port, metrics_port)
        self._loop = asyncio.new_event_loop()
        self._server = FakeServer(self.state)
        self._thread = threading.Thread(target=self._run, name="fake-triton", daemon=True)

    def __enter__(self) -> Self:
        """Start it; when this returns it listens, and models without ``load_s`` are READY."""
        self._thread.start()
        listening = self._server.listen("127.0.0.1", *self._wanted_ports)
        asyncio.run_coroutine_threadsafe(listening, self._loop).result(DEADLINE_S)
        for model in self.state.models.values():
            loading = self._begin_load(model)
            if model.load_s == 0:
                loading.result(DEADLINE_S)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """End it and its thread."""
        self.close()

    def close(self) -> None:
        """End it and its thread; idempotent."""
        if self._thread.is_alive():
            self.crash()
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(DEADLINE_S)

    @property
    def endpoint(self) -> "Endpoint":
        """Its endpoint; nothing listens on the gRPC port."""
        from tarn.domain import Endpoint  # noqa: PLC0415 (the program form needs no attrs)

        return Endpoint("127.0.0.1", self._server.http_port, 1, self._server.metrics_port)

    @property
    def requests(self) -> list[tuple[str, str, bytes]]:
        """(method, path, body) of the requests that are not in `looks`."""
        return self._server.requests

    @property
    def looks(self) -> int:
        """The number of requests for name, health, index and metrics."""
        return self._server.looks

    @property
    def executing(self) -> int:
        """The number of inferences that wait or execute now."""
        return self._server.executing

    @property
    def http_connections(self) -> int:
        """The number of open HTTP connections, for which an ending Triton waits."""
        return self._do(self._server.http_connections)

    def model(self, name: str) -> FakeModel:
        """Return a model, whose attributes may be set at any time."""
        return self.state.models[name]

    def hang(self) -> None:
        """Accept requests without answering them, as after SIGSTOP."""
        self._do(self._server.hang)

    def thaw(self) -> None:
        """Answer again."""
        self._do(self._server.thaw)

    def crash(self) -> None:
        """Close both ports and all connections at once; `endpoint` stays the same."""
        crash = asyncio.run_coroutine_threadsafe(self._server.crash(), self._loop)
        crash.result(DEADLINE_S)

    def drop_connections(self) -> None:
        """End all connections, but continue to listen."""
        self._do(self._server.drop_connections)

    def load(self, name: str) -> None:
        """Begin to load a model, and return at once."""
        self._begin_load(self.state.models.get(name) or FakeModel(name))

    def exit(self, timeout_s: float = 30.0) -> bool:
        """End as after SIGTERM; return False if *timeout_s* was too short."""
        done = asyncio.run_coroutine_threadsafe(self._server.exit(timeout_s), self._loop)
        clean = done.result(timeout_s + DEADLINE_S)
        self.crash()
        return clean

    def _begin_load(self, model: FakeModel) -> "Future[None]":
        return asyncio.run_coroutine_threadsafe(self._server.load(model), self._loop)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
            self._loop.run_until_complete(self._let_go())
        finally:
            self._loop.close()

    async def _let_go(self) -> None:
        """Cancel the remaining tasks; the sockets are closed already."""
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0)  # the transports' last callbacks
        await asyncio.sleep(0)

    def _do(self, work: Callable[[], T]) -> T:
        """Call *work* on the fake's thread."""

        async def call() -> T:
            return work()

        return asyncio.run_coroutine_threadsafe(call(), self._loop).result(DEADLINE_S)


if __name__ == "__main__":
    main()
