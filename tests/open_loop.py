"""An open-loop load on a fleet: plain tritonclient, no retry, the fleet re-read each 0.5 s.

Requests are sent when they are due, whether or not earlier ones were answered, so a slow answer
cannot hide a lost one. Each carries a number of its own, and its answer must carry it back.
"""

import contextlib
import http.client
import itertools
import statistics
import threading
import time
from collections.abc import Callable, Mapping
from urllib.parse import urlsplit

import attrs
import numpy as np
from tritonclient import http as triton

RE_READ_S = 0.5
TIMEOUT_S = 5.0


@attrs.frozen
class LostRequest:
    """A request without its answer."""

    number: int
    target: str
    sent_s: float
    why: str


@attrs.define
class LoadReport:
    """What became of every request."""

    sent: int = 0
    answered: set[int] = attrs.field(factory=set)
    doubled: int = 0
    lost: list[LostRequest] = attrs.field(factory=list)
    late_s: list[float] = attrs.field(factory=list)
    took_s: list[float] = attrs.field(factory=list)

    def __str__(self) -> str:
        took_ms = sorted(1000 * s for s in self.took_s)
        p99_ms = took_ms[int(len(took_ms) * 0.99)] if took_ms else float("nan")
        late_ms = 1000 * statistics.median(self.late_s), 1000 * max(self.late_s)
        return (
            f"sent {self.sent}, answered {len(self.answered)}, lost {len(self.lost)}, "
            f"answer p50 {statistics.median(took_ms):.1f} ms p99 {p99_ms:.1f} ms; "
            f"the generator itself was {late_ms[0]:.1f} ms late (median), {late_ms[1]:.1f} (most)"
        )


class Fleet:
    """The ready instances, as a client without watch or push would know them."""

    def __init__(self, url: str, api_token: str) -> None:
        self._where = urlsplit(url)
        self._headers = {"X-TARN-Token": api_token}
        self._stop, self._looking = threading.Event(), threading.Lock()
        self._looked_s = time.monotonic()
        self.targets: tuple[str, ...] = self.read()
        self._thread = threading.Thread(target=self._follow, name="re-read")
        self._thread.start()

    def read(self) -> tuple[str, ...]:
        """Ask ``/instances`` once."""
        connection = http.client.HTTPConnection(self._where.netloc, timeout=2)
        try:
            connection.request("GET", "/instances", headers=self._headers)
            answer = connection.getresponse()
            text = answer.read().decode()
            if answer.status != 200:
                raise OSError(f"{answer.status} {text}")
            return tuple(text.split())
        finally:
            connection.close()

    def close(self) -> None:
        self._stop.set()
        self._thread.join(5)

    @property
    def stale(self) -> bool:
        """Whether it was not looked at for too long: the thread that does is starved."""
        return time.monotonic() - self._looked_s > 2 * RE_READ_S

    def look(self, *, again: bool = False) -> None:
        """Ask if what is known is stale, or *again*. Without a master, the last set stands."""
        with self._looking:
            if again or self.stale:
                asked_s = time.monotonic()
                with contextlib.suppress(OSError, http.client.HTTPException):
                    self.targets = self.read() or self.targets
                self._looked_s = asked_s

    def _follow(self) -> None:
        while not self._stop.wait(RE_READ_S):
            self.look(again=True)


class Load:
    """So many requests a second, for so long, by threads that each hold their own clients."""

    def __init__(self, fleet: Fleet, model: str, rate: float, seconds: float, threads: int = 24):
        self._fleet, self._model = fleet, model
        self._total = int(rate * seconds)
        self._gap_s = 1.0 / rate
        self._numbers = itertools.count()
        self._lock = threading.Lock()
        self.report = LoadReport()
        self._began_s = time.monotonic()
        self._threads = [
            threading.Thread(target=self._work, name=f"load-{n}") for n in range(threads)
        ]

    def run(self, meanwhile: Callable[[], None] = lambda: None) -> LoadReport:
        """Run to the end, with *meanwhile* on the caller's thread."""
        self._began_s = time.monotonic()
        for thread in self._threads:
            thread.start()
        try:
            meanwhile()
        finally:
            for thread in self._threads:
                thread.join(self._total * self._gap_s + 30)
        return self.report

    def _work(self) -> None:
        clients: dict[str, triton.InferenceServerClient] = {}
        pause = threading.Event()
        while True:
            with self._lock:
                number = next(self._numbers)
            if number >= self._total:
                break
            due_s = self._began_s + number * self._gap_s
            pause.wait(max(0.0, due_s - time.monotonic()))
            self._send(number, due_s, clients)
        for client in clients.values():
            client.close()

    def _send(
        self, number: int, due_s: float, clients: dict[str, triton.InferenceServerClient]
    ) -> None:
        targets = self._fleet.targets
        target = targets[number % len(targets)]
        if target not in clients:
            clients[target] = triton.InferenceServerClient(
                target, connection_timeout=TIMEOUT_S, network_timeout=TIMEOUT_S
            )
        sent_s = time.monotonic()
        try:
            got = _ask(clients[target], self._model, number)
            problem = "" if got == number else f"answered {got}"
        except Exception as error:  # noqa: BLE001 (whatever it is, the request is lost)
            problem = f"{type(error).__name__}: {error}"
        self._note(number, target, due_s, sent_s, problem)

    def _note(self, number: int, target: str, due_s: float, sent_s: float, problem: str) -> None:
        with self._lock:
            report = self.report
            report.sent += 1
            report.late_s.append(sent_s - due_s)
            report.took_s.append(time.monotonic() - sent_s)
            if problem:
                report.lost.append(LostRequest(number, target, sent_s, problem))
            elif number in report.answered:
                report.doubled += 1
            else:
                report.answered.add(number)


def _ask(client: triton.InferenceServerClient, model: str, number: int) -> int:
    tensor = triton.InferInput("IN", [1], "FP32")
    tensor.set_data_from_numpy(np.array([number], np.float32))
    result = client.infer(model, [tensor], request_id=str(number))
    if result.get_response().get("id") != str(number):
        return -1
    return int(result.as_numpy("OUT")[0])


def by_target(report: LoadReport) -> Mapping[str, int]:
    """Count the lost by where they were sent."""
    counts: dict[str, int] = {}
    for lost in report.lost:
        counts[lost.target] = counts.get(lost.target, 0) + 1
    return counts
