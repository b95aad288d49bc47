"""A fleet of real Tritons, one of which falls sick under an open-loop load."""

import json
import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import attrs
import numpy as np
from asking import ask
from open_loop import Fleet, Load, Report
from tritonclient.http import InferInput

import tarn

__all__ = ["GrayFleet", "Seen"]

MODEL = "sick"
RATE = 50.0
"""Requests a second of each of the two loads: one by the view alone, one by `cluster.client()`."""
WELL_S = 3.0
"""Load before the fault."""


@attrs.define
class Seen:
    """What was seen of one fault, in seconds after it."""

    out_s: float | None = None
    """The view had no victim."""
    replaced_s: float | None = None
    """Three others were ready."""
    by_view: Report = attrs.field(factory=Report)
    """The load of a client that reads the view and does nothing else."""
    by_client: list[float] = attrs.field(factory=list)
    """Seconds after the fault at which `cluster.client()` lost a request."""
    client_sent: int = 0

    def __str__(self) -> str:
        return (
            f"out of the view after {self.out_s} s, replaced after {self.replaced_s} s; lost by "
            f"the view alone {len(self.by_view.lost)} of {self.by_view.sent}, "
            f"by the client {len(self.by_client)} of {self.client_sent}"
        )


class GrayFleet:
    """Three instances; `strike` makes one of them sick."""

    def __init__(self, cluster: tarn.Cluster) -> None:
        self.cluster = cluster
        directory = Path(os.environ["TARN_HOME"]) / "clusters" / cluster.name  # noqa: TID251
        url = json.loads((directory / "ref.json").read_text())["url"]
        self._view = Fleet(url, (directory / "api_token").read_text().strip())

    def instances(self) -> list[dict[str, Any]]:
        """Return those that are alive, ``in_view`` marked."""
        found = list(self.cluster.status()["instances"])
        for one in found:
            ejected = one["unwell"] is not None and one["unwell"]["ejected"]
            one["in_view"] = one["state"] == "ready" and not one["suspect"] and not ejected
        return found

    def ready(self) -> set[str]:
        return {i["id"] for i in self.instances() if i["in_view"]}

    def settled(self) -> None:
        """Wait until three are in the view, and there is nothing else."""
        end_s = time.monotonic() + 90
        while time.monotonic() < end_s:
            found = self.instances()
            if len(found) == 3 and all(i["in_view"] for i in found):
                return
            threading.Event().wait(0.2)
        raise AssertionError(f"not settled: {self.instances()}")

    def strike(self, how: str, seconds: float, *, everywhere: bool = False) -> Seen:
        """Return what is seen of a fault for *seconds*, under load."""
        self.settled()
        found = self.instances()
        victims = found if everywhere else found[:1]
        seen = Seen()
        load = Load(self._view, MODEL, RATE, WELL_S + seconds, threads=48)
        with ThreadPoolExecutor(2) as pool, self.cluster.client(answer_within_s=5.0) as client:
            ended = threading.Event()
            lost: list[float] = []
            asking = pool.submit(self._ask, client, ended, lost, seen)

            def meanwhile() -> None:
                threading.Event().wait(WELL_S)
                began_s = time.monotonic()
                for victim in victims:
                    self._fault(victim, how)
                self._watch({v["id"] for v in victims}, began_s, seconds, seen)
                seen.by_client = [at_s - began_s for at_s in lost]

            seen.by_view = load.run(meanwhile)
            ended.set()
            asking.result(60)
        return seen

    def _watch(self, victims: set[str], began_s: float, seconds: float, seen: Seen) -> None:
        while (now_s := time.monotonic() - began_s) < seconds:
            found = self.instances()
            ready = {i["id"] for i in found if i["in_view"]}
            if seen.out_s is None and not ready & victims:
                seen.out_s = round(now_s, 1)
            if seen.replaced_s is None and len(ready - victims) >= 3:
                seen.replaced_s = round(now_s, 1)
            threading.Event().wait(0.1)

    def _ask(self, client: Any, ended: threading.Event, lost: list[float], seen: Seen) -> None:
        with ThreadPoolExecutor(48) as pool:
            began_s, number = time.monotonic(), 0
            while not ended.is_set():
                threading.Event().wait(max(0.0, began_s + number / RATE - time.monotonic()))
                pool.submit(self._infer, client, number, lost)
                number += 1
            seen.client_sent = number

    @staticmethod
    def _infer(client: Any, number: int, lost: list[float]) -> None:
        tensor = InferInput("IN", [1], "FP32")
        tensor.set_data_from_numpy(np.array([number], np.float32))
        try:
            answer = client.infer(MODEL, [tensor]).as_numpy("OUT")[0]
        except Exception:  # noqa: BLE001 (whatever it is, the request is lost)
            answer = -1
        if int(answer) != number:
            lost.append(time.monotonic())

    def _fault(self, victim: dict[str, Any], how: str) -> None:
        if how == "killed":
            for stub in stubs(int(victim["container_id"])):
                os.kill(stub, signal.SIGKILL)
        elif how == "stopped":
            os.kill(int(victim["container_id"]), signal.SIGSTOP)
        else:
            threading.Thread(target=_sicken, args=(victim["endpoint"], how), daemon=True).start()


def _sicken(endpoint: dict[str, Any], how: str) -> None:
    tensor = {"name": "IN", "datatype": "FP32", "shape": [1], "data": [0.0]}
    body = json.dumps({"inputs": [tensor], "parameters": {"sick": how}}).encode()
    try:
        ask(int(endpoint["http_port"]), "POST", f"/v2/models/{MODEL}/infer", body)
    except OSError:  # one that hangs
        return


def stubs(pid: int) -> list[int]:
    """Return the processes of Python models below the Triton *pid*."""
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            argv = Path(f"/proc/{child}/cmdline").read_bytes()
            if argv.split(b"\0")[0].endswith(b"triton_python_backend_stub"):
                found.append(int(child))
    return found
