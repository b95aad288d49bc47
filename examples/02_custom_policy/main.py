"""Keep twelve requests at work, and print how the policy answers."""

import contextlib
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Self

import numpy as np
from tritonclient.http import InferenceServerClient, InferInput
from tritonclient.utils import InferenceServerException

import tarn

HERE = Path(__file__).parent
CLIENTS = 12
LONGEST_S = 60.0


class Load:
    """Clients that ask one thing after the other, spread over what serves."""

    def __init__(self) -> None:
        self.serving: Sequence[str] = ()
        """``host:port`` of each ready instance; the owner keeps it fresh."""
        self._over = threading.Event()
        self._clients = [threading.Thread(target=self._ask, args=(n,)) for n in range(CLIENTS)]

    def __enter__(self) -> Self:
        """Begin."""
        for client in self._clients:
            client.start()
        return self

    def __exit__(self, *_exception: object) -> None:
        """End, after the answers that are due."""
        self._over.set()
        for client in self._clients:
            client.join(30.0)

    def _ask(self, number: int) -> None:
        values = InferInput("IN", [1], "FP32").set_data_from_numpy(np.ones(1, np.float32))
        while not self._over.is_set():
            address = self.serving[number % len(self.serving)]
            with (
                contextlib.suppress(InferenceServerException, OSError),
                contextlib.closing(InferenceServerClient(address)) as client,
            ):
                client.infer("nap", [values])


def serving(cluster: tarn.Cluster) -> list[str]:
    """Return where requests may go now."""
    return [each["http"] for each in cluster.status()["instances"] if each["state"] == "ready"]


def main() -> int:
    """Start the fleet, put it under load, and wait until it has grown to its limit."""
    cluster = tarn.Cluster(HERE / "tarn.yaml").up().wait(ready=1, timeout="2m")
    most, sizes, load = cluster.spec.replicas.max, [1], Load()
    load.serving = serving(cluster)
    end_s, pause = time.monotonic() + LONGEST_S, threading.Event()
    with load:
        while sizes[-1] < most and time.monotonic() < end_s:
            pause.wait(0.5)
            load.serving = serving(cluster) or load.serving
            size = cluster.status()["desired"]
            if size != sizes[-1]:
                sizes.append(size)
    print("size", *sizes, sep=" -> ")
    print(cluster.decisions()[-1]["reason"])
    return 0 if sizes[-1] == most else 1


if __name__ == "__main__":
    sys.exit(main())
