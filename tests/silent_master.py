"""A real master whose fleet is one good instance, one that hangs, and ten that nobody reaches."""

import contextlib
import json
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs
import yaml

from tarn import config, master, plugins
from tarn.control.loop import Outcome
from tarn.domain import Choice, Endpoint, Epoch, Fact, Recovered, Running, RuntimeWish
from tarn.errors import TarnError
from tarn.hookspecs import RuntimeFactory, hookimpl
from tarn.interfaces import RuntimeCapabilities
from tarn.testing.context import cluster_spec
from tarn.testing.fake_triton import FakeTriton
from tarn.testing.fakes import FakeRuntime, FakeStateStore
from tarn.testing.wait import until

API_TOKEN = "the-api-token-of-the-silent"
UNREACHABLE = 10
NOWHERE = "192.0.2."
"""Addresses of RFC 5737, at which nobody may be."""


@attrs.frozen
class Nothing:
    """No settings."""


class Found(FakeRuntime):
    """A runtime that finds the same instances for ever, whatever is asked of it."""

    def __init__(self, endpoints: tuple[Endpoint, ...]) -> None:
        super().__init__()
        self._facts = tuple(
            Running(f"quiet-{n:04d}", "hash", f"c{n}", e.host, e, adopted=True)
            for n, e in enumerate(endpoints, 1)
        )

    def start(self, api_url: str) -> Recovered:
        self.api_url = api_url
        return Recovered(self._facts)

    def facts(self) -> tuple[Fact, ...]:
        return self._facts

    def apply(self, wish: RuntimeWish) -> None:
        """Nothing is started or ended."""

    def heard_s(self) -> float:
        return time.monotonic()


@attrs.frozen
class Stage:
    """A plugin: the runtime ``found``."""

    runtime: Found

    @hookimpl
    def tarn_runtimes(self) -> Mapping[str, RuntimeFactory]:
        def never(*_arguments: object) -> Any:
            raise AssertionError("only a client makes this")

        made = RuntimeFactory(
            Nothing,
            never,
            lambda _settings, _context: self.runtime,
            lambda _settings, _context: FakeStateStore(),
            lambda _settings, _directory, _environ: Epoch(1, 1),
            RuntimeCapabilities(),
            "the silent fleet's",
        )
        return {"found": made}


@contextlib.contextmanager
def silent_master(directory: Path) -> Iterator[str]:
    """Run the master in a thread; yield its URL once the good instance is ready."""
    with contextlib.ExitStack() as stack:
        good = stack.enter_context(FakeTriton("echo"))
        hung = stack.enter_context(FakeTriton("echo"))
        hung.hang()
        full = [_full(stack) for _ in range(UNREACHABLE // 2)]
        lost = [Endpoint(f"{NOWHERE}{n}", 8000, 8001, 8002) for n in range(1, UNREACHABLE // 2 + 1)]
        runtime = Found((good.endpoint, hung.endpoint, *full, *lost))
        yield stack.enter_context(_running(directory, runtime))


def _full(stack: contextlib.ExitStack) -> Endpoint:
    """Return a port whose queue of connections is full: a new one is not even refused."""
    listener = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
    for _ in range(2):
        waiting = stack.enter_context(socket.socket())
        waiting.setblocking(False)
        waiting.connect_ex(listener.getsockname())
    port = listener.getsockname()[1]
    return Endpoint("127.0.0.1", port, port, port)


@contextlib.contextmanager
def _running(directory: Path, runtime: Found) -> Iterator[str]:
    stop, over = threading.Event(), list[Outcome | TarnError]()
    _files(directory)
    offered = plugins.load([Stage(runtime)])

    def run() -> None:
        try:
            over.append(master.run(directory, {"HOME": "/nowhere"}, stop, "", offered))
        except TarnError as error:
            over.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        until(lambda: runtime.api_url or over, 15, "the master's announcement")
        assert not over, over
        yield runtime.api_url
    finally:
        stop.set()
        thread.join(15)
    assert over == [Outcome.LEFT]


def _files(directory: Path) -> None:
    spec = cluster_spec("quiet")
    spec = attrs.evolve(
        spec,
        models=attrs.evolve(spec.models, repository="/models", serve=("echo",)),
        triton=attrs.evolve(spec.triton, restricted=()),
        runtime=Choice("found"),
        api=attrs.evolve(spec.api, rate_limit=100_000),
        replicas=attrs.evolve(spec.replicas, min=0, max=20, initial=UNREACHABLE + 2),
        scaling=attrs.evolve(spec.scaling, use="fixed"),
    )
    (directory / "spec.yaml").write_text(yaml.safe_dump(config.dump(spec)))
    (directory / "staged.json").write_text(json.dumps({"location": "/models"}))
    (directory / "api_token").write_text(API_TOKEN)
