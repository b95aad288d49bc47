"""A Triton that is not one: programmable, in this process, in a fleet, or as a program.

In a test::

    with FakeTriton("ocr") as triton:
        ...  # triton.endpoint is a tarn.domain.Endpoint on 127.0.0.1
        triton.hang()          # takes connections, never answers
        triton.crash()         # both ports end at once, as after kill -9

As a program that takes tritonserver's options, so that a runtime can start it instead::

    python -m tarn.testing.fake_triton --model-repository DIR --http-port 8000 --metrics-port 8002

`tarn.testing.fake_program` tells how the program is programmed. What the fake does is what Triton
2.51 was seen to do: it listens only after its models are loaded, counts a request when it ends,
tells nobody what executes, and after SIGTERM waits for open HTTP connections. Stdlib only.
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

__all__ = ["FakeModel", "FakeTriton"]

T = TypeVar("T")

DEADLINE_S = 5.0
"""For anything asked of the fake's own thread."""


class FakeTriton:
    """One fake server on its own thread, listening on 127.0.0.1.

    Args:
        models: Names, or `FakeModel` for more; all are loaded when the fake starts.
        http_port: 0 finds a free one; a port that was used before lets one "come back".
        metrics_port: The same.
        version: What ``/v2`` says; before 2.38 there is no pending gauge.
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
        """Start it; it listens and its quickly loading models are READY when this returns."""
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
        """Where it listens; nothing listens on the gRPC port it names."""
        from tarn.domain import Endpoint  # noqa: PLC0415 (the program form needs no attrs)

        return Endpoint("127.0.0.1", self._server.http_port, 1, self._server.metrics_port)

    @property
    def requests(self) -> list[tuple[str, str, bytes]]:
        """(method, path, body) of what came besides health, index and metrics."""
        return self._server.requests

    @property
    def looks(self) -> int:
        """How often it was asked for health, index or metrics."""
        return self._server.looks

    @property
    def executing(self) -> int:
        """How many inferences wait or execute at present."""
        return self._server.executing

    @property
    def http_connections(self) -> int:
        """How many HTTP connections are open: what an ending Triton waits for."""
        return self._do(self._server.http_connections)

    def model(self, name: str) -> FakeModel:
        """Return a model to program it; its attributes may be set at any time."""
        return self.state.models[name]

    def hang(self) -> None:
        """Take connections and requests, answer nothing, as after SIGSTOP."""
        self._do(self._server.hang)

    def thaw(self) -> None:
        """Answer again."""
        self._do(self._server.thaw)

    def crash(self) -> None:
        """End both ports and all connections at once; `endpoint` stays as it was."""
        crash = asyncio.run_coroutine_threadsafe(self._server.crash(), self._loop)
        crash.result(DEADLINE_S)

    def drop_connections(self) -> None:
        """End all connections, and go on listening."""
        self._do(self._server.drop_connections)

    def load(self, name: str) -> None:
        """Begin to load a model, for its ``load_s``; returns at once."""
        self._begin_load(self.state.models.get(name) or FakeModel(name))

    def exit(self, timeout_s: float = 30.0) -> bool:
        """End as after SIGTERM; False when something was still open at the time-out."""
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
        """End every task that is left; the sockets are closed already."""
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
    from tarn.testing.fake_program import main

    main()
