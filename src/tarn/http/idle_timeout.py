"""Hang up on connections that never finish the head of a request, or never take an answer.

uvicorn times the pause between two requests, and nothing else: whoever sends a byte a minute, or
reads none, would hold a connection for ever.
"""

import asyncio
from typing import Any

import uvicorn

__all__ = ["close_idle_connections", "is_idle"]


async def close_idle_connections(server: uvicorn.Server, head_within_s: float) -> None:
    """Cut connections that have waited for the rest of a head for *head_within_s* seconds.

    So are those that were closed three times as long ago and have not taken what was sent to them.
    Runs next to *server* on its loop until it is cancelled. One that is being answered is left
    alone, however long the answer (a stream) takes; the body before it, and each part of it, have
    deadlines of their own.
    """
    loop = asyncio.get_running_loop()
    since: dict[Any, float] = {}
    while True:
        await asyncio.sleep(head_within_s / 4)
        now_s = loop.time()
        waiting = [c for c in server.server_state.connections if _waits(c)]
        since = {connection: since.get(connection, now_s) for connection in waiting}
        for connection, start_s in since.items():
            patience = 3 if connection.transport.is_closing() else 1
            if now_s - start_s >= patience * head_within_s:
                connection.transport.abort()


def is_idle(connection: Any) -> bool:
    """Say whether no request of *connection* is being answered."""
    return connection.cycle is None or bool(connection.cycle.response_complete)


def _waits(connection: Any) -> bool:
    """Say whether *connection* waits for its peer: for a head, or to take what is left."""
    if connection.transport is None:
        return False
    paused = connection.timeout_keep_alive_task is not None
    return connection.transport.is_closing() or (is_idle(connection) and not paused)
