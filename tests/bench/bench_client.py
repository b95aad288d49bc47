"""What a client of a fleet adds to plain tritonclient: the same server, the same callers."""

import asyncio
import contextlib
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from bench.fixed_triton import FLOATS as SIZES
from bench.row import Row
from tritonclient import grpc as plain_grpc
from tritonclient import http as plain
from tritonclient.http import aio as plain_aio

import tarn.client
from tarn.testing.wait import until

ROUNDS = 7
THREADS = 8
CALLS = 150
FLOATS = 256
CALLERS = (1, 8, 32)
EACH = {"1 KB": 1600, "1 MB": 96}
"""Requests of one round, by size."""
WITHIN = 0.05
"""The part of plain tritonclient's throughput that may be lost."""

Infer = Callable[[], Any]


def client_rows() -> list[Row]:
    """Median of a call at eight threads in a closed loop, interleaved rounds, one fake Triton."""
    with _triton() as address, tarn.client.http(address) as client:
        makes = {"plain": lambda: _plain(address), "ours": lambda: _ours(client)}
        took_s: dict[str, list[float]] = {name: [] for name in makes}
        for name, counts in _turns():
            median_s = _round(makes[name])
            took_s[name] += [median_s] * counts
    ours_ms = 1000 * statistics.median(took_s["ours"])
    plain_ms = 1000 * statistics.median(took_s["plain"])
    added = [100 * (a / b - 1) for a, b in zip(took_s["ours"], took_s["plain"], strict=True)]
    what = f"client of a fleet, {THREADS} threads, p50 of infer"
    return [
        Row(what, ours_ms, "ms", None, "plain tritonclient", plain_ms),
        Row(f"{what}, added to plain tritonclient", statistics.median(added), "%", aim=5.0),
    ]


def grpc_rows() -> list[Row]:
    """Time per request over gRPC with callers on threads, in a closed loop; fixed answers."""

    def one(address: str, callers: int, size: str) -> Row:
        inputs, took_s = _inputs(plain_grpc, SIZES[size]), dict[str, list[float]](ours=[], plain=[])
        theirs = plain_grpc.InferenceServerClient(address)
        with tarn.client.grpc(address) as ours, theirs:
            both = {"ours": ours, "plain": theirs}
            for name, counts in _turns():
                took = _threads_s(both[name], callers, inputs, EACH[size] // callers)
                took_s[name] += [took] * counts
        return _compared(f"gRPC, {callers} callers, {size}", took_s)

    with _fixed_triton() as (_, address):
        return [one(address, *combination) for combination in _combinations()]


def aio_rows() -> list[Row]:
    """Time per request over asyncio with callers in tasks, in a closed loop; fixed answers."""

    async def one(address: str, callers: int, size: str) -> Row:
        inputs, took_s = _inputs(plain, SIZES[size]), dict[str, list[float]](ours=[], plain=[])
        theirs = plain_aio.InferenceServerClient(address)
        async with tarn.client.aio(address) as ours, theirs:
            both = {"ours": ours, "plain": theirs}
            for name, counts in _turns():
                took = await _tasks_s(both[name], callers, inputs, EACH[size] // callers)
                took_s[name] += [took] * counts
        return _compared(f"asyncio, {callers} callers, {size}", took_s)

    with _fixed_triton() as (address, _):
        return [asyncio.run(one(address, *combination)) for combination in _combinations()]


def _turns() -> Iterator[tuple[str, bool]]:
    """Yield who runs next, and whether it counts: the first round warms up."""
    for turn in range(ROUNDS + 1):
        for name in sorted(("ours", "plain"), reverse=turn % 2 == 1):
            yield name, turn > 0


def _combinations() -> list[tuple[int, str]]:
    return [(callers, size) for size in SIZES for callers in CALLERS]


def _inputs(library: Any, floats: int) -> list[Any]:
    tensor = library.InferInput("IN", [floats], "FP32")
    tensor.set_data_from_numpy(np.ones(floats, np.float32))
    return [tensor]


def _compared(what: str, took_s: dict[str, list[float]]) -> Row:
    ours_ms, plain_ms = (1000 * statistics.median(took_s[name]) for name in ("ours", "plain"))
    aim = round(plain_ms / (1 - WITHIN), 3)
    what = f"client of a fleet, {what}, time per request"
    return Row(what, ours_ms, "ms", aim, "plain tritonclient", plain_ms)


def _threads_s(client: Any, callers: int, inputs: Sequence[Any], calls: int) -> float:
    def work() -> None:
        for _ in range(calls):
            client.infer("echo", inputs)

    threads = [threading.Thread(target=work) for _ in range(callers)]
    begin_s = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return (time.perf_counter() - begin_s) / (callers * calls)


async def _tasks_s(client: Any, callers: int, inputs: Sequence[Any], calls: int) -> float:
    async def work() -> None:
        for _ in range(calls):
            await client.infer("echo", inputs)

    begin_s = time.perf_counter()
    await asyncio.gather(*(work() for _ in range(callers)))
    return (time.perf_counter() - begin_s) / (callers * calls)


@contextlib.contextmanager
def _fixed_triton() -> Iterator[tuple[str, str]]:
    """Run `bench.fixed_triton` in a process of its own; yield its HTTP and gRPC addresses."""
    ports = _free_port(), _free_port()
    program = Path(__file__).with_name("fixed_triton.py")
    process = subprocess.Popen([sys.executable, str(program), *map(str, ports)])
    try:
        until(lambda: _listens(ports[0]), 30)
        yield f"127.0.0.1:{ports[0]}", f"127.0.0.1:{ports[1]}"
    finally:
        process.kill()
        process.wait(10)


def _listens(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
        return True
    return False


def _plain(address: str) -> "contextlib.AbstractContextManager[Any]":
    return plain.InferenceServerClient(address)


def _ours(client: Any) -> "contextlib.AbstractContextManager[Any]":
    return contextlib.nullcontext(client)


def _round(make: Callable[[], "contextlib.AbstractContextManager[Any]"]) -> float:
    took_s: list[float] = []
    begin = threading.Barrier(THREADS)

    def work() -> None:
        tensor = plain.InferInput("IN", [FLOATS], "FP32")
        tensor.set_data_from_numpy(np.ones(FLOATS, np.float32))
        mine = []
        with make() as client:
            client.infer("echo", [tensor])
            begin.wait(30)
            for _ in range(CALLS):
                start_s = time.perf_counter()
                client.infer("echo", [tensor])
                mine.append(time.perf_counter() - start_s)
        took_s.extend(mine)

    threads = [threading.Thread(target=work) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return statistics.median(took_s)


@contextlib.contextmanager
def _triton() -> Iterator[str]:
    """Run a fake Triton in a process of its own; yield its address."""
    with TemporaryDirectory() as folder:
        (Path(folder) / "echo" / "1").mkdir(parents=True)
        port = _free_port()
        command = [sys.executable, "-m", "tarn.testing.fake_triton", "--model-repository", folder]
        command += ["--http-port", str(port), "--metrics-port", str(_free_port())]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        address = f"127.0.0.1:{port}"
        try:
            with tarn.client.http(address, wait_s=10) as client:
                client.get_server_metadata()
            yield address
        finally:
            process.kill()
            process.wait(10)


def _free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


if __name__ == "__main__":
    for row in [*client_rows(), *grpc_rows(), *aio_rows()]:
        sys.stdout.write(
            f"{row.name}: {row.value:.3f} {row.unit} (aim {row.aim})"
            f" {row.baseline_name} {row.baseline_value}\n"
        )
