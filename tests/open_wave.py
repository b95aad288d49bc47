"""An open-loop load on one event loop: however many answers it waits for, the next one is sent.

A load of threads holds as many requests at a time as it has threads, so a fleet that is too small
would slow it down. This one goes on, and its rate may be changed meanwhile. Each request carries a
number of its own, as payload and as id, and its answer must carry both back.
"""

import asyncio
import bisect
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Self

from open_loop import Fleet
from proxied_load import MODEL, TIMEOUT_S, LoadTally, inputs, wrong
from tritonclient import http as triton
from tritonclient.http import aio

import tarn.client

__all__ = ["Client", "Readers", "Wave", "balanced", "straight"]

Client = Callable[[], AbstractAsyncContextManager[Any]]
"""Makes what has tritonclient's ``infer`` as a coroutine; called on the load's own loop."""


def straight(address: str) -> Client:
    """Send all to one address."""
    return lambda: aio.InferenceServerClient(address, conn_limit=0, conn_timeout=TIMEOUT_S)


def balanced(url: str, api_token: str) -> Client:
    """Send as a client of the fleet does; what was cut is not sent again."""
    return lambda: tarn.client.aio(url, api_token=api_token, retry_resets=False)


class Readers:
    """Clients that know the fleet from ``/instances``, as of up to a second ago; in turn."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet, self._turn = fleet, 0
        self._clients: dict[str, Any] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_exc: object) -> None:
        for client in self._clients.values():
            await client.close()

    async def infer(self, *given: Any, **named: Any) -> Any:
        """Infer on the next one.

        What is lost because a starved process knew an old fleet says nothing of the fleet.
        """
        if self._fleet.stale:
            await asyncio.to_thread(self._fleet.look)
        targets = self._fleet.targets
        self._turn += 1
        target = targets[self._turn % len(targets)]
        if target not in self._clients:
            self._clients[target] = await straight(target)().__aenter__()
        return await self._clients[target].infer(*given, **named)


class Wave(LoadTally):
    """So many requests a second, sent when they are due, whatever became of those before.

    Args:
        client: What they are sent by.
        rate: Requests a second; it may be set at any time.
        first: The first number; those of another load must not meet these.
    """

    def __init__(self, client: Client, rate: float, first: int = 0) -> None:
        super().__init__("the fleet")
        self.rate = rate
        self.moments: list[float] = []
        """When each request was really sent, in Unix seconds, in order."""
        self._client, self._first = client, first
        self._ended = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), name="wave")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self._ended.set()
        self._thread.join(TIMEOUT_S + 10)

    def sent_between(self, begin: float, end: float) -> int:
        """Count the requests that were sent between two moments, in Unix seconds."""
        moments = tuple(self.moments)
        return bisect.bisect(moments, end) - bisect.bisect(moments, begin)

    @property
    def numbers(self) -> Sequence[int]:
        """All that were sent; meaningful once it has ended."""
        return range(self._first, self._first + self.report.sent)

    async def _run(self) -> None:
        """Send until the end; then wait for the answers."""
        async with self._client() as client:
            asked: set[asyncio.Task[None]] = set()
            number, due_s = self._first, time.monotonic()
            while not self._ended.is_set():
                due_s += 1.0 / self.rate
                await asyncio.sleep(max(0.0, due_s - time.monotonic()))
                self.moments.append(time.time())
                task = asyncio.create_task(self._send(client, number, due_s))
                asked.add(task)
                task.add_done_callback(asked.discard)
                number += 1
            await asyncio.gather(*asked)

    async def _send(self, client: Any, number: int, due_s: float) -> None:
        sent_s = time.monotonic()
        try:
            async with asyncio.timeout(TIMEOUT_S):
                result = await client.infer(MODEL, inputs(triton, number), request_id=str(number))
            problem = wrong(result, number)
        except Exception as error:  # noqa: BLE001 (whatever it is, the request is lost)
            problem = f"{type(error).__name__}: {error}"
        self.note(number, due_s, sent_s, problem)
