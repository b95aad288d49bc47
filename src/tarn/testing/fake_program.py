"""The fake Triton as a program with tritonserver's options. Stdlib only, so that it starts fast.

Options (``--name value`` or ``--name=value``; any other one is ignored): ``--model-repository``
(may be given often), ``--http-port``, ``--grpc-port``, ``--metrics-port``, ``--http-address``,
``--grpc-address``, ``--metrics-address``, ``--exit-timeout-secs``, ``--exit-on-error``,
``--model-control-mode``, ``--load-model``, ``--http-restricted-api``.

What it should do is read from ``fake.json`` in a model's directory: ``{"latency_s": 0.1,
"instances": 1, "load_s": 2, "error": "why it does not load", "crash": "why the server ends"}``; or
from the environment, for all models: ``FAKE_TRITON_LOAD_S``, ``FAKE_TRITON_LATENCY_S``,
``FAKE_TRITON_CRASH`` (the text of the error line), ``FAKE_TRITON_EXIT_CODE`` (1),
``FAKE_TRITON_CRASH_AFTER_S`` (ends so long after it began to serve).
"""

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

from tarn.testing.fake_http import FakeServer
from tarn.testing.fake_state import FakeModel, FakeTritonState

__all__ = ["main", "options"]


def options(argv: list[str]) -> dict[str, list[str]]:
    """Return each option's values in order; an option without one has ``true``."""
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
    """Serve until SIGTERM; exit 0 when everything ended in time, else 1, like Triton."""
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
    """Return what opens each part, from values like ``logging,trace:name=value``."""
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
    """Take a gRPC connection, and say nothing."""
    await reader.read()
    writer.close()


def _models(
    given: Mapping[str, list[str]], environ: Mapping[str, str]
) -> tuple[list[FakeModel], str]:
    """Return the models to load, and why the server ends at once (empty: it does not)."""
    crash = environ.get("FAKE_TRITON_CRASH", "")
    wanted = given.get("load-model", ["*"])
    explicit = given.get("model-control-mode", ["none"])[-1] == "explicit"
    models = []
    for repository in given.get("model-repository", []):
        for directory in sorted(Path(repository).iterdir()):
            named = not explicit or "*" in wanted or directory.name in wanted
            if not directory.is_dir() or directory.name.startswith(".") or not named:
                continue
            told = _told(directory / "fake.json")
            crash = crash or str(told.pop("crash", ""))
            models.append(_model(directory.name, told, environ))
    return models, crash


def _told(path: Path) -> dict[str, object]:
    return dict(json.loads(path.read_text())) if path.exists() else {}


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
