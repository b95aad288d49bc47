"""Many fake Tritons in a separate process, for benchmarks and tests of large fleets.

A thousand of them share one asyncio loop, and use no CPU of the process under test. Each fake needs
four open files (two listeners, two connections).
"""

import asyncio
import json
import resource
import subprocess
import sys
import threading
from collections.abc import Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Self

from tarn.testing.fake_http import FakeServer
from tarn.testing.fake_state import FakeModel, FakeTritonState

if TYPE_CHECKING:
    from tarn.domain import Endpoint

__all__ = ["FakeFleet"]

DEADLINE_S = 30.0
"""Seconds for the fleet to start, and for each of its answers."""


class FakeFleet:
    """*count* fake Tritons with one model each, in a process that ends with the `with` block."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._process: subprocess.Popen[str] | None = None
        self._ports: list[tuple[int, int]] = []

    def __enter__(self) -> Self:
        """Start the fakes; all listen when this returns."""
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tarn.testing.fake_fleet", str(self._count)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._ports = [(http, metrics) for http, metrics in self._hear(self._process)]
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """End the process."""
        if self._process is not None:
            with self._process:
                self._process.kill()

    @property
    def endpoints(self) -> tuple["Endpoint", ...]:
        """The endpoints of the fakes."""
        from tarn.domain import Endpoint  # noqa: PLC0415 (the process itself needs no attrs)

        return tuple(Endpoint("127.0.0.1", http, 1, metrics) for http, metrics in self._ports)

    def hang(self, numbers: Iterable[int]) -> None:
        """Make exactly these fakes hang, counted from 0."""
        self._tell(["hang", sorted(numbers)])

    def crash(self, numbers: Iterable[int]) -> None:
        """End these fakes for good, as after kill -9."""
        self._tell(["crash", sorted(numbers)])

    def _tell(self, command: list[object]) -> None:
        process = self._process
        assert process is not None
        assert process.stdin is not None
        process.stdin.write(json.dumps(command) + "\n")
        process.stdin.flush()
        self._hear(process)

    @staticmethod
    def _hear(process: "subprocess.Popen[str]") -> list[tuple[int, int]]:
        """Return one line of the process, which is killed at the deadline."""
        assert process.stdout is not None
        timer = threading.Timer(DEADLINE_S, process.kill)
        timer.start()
        try:
            line = process.stdout.readline()
        finally:
            timer.cancel()
        if not line:
            raise RuntimeError(f"the fleet of fakes ended with code {process.wait(DEADLINE_S)}")
        return [(int(http), int(metrics)) for http, metrics in json.loads(line)]


def main() -> None:
    """Serve as many fakes as the argument says until stdin ends."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    asyncio.run(_serve(int(sys.argv[1])))


async def _serve(count: int) -> None:
    servers = [FakeServer(FakeTritonState([FakeModel("echo")])) for _ in range(count)]
    for server in servers:
        await server.load(server.state.models["echo"])
        await server.listen()
    _say([(server.http_port, server.metrics_port) for server in servers])
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        verb, numbers = json.loads(line)
        await _obey(servers, verb, frozenset(numbers))
        _say([])


async def _obey(servers: list[FakeServer], verb: str, numbers: frozenset[int]) -> None:
    for number, server in enumerate(servers):
        if verb == "crash" and number in numbers:
            await server.crash()
        elif verb == "hang" and number in numbers:
            server.hang()
        elif verb == "hang":
            server.thaw()


def _say(ports: list[tuple[int, int]]) -> None:
    sys.stdout.write(json.dumps(ports) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
