"""A real fleet under an open-loop load: what may be lost, and what may not."""

import http.client
import json
import os
import signal
import statistics
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from house import until
from open_loop import RE_READ_S, Fleet, Load, by_target

import tarn

pytestmark = [pytest.mark.triton, pytest.mark.endurance]

MODELS = Path(__file__).parents[1] / "models"
RATE, SECONDS = 200.0, 30.0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tarn.Cluster]:
    with pytest.MonkeyPatch.context() as patch:
        home = tmp_path_factory.mktemp("tarn")
        patch.setenv("TARN_HOME", str(home))
        spec = {
            "name": "load",
            "models": {"repository": str(MODELS), "serve": ["echo"]},
            "replicas": {"min": 1, "max": 5, "initial": 3},
            "drain": {"timeout": "60s"},
        }
        with tarn.Cluster(spec) as running:
            running.wait(ready=3, timeout="60s")
            yield running


@pytest.fixture
def fleet(cluster: tarn.Cluster) -> Iterator[Fleet]:
    cluster.scale(3)
    cluster.wait(ready=3, timeout="60s")
    followed = Fleet(reference(cluster)["url"], api_token(cluster))
    yield followed
    followed.close()


def directory(cluster: tarn.Cluster) -> Path:
    return Path(os.environ["TARN_HOME"]) / "clusters" / cluster.name  # noqa: TID251


def reference(cluster: tarn.Cluster) -> dict[str, object]:
    return json.loads((directory(cluster) / "ref.json").read_text())


def api_token(cluster: tarn.Cluster) -> str:
    return (directory(cluster) / "api_token").read_text().strip()


def pause(seconds: float) -> None:
    threading.Event().wait(seconds)


def test_scaling_and_a_killed_master_lose_no_request(
    cluster: tarn.Cluster, fleet: Fleet, capsys: pytest.CaptureFixture[str]
) -> None:
    """3 → 5 → 2 and kill -9 of the master, at 200 requests a second: nothing is lost or doubled."""

    def meanwhile() -> None:
        pause(3)
        cluster.scale(5)
        cluster.wait(ready=5, timeout="30s")
        pause(2)
        cluster.scale(2)
        pause(4)
        killed = int(str(reference(cluster)["pid"]))
        os.kill(killed, signal.SIGKILL)
        until(lambda: reference(cluster)["pid"] != killed, 20, "the next master")
        cluster.wait(ready=2, timeout="20s")
        cluster.scale(3)

    report = Load(fleet, "echo", RATE, SECONDS).run(meanwhile)
    with capsys.disabled():
        print(f"\n  scaling and a killed master: {report}", file=sys.stderr)
    assert report.sent == RATE * SECONDS
    assert report.lost == []
    assert report.doubled == 0
    assert len(report.answered) == report.sent


def test_a_request_of_ten_seconds_outlives_the_scaling_down(
    cluster: tarn.Cluster, fleet: Fleet
) -> None:
    """Nothing waits, one executes on each, and two of three are drained: every answer comes."""
    answers: dict[str, int] = {}

    def ask(target: str) -> None:
        body = {
            "parameters": {"delay": "10"},
            "inputs": [{"name": "IN", "shape": [1], "datatype": "FP32", "data": [1.0]}],
        }
        connection = http.client.HTTPConnection(target, timeout=60)
        connection.request("POST", "/v2/models/echo/infer", json.dumps(body))
        answers[target] = connection.getresponse().status
        connection.close()

    targets = fleet.read()
    threads = [threading.Thread(target=ask, args=(target,)) for target in targets]
    for thread in threads:
        thread.start()
    pause(1)
    cluster.scale(1)
    for thread in threads:
        thread.join(60)
    assert answers == dict.fromkeys(targets, 200)


def test_a_killed_instance_loses_only_what_was_sent_to_it(
    cluster: tarn.Cluster, fleet: Fleet, capsys: pytest.CaptureFixture[str]
) -> None:
    """Kill -9 of a Triton: no call to another is lost, and it is replaced."""
    victim = next(i for i in cluster.instances() if i["state"] == "ready")
    killed_s = [0.0]

    def meanwhile() -> None:
        pause(3)
        killed_s[0] = time.monotonic()
        os.kill(int(victim["container_id"]), signal.SIGKILL)
        cluster.wait(ready=3, timeout="30s")

    report = Load(fleet, "echo", RATE, 12).run(meanwhile)
    with capsys.disabled():
        print(f"\n  a killed instance: {report}", file=sys.stderr)
    assert set(by_target(report)) <= {victim["http"]}
    assert all(lost.sent_s < killed_s[0] + RE_READ_S + 1.0 for lost in report.lost)
    assert len(report.answered) + len(report.lost) == report.sent
    assert victim["id"] not in {i["id"] for i in cluster.instances()}


def test_a_killed_instance_leaves_the_view_at_once(
    cluster: tarn.Cluster, fleet: Fleet, capsys: pytest.CaptureFixture[str]
) -> None:
    """Median of eleven kills: gone from /instances within a second (measured: milliseconds)."""
    took_s = []
    for _ in range(11):
        cluster.wait(ready=3, timeout="60s")
        ready = [i for i in cluster.instances() if i["state"] == "ready"]
        victim = max(ready, key=lambda i: i["age_s"])
        began_s = time.monotonic()
        os.kill(int(victim["container_id"]), signal.SIGKILL)
        while victim["http"] in fleet.read():
            assert time.monotonic() - began_s < 10
        took_s.append(time.monotonic() - began_s)
        pause(3)
    with capsys.disabled():
        print(
            f"\n  a killed instance leaves /instances: {1000 * statistics.median(took_s):.0f} ms",
            file=sys.stderr,
        )
    assert statistics.median(took_s) < 3.0
