"""A real master whose fleet is one good instance, one that hangs, and ten that nobody reaches."""

import contextlib
import socket
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import attrs
from master_in_thread import at_work, brought, running

from tarn.domain import Choice, ClusterSpec, Endpoint, Fact, Recovered, Running, RuntimeWish
from tarn.hookspecs import RuntimeFactory, hookimpl
from tarn.testing.context import cluster_spec
from tarn.testing.fake_triton import FakeTriton
from tarn.testing.fakes import FakeRuntime

API_TOKEN = "the-api-token-of-the-silent"
UNREACHABLE = 10
NOWHERE = "192.0.2."
"""Addresses of RFC 5737, at which nobody may be."""


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
class FoundRuntime:
    """A plugin: the runtime ``found``."""

    runtime: Found

    @hookimpl
    def tarn_runtimes(self) -> Mapping[str, RuntimeFactory]:
        return {"found": running(self.runtime)}


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
        brought(directory, _spec(), API_TOKEN)
        stack.enter_context(at_work(directory, FoundRuntime(runtime), runtime))
        yield runtime.api_url


def _full(stack: contextlib.ExitStack) -> Endpoint:
    """Return a port whose queue of connections is full: a new one is not even refused."""
    listener = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
    for _ in range(2):
        waiting = stack.enter_context(socket.socket())
        waiting.setblocking(False)
        waiting.connect_ex(listener.getsockname())
    port = listener.getsockname()[1]
    return Endpoint("127.0.0.1", port, port, port)


def _spec() -> ClusterSpec:
    spec = cluster_spec("quiet")
    return attrs.evolve(
        spec,
        models=attrs.evolve(spec.models, repository="/models", serve=("echo",)),
        triton=attrs.evolve(spec.triton, restricted=()),
        runtime=Choice("found"),
        api=attrs.evolve(spec.api, rate_limit=100_000),
        replicas=attrs.evolve(spec.replicas, min=0, max=20, initial=UNREACHABLE + 2),
        scaling=attrs.evolve(spec.scaling, use="fixed"),
    )
