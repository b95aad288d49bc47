"""What a client of a fleet adds to plain tritonclient: the same server, the same eight threads."""

import contextlib
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from bench.row import Row
from tritonclient import http as plain

import tarn.client

ROUNDS = 7
THREADS = 8
CALLS = 150
FLOATS = 256

Infer = Callable[[], Any]


def client_rows() -> list[Row]:
    """Median of a call at eight threads in a closed loop, interleaved rounds, one fake Triton."""
    with _triton() as address, tarn.client.http(address) as client:
        makes = {"plain": lambda: _plain(address), "ours": lambda: _ours(client)}
        took_s: dict[str, list[float]] = {name: [] for name in makes}
        for turn in range(ROUNDS + 1):
            for name in sorted(makes, reverse=turn % 2 == 1):
                median_s = _round(makes[name])
                if turn:  # the first one warms up
                    took_s[name].append(median_s)
    ours_ms = 1000 * statistics.median(took_s["ours"])
    plain_ms = 1000 * statistics.median(took_s["plain"])
    added = [100 * (a / b - 1) for a, b in zip(took_s["ours"], took_s["plain"], strict=True)]
    what = f"client of a fleet, {THREADS} threads, p50 of infer"
    return [
        Row(what, ours_ms, "ms", None, "plain tritonclient", plain_ms),
        Row(f"{what}, added to plain tritonclient", statistics.median(added), "%", aim=5.0),
    ]


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
    for row in client_rows():
        sys.stdout.write(
            f"{row.name}: {row.value:.3f} {row.unit} (aim {row.aim})"
            f" {row.baseline_name} {row.baseline_value}\n"
        )
