"""`cluster.client()` on a real fleet, at 200 requests a second: nothing at all is lost."""

import asyncio
import itertools
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from open_loop import Load, LoadReport, _ask
from tritonclient.http import InferInput

import tarn

pytestmark = pytest.mark.triton

MODELS = Path(__file__).parents[1] / "models"
RATE = 200.0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tarn.Cluster]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TARN_HOME", str(tmp_path_factory.mktemp("tarn")))
        spec = {
            "name": "clients",
            "models": {"repository": str(MODELS), "serve": ["echo"]},
            "replicas": {"min": 1, "max": 5, "initial": 3},
            "drain": {"timeout": "60s"},
        }
        with tarn.Cluster(spec) as running:
            running.wait(ready=3, timeout="60s")
            yield running


class ClientLoad(Load):
    """The open loop of `Load`, through one client that all its threads share."""

    def __init__(self, client: Any, model: str, rate: float, seconds: float) -> None:
        super().__init__(client, model, rate, seconds)
        self._client = client

    def _send(self, number: int, due_s: float, clients: dict[str, Any]) -> None:
        sent_s = time.monotonic()
        try:
            got = _ask(self._client, self._model, number)
            problem = "" if got == number else f"answered {got}"
        except Exception as error:  # noqa: BLE001 (whatever it is, the request is lost)
            problem = f"{type(error).__name__}: {error}"
        self._note(number, "fleet", due_s, sent_s, problem)


def pause(seconds: float) -> None:
    threading.Event().wait(seconds)


def kill_one(cluster: tarn.Cluster) -> None:
    """Kill -9 of the oldest Triton."""
    victim = max(cluster.instances(), key=lambda one: one["age_s"])
    os.kill(int(victim["container_id"]), signal.SIGKILL)


def kill_the_master(cluster: tarn.Cluster) -> None:
    """Kill -9; its keeper starts the next one."""
    ref = Path(os.environ["TARN_HOME"]) / "clusters" / cluster.name / "ref.json"  # noqa: TID251
    os.kill(json.loads(ref.read_text())["pid"], signal.SIGKILL)


def test_no_call_is_lost_while_instances_are_killed_and_the_fleet_is_scaled(
    cluster: tarn.Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    """Kill -9 twice, 3 → 5 → 2, kill -9 of the master: 0 lost, 0 wrong, 0 doubled answers."""
    cluster.scale(3)
    cluster.wait(ready=3, timeout="60s")
    took_s = {}

    def meanwhile() -> None:
        pause(2)
        kill_one(cluster)
        pause(3)
        cluster.scale(5)
        cluster.wait(ready=5, timeout="30s")
        pause(1)
        kill_one(cluster)
        pause(3)
        cluster.wait(ready=5, timeout="30s")
        began_s = time.monotonic()
        cluster.scale(2)
        while len(cluster.instances()) > 2 and time.monotonic() - began_s < 30:
            pause(0.1)
        took_s["drains"] = time.monotonic() - began_s
        kill_the_master(cluster)
        cluster.wait(ready=2, timeout="30s")

    before = set(threading.enumerate())
    with cluster.client(wait_s=10) as client:
        report = ClientLoad(client, "echo", RATE, 30).run(meanwhile)
    with capsys.disabled():
        print(
            f"\n  cluster.client(): {report}; 5 → 2 took {took_s['drains']:.1f} s", file=sys.stderr
        )
    assert [lost.why for lost in report.lost] == []
    assert report.doubled == 0
    assert len(report.answered) == report.sent == RATE * 30
    assert set(threading.enumerate()) <= before


def test_no_call_is_lost_when_the_only_other_instance_is_killed(cluster: tarn.Cluster) -> None:
    """Two instances, one killed at full load: the other takes everything."""
    cluster.scale(2)
    cluster.wait(ready=2, timeout="60s")

    def meanwhile() -> None:
        pause(1)
        kill_one(cluster)
        cluster.wait(ready=2, timeout="30s")

    with cluster.client(wait_s=10) as client:
        report = ClientLoad(client, "echo", RATE, 8).run(meanwhile)
    assert [lost.why for lost in report.lost] == []
    assert len(report.answered) == report.sent


def test_no_call_of_asyncio_is_lost_when_an_instance_is_killed(
    cluster: tarn.Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    """200 a second on one event loop, kill -9 and 3 → 4 → 2 meanwhile: 0 lost, 0 wrong."""
    cluster.scale(3)
    cluster.wait(ready=3, timeout="60s")

    def meanwhile() -> None:
        pause(2)
        kill_one(cluster)
        pause(2)
        cluster.scale(4)
        pause(3)
        cluster.scale(2)

    report = asyncio.run(_async_load(cluster, 12.0, meanwhile))
    with capsys.disabled():
        print(f"\n  cluster.aio_client(): {report}", file=sys.stderr)
    assert [lost.why for lost in report.lost] == []
    assert len(report.answered) == report.sent == RATE * 12


async def _async_load(
    cluster: tarn.Cluster, seconds: float, meanwhile: Callable[[], None]
) -> LoadReport:
    # Only its report is used: the loop below takes the place of its threads.
    load = ClientLoad(None, "echo", RATE, seconds)
    began_s = time.monotonic()

    async def one(number: int, due_s: float, client: Any) -> None:
        sent_s = time.monotonic()
        tensor = InferInput("IN", [1], "FP32")
        tensor.set_data_from_numpy(np.array([number], np.float32))
        try:
            result = await client.infer("echo", [tensor], request_id=str(number))
            got = int(result.as_numpy("OUT")[0])
            problem = "" if got == number else f"answered {got}"
        except Exception as error:  # noqa: BLE001 (whatever it is, the request is lost)
            problem = f"{type(error).__name__}: {error}"
        load._note(number, "fleet", due_s, sent_s, problem)

    async with cluster.aio_client(wait_s=10) as client, asyncio.TaskGroup() as group:
        group.create_task(asyncio.to_thread(meanwhile))
        for number in itertools.takewhile(lambda n: n < RATE * seconds, itertools.count()):
            due_s = began_s + number / RATE
            await asyncio.sleep(max(0.0, due_s - time.monotonic()))
            group.create_task(one(number, due_s, client))
    return load.report


def test_a_client_asks_the_whole_fleet(cluster: tarn.Cluster) -> None:
    """Statistics are summed over what each instance executed; loading is asked of each."""
    cluster.scale(2)
    cluster.wait(ready=2, timeout="60s")

    def executed() -> int:
        model = client.get_inference_statistics("echo")["model_stats"][0]
        return int(model["inference_stats"]["success"]["count"])

    with cluster.client() as client:
        before = executed()
        for number in range(40):
            assert _ask(client, "echo", number) == number
        assert executed() == before + 40
        assert client.is_server_ready()
        assert client.is_model_ready("echo")
        assert not client.is_model_ready("nobody")
        assert client.get_model_config("echo")["name"] == "echo"
        assert len(client.each(lambda one: one.get_server_metadata())) == 2
