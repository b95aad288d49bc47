"""A small open loop through Knox: requests are sent when they are due; each knows its answer."""

import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Self

from servers.knox import ALICE, KnoxServer

RATE = 40.0
"""Requests a second: Knox has less than one core here."""


class Load:
    """Asks a topology from `__enter__` to `__exit__`; `lost` is complete after that."""

    def __init__(self, knox: KnoxServer, topology: str, rate: float = RATE) -> None:
        self.knox, self.rate = knox, rate
        self.url = knox.url(topology, "triton/v2/models/echo/infer")
        self.sent, self.lost, self.slowest_s = 0, [], 0.0
        self._stop = threading.Event()
        self._pool = ThreadPoolExecutor(48)
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stop.set()
        self._thread.join(60)
        self._pool.shutdown()

    def _run(self) -> None:
        began_s, asked = time.monotonic(), []
        while not self._stop.wait(max(0.0, began_s + self.sent / self.rate - time.monotonic())):
            asked.append(self._pool.submit(self._ask, self.sent))
            self.sent += 1
        for one in asked:
            self._note(one)

    def _note(self, one: "Future[str]") -> None:
        if why := one.result(60):
            self.lost.append(why)

    def _ask(self, number: int) -> str:
        """Return why there was no right answer, or nothing."""
        tensor = {"name": "IN", "shape": [1], "datatype": "FP32", "data": [number]}
        began_s = time.monotonic()
        try:
            answer = self.knox.client.post(
                self.url, json={"id": str(number), "inputs": [tensor]}, auth=ALICE
            )
        except OSError as error:
            return f"{number}: {error!r}"
        except Exception as error:  # noqa: BLE001 (whatever it is, the request is lost)
            return f"{number}: {error!r}"
        self.slowest_s = max(self.slowest_s, time.monotonic() - began_s)
        if answer.status_code != 200:
            return f"{number}: {answer.status_code} {answer.text[:300]}"
        got = answer.json()
        if (got["id"], got["outputs"][0]["data"]) != (str(number), [number]):
            return f"{number}: got {got}"
        return ""
