"""Attackers of one fleet: a program that opens idle connections, streams, and floods a HAProxy.

``python attackers.py SECONDS MASTER_PORT HAPROXY_PORT VIEWERS_TOKEN``: everything on loopback, from
addresses of its own, for so many seconds; then it prints what became of it as JSON.
"""

import asyncio
import contextlib
import itertools
import json
import resource
import sys
import time
from collections import Counter
from typing import Any

IDLERS, STREAMS, FLOODERS = 1200, 200, 8
PAUSE_S = 1.0
"""Before what was refused or closed is tried again."""
FLOOD_PAUSE_S = 0.05
IDLE_FROM, FLOOD_FROM, VIEW_FROM = "127.0.0.3", "127.0.0.2", "127.0.0.4"

counted: Counter[str] = Counter()


async def connect(port: int, source: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    async with asyncio.timeout(5):
        return await asyncio.open_connection("127.0.0.1", port, local_addr=(source, 0))


async def idle(port: int) -> None:
    """Connect, say nothing, and wait until the server hangs up."""
    reader, writer = await connect(port, IDLE_FROM)
    counted["idle opened"] += 1
    try:
        await reader.read()
        counted["idle closed by the master"] += 1
    finally:
        writer.close()


async def view(port: int, token: str) -> None:
    """Open a stream as somebody who may only look, and read it."""
    reader, writer = await connect(port, VIEW_FROM)
    try:
        writer.write(
            b"GET /api/v1/stream HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: text/event-stream\r\n"
            b"X-TARN-User: bob\r\nX-TARN-Token: " + token.encode() + b"\r\n\r\n"
        )
        head = await reader.readline()
        counted[f"stream {head.split()[1].decode() if head else 'cut'}"] += 1
        while await reader.read(65536):
            pass
    finally:
        writer.close()


async def flood(port: int, numbers: "itertools.count[int]") -> None:
    """Ask for a model that nobody has heard of."""
    reader, writer = await connect(port, FLOOD_FROM)
    try:
        line = f"POST /v2/models/invented{next(numbers)}/infer HTTP/1.1\r\nHost: lb\r\n"
        writer.write(f"{line}Content-Length: 0\r\nConnection: close\r\n\r\n".encode())
        head = await reader.readline()
        counted[f"flood {head.split()[1].decode() if head else 'cut'}"] += 1
    finally:
        writer.close()


async def again(end_s: float, pause_s: float, attack: Any, *arguments: object) -> None:
    """Repeat *attack* until *end_s*."""
    while (left_s := end_s - time.monotonic()) > 0:
        with contextlib.suppress(OSError, TimeoutError, IndexError):
            async with asyncio.timeout(left_s):
                await attack(*arguments)
        await asyncio.sleep(pause_s)


async def attack(seconds: float, master: int, haproxy: int, token: str) -> None:
    numbers, end_s = itertools.count(), time.monotonic() + seconds
    idlers = [again(end_s, PAUSE_S, idle, master) for _ in range(IDLERS)]
    viewers = [again(end_s, PAUSE_S, view, master, token) for _ in range(STREAMS)]
    flooders = [again(end_s, FLOOD_PAUSE_S, flood, haproxy, numbers) for _ in range(FLOODERS)]
    await asyncio.gather(*idlers, *viewers, *flooders)


def main() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    seconds, master, haproxy, token = sys.argv[1:]
    asyncio.run(attack(float(seconds), int(master), int(haproxy), token))
    print(json.dumps(counted))


if __name__ == "__main__":
    main()
