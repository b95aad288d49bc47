"""An open-loop load through one address, and one gRPC stream, for as long as a test wants.

Each request carries a number of its own, as payload, as id, and in its query for HAProxy's log.
"""

import itertools
import queue
import threading
import time
from contextlib import AbstractContextManager
from typing import Any, Self

import attrs
import numpy as np
from open_loop import LoadReport, LostRequest
from tritonclient import grpc as triton_grpc
from tritonclient import http as triton

TIMEOUT_S = 20.0
MODEL = "echo"


def inputs(module: Any, number: int) -> list[Any]:
    """Return the number as the one input of the echo model."""
    tensor = module.InferInput("IN", [1], "INT32")
    tensor.set_data_from_numpy(np.array([number], np.int32))
    return [tensor]


@attrs.frozen
class MissedRequest:
    """A request without its answer."""

    number: int
    ended: float
    """When that was known, in Unix seconds."""
    why: str


class LoadTally:
    """What became of each request of a load; any thread."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._changed = threading.Condition()
        self.report = LoadReport()
        self.missed: list[MissedRequest] = []

    def pass_(self, count: int, within_s: float = 60.0) -> None:
        """Wait until *count* more were answered."""
        with self._changed:
            goal = len(self.report.answered) + count
            enough = self._changed.wait_for(lambda: len(self.report.answered) >= goal, within_s)
        assert enough, f"no {count} answers within {within_s:g} s: {self.report}"

    def note(self, number: int, due_s: float, sent_s: float, problem: str) -> None:
        """Note one request, and what is wrong with its answer; empty: nothing."""
        with self._changed:
            report = self.report
            report.sent += 1
            report.late_s.append(sent_s - due_s)
            report.took_s.append(time.monotonic() - sent_s)
            if problem:
                report.lost.append(LostRequest(number, self._address, sent_s, problem))
                self.missed.append(MissedRequest(number, time.time(), problem))
            elif number in report.answered:
                report.doubled += 1
            else:
                report.answered.add(number)
            self._changed.notify_all()


def wrong(result: Any, number: int) -> str:
    """Say what is wrong with the answer to *number*; empty: nothing."""
    got = int(result.as_numpy("OUT")[0]), result.get_response().get("id")
    return "" if got == (number, str(number)) else f"answered {got}"


class HttpLoad(LoadTally):
    """So many requests a second, sent when they are due, whatever became of those before.

    Args:
        address: ``host:port`` that all are sent to.
        rate: Requests a second.
        threads: Each holds a connection of its own, and so one request at a time.
    """

    def __init__(self, address: str, rate: float, threads: int = 16) -> None:
        super().__init__(address)
        self._gap_s = 1.0 / rate
        self._numbers = itertools.count()
        self._ended = threading.Event()
        self._began_s = time.monotonic()
        self._threads = [
            threading.Thread(target=self._work, name=f"load-{n}") for n in range(threads)
        ]

    def __enter__(self) -> Self:
        self._began_s = time.monotonic()
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join(TIMEOUT_S + 10)

    def client(self) -> AbstractContextManager[Any]:
        """Return what one thread infers by."""
        return triton.InferenceServerClient(
            self._address, connection_timeout=TIMEOUT_S, network_timeout=TIMEOUT_S
        )

    def _work(self) -> None:
        with self.client() as client:
            while not self._ended.is_set():
                with self._changed:
                    number = next(self._numbers)
                due_s = self._began_s + number * self._gap_s
                if self._ended.wait(max(0.0, due_s - time.monotonic())):
                    return
                self._send(client, number, due_s)

    def _send(self, client: Any, number: int, due_s: float) -> None:
        sent_s = time.monotonic()
        try:
            result = client.infer(
                MODEL, inputs(triton, number), request_id=str(number), query_params={"n": number}
            )
            problem = wrong(result, number)
        except Exception as error:  # noqa: BLE001 (whatever it is, the request is lost)
            problem = f"{type(error).__name__}: {error}"
        self.note(number, due_s, sent_s, problem)


@attrs.frozen
class BrokenStream:
    """A stream that ended before it was ended."""

    ended: float
    """When that was known, in Unix seconds."""
    why: str
    open: tuple[int, ...]
    """The numbers without an answer."""


@attrs.define
class StreamOutcome:
    """What became of the messages of all streams."""

    sent: int = 0
    answered: list[int] = attrs.field(factory=list)
    broken: list[BrokenStream] = attrs.field(factory=list)
    wrong: list[str] = attrs.field(factory=list)


class GrpcStream:
    """One bidirectional stream that says a number each *gap_s*; opened again when it breaks.

    Args:
        address: ``host:port`` of HAProxy's door for gRPC.
        first: Its first number; they must not meet those of another load.
    """

    def __init__(self, address: str, first: int, gap_s: float = 0.05) -> None:
        self._address, self._gap_s = address, gap_s
        self._numbers = itertools.count(first)
        self._ended = threading.Event()
        self._resting = threading.Event()
        self._lock = threading.Lock()
        self._open: list[int] = []
        self._broke: queue.SimpleQueue[str] = queue.SimpleQueue()
        self.told = StreamOutcome()
        self._thread = threading.Thread(target=self._run, name="grpc-stream")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self._ended.set()
        self._thread.join(TIMEOUT_S + 10)

    def rest(self) -> None:
        """Stay open, and say nothing until `go_on`."""
        self._resting.set()

    def go_on(self) -> None:
        """Say numbers again."""
        self._resting.clear()

    def _run(self) -> None:
        while not self._ended.is_set():
            client = triton_grpc.InferenceServerClient(self._address)
            try:
                self._one_stream(client)
            finally:
                client.close()

    def _one_stream(self, client: triton_grpc.InferenceServerClient) -> None:
        """Say numbers until the end, or until the stream breaks."""
        client.start_stream(self._hear)
        while self._broke.empty() and not self._ended.wait(self._gap_s):
            if self._resting.is_set():
                continue
            number = next(self._numbers)
            with self._lock:
                self._open.append(number)
                self.told.sent += 1
            try:
                client.async_stream_infer(
                    MODEL, inputs(triton_grpc, number), request_id=str(number)
                )
            except Exception as error:  # noqa: BLE001 (a stream that broke takes nothing more)
                self._broke.put(str(error))
        client.stop_stream()  # half-closes, and waits for what is still to come
        self._count_broken()

    def _count_broken(self) -> None:
        with self._lock:
            left, self._open = tuple(self._open), []
        why = "" if self._broke.empty() else self._broke.get()
        while not self._broke.empty():
            self._broke.get()
        if why or left:
            self.told.broken.append(BrokenStream(time.time(), why, left))

    def _hear(self, result: Any, error: Exception | None) -> None:
        """Take an answer, on the stream's own thread."""
        if error is not None:
            self._broke.put(str(error))
            return
        number, said = int(result.as_numpy("OUT")[0]), result.get_response().id
        with self._lock:
            if not self._open or self._open[0] != number or said != str(number):
                self.told.wrong.append(f"answer {number} with id {said}, awaited {self._open[:1]}")
                return
            self._open.pop(0)
            self.told.answered.append(number)
