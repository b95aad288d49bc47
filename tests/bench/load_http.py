"""A load generator in a process of its own: reads what to do from stdin, prints latencies.

Plain asyncio streams, so that it costs far less than what it measures.
"""

import asyncio
import json
import sys
import time


async def _connect(address):
    return await asyncio.open_connection(*address)


async def _ask(streams, request):
    """Send one request and read the whole answer; return whether it was let in."""
    reader, writer = streams
    writer.write(request)
    head = await reader.readuntil(b"\r\n\r\n")
    if not head.startswith((b"HTTP/1.1 200 ", b"HTTP/1.1 429 ")):
        raise RuntimeError(head[:100].decode("latin-1"))
    length = next(
        int(line.split(b":")[1])
        for line in head.split(b"\r\n")
        if line.lower().startswith(b"content-length:")
    )
    await reader.readexactly(length)
    return head.startswith(b"HTTP/1.1 200 ")


async def closed(address, request, connections, seconds):
    """Ask again as soon as the answer is there; return the latencies in seconds.

    Requests above the limit of the master's are refused, and do not count.
    """
    took_s = []
    end_s = time.perf_counter() + seconds

    async def one():
        streams = await _connect(address)
        while (start_s := time.perf_counter()) < end_s:
            if await _ask(streams, request):
                took_s.append(time.perf_counter() - start_s)
        streams[1].close()

    await asyncio.gather(*(one() for _ in range(connections)))
    return took_s, []


async def opened(address, request, connections, seconds, rate):
    """Ask at fixed moments, whether or not answers came; latency counts from the moment.

    Also returned: how late this generator itself was.
    """
    took_s, late_s = [], []
    due = asyncio.Queue()

    async def one():
        streams = await _connect(address)
        while (moment_s := await due.get()) is not None:
            if not await _ask(streams, request):
                raise RuntimeError("a request was refused for the rate limit")
            took_s.append(time.perf_counter() - moment_s)
        streams[1].close()

    asking = [asyncio.ensure_future(one()) for _ in range(connections)]
    start_s = time.perf_counter()
    for number in range(int(rate * seconds)):
        moment_s = start_s + number / rate
        if (wait_s := moment_s - time.perf_counter()) > 0:
            await asyncio.sleep(wait_s)
        late_s.append(time.perf_counter() - moment_s)
        due.put_nowait(moment_s)
    for _ in asking:
        due.put_nowait(None)
    await asyncio.gather(*asking)
    return took_s, late_s


def main():
    """Do one round."""
    order = json.load(sys.stdin)
    request = (
        f"GET {order['path']} HTTP/1.1\r\nHost: x\r\nX-TARN-Token: {order['api_token']}\r\n\r\n"
    ).encode()
    address = order.get("host", "127.0.0.1"), order["port"]
    arguments = (address, request, order["connections"], order["seconds"])
    rate = order.get("rate")
    work = opened(*arguments, rate) if rate else closed(*arguments)
    took_s, late_s = asyncio.run(work)
    json.dump({"took_s": took_s, "late_s": late_s}, sys.stdout)


if __name__ == "__main__":
    main()
