"""Hang up on connections that never finish the head of a request.

uvicorn times the pause between two requests, and nothing else: whoever sends a byte a minute
would hold a connection for ever.
"""

import asyncio
from typing import Any

import uvicorn

__all__ = ["hang_up_on_idlers", "idle"]


async def hang_up_on_idlers(server: uvicorn.Server, head_within_s: float) -> None:
    """Close connections that have waited for the rest of a head for *head_within_s* seconds.

    Runs beside *server* on its loop until it is cancelled. One that is being answered is left
    alone, however long the answer (a stream) takes; its body has a deadline of its own.
    """
    loop = asyncio.get_running_loop()
    since: dict[Any, float] = {}
    while True:
        await asyncio.sleep(head_within_s / 4)
        now_s = loop.time()
        waiting = [c for c in server.server_state.connections if _waits_for_head(c)]
        since = {connection: since.get(connection, now_s) for connection in waiting}
        for connection, start_s in since.items():
            if now_s - start_s >= head_within_s:
                connection.transport.close()


def idle(connection: Any) -> bool:
    """Say whether no request of *connection* is being answered."""
    return connection.cycle is None or bool(connection.cycle.response_complete)


def _waits_for_head(connection: Any) -> bool:
    paused = connection.timeout_keep_alive_task is not None
    return idle(connection) and not paused and connection.transport is not None
