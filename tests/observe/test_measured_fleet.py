"""What a real fleet did is what its metrics say: requests, a kill, a drain, a new master."""

import signal
from collections.abc import Iterator
from typing import Any

import attrs
import httpx
import pytest
from house import House, clear, ids, kill, until
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from servers.triton import needed

pytestmark = [*needed, pytest.mark.timeout(200)]

NAME = "measured"
OPEN = "application/openmetrics-text;version=1.0.0"
WELL, WRONG, SLOW_S = 8, 3, 0.1


@attrs.frozen
class Fleet:
    """A real fleet, and what its master says."""

    house: House
    token: str

    def get(self, path: str, **headers: str) -> httpx.Response:
        url = self.house.ref(NAME)["url"]
        every = {"X-TARN-Token": self.token, **headers}
        return httpx.get(f"{url}{path}", headers=every, trust_env=False).raise_for_status()

    def value(self, name: str, **labels: str) -> float:
        """Return the sum of the samples with these labels; 0 where there is none."""
        text = self.get("/metrics", Accept=OPEN).text
        return sum(
            sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if sample.name == name and labels.items() <= sample.labels.items()
        )

    def infer(self, place: str, delay: object) -> int:
        tensor = {"name": "IN", "shape": [1], "datatype": "FP32", "data": [1.0]}
        body = {"parameters": {"delay": delay}, "inputs": [tensor]}
        url = f"http://{place}/v2/models/echo/infer"
        return httpx.post(url, json=body, trust_env=False, timeout=20).status_code

    def ready(self, count: int) -> list[dict[str, Any]]:
        def settled() -> list[dict[str, Any]] | None:
            status = self.get("/api/v1/status").json()
            every = status["instances"]
            return every if len(ids(status)) == len(every) == count else None

        rows: list[dict[str, Any]] = until(settled, 60, f"{count} ready", pause_s=0.2)
        return rows


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    house = House(tmp_path_factory.mktemp("measured"))
    size = {"min": 0, "max": 3, "initial": 2}
    done = house.tarn("up", "-f", house.spec(NAME, replicas=size, scaling={"use": "fixed"}))
    assert done.returncode == 0, done.stderr
    yield Fleet(house, (house.directory(NAME) / "api_token").read_text().strip())
    clear(house)


def test_a_life_in_numbers(fleet: Fleet) -> None:
    """Requests that went well, failed and were slow; one killed, one drained; then a new master."""
    rows = fleet.ready(2)
    _asked(fleet, [row["http"] for row in rows])
    _found_by_prometheus(fleet)
    _killed(fleet, rows[0])
    _drained(fleet)
    _taken_over(fleet)


def _asked(fleet: Fleet, places: list[str]) -> None:
    codes = [fleet.infer(places[n % 2], SLOW_S) for n in range(WELL)]
    codes += [fleet.infer(places[n % 2], "not a number") for n in range(WRONG)]
    assert codes.count(200) == WELL
    echo = {"model": "echo"}
    until(
        lambda: fleet.value("tarn_inference_requests_total", **echo) == WELL + WRONG,
        10,
        "every request of both instances",
    )
    assert fleet.value("tarn_inference_requests_total", **echo, status="error") == WRONG
    assert fleet.value("tarn_inference_latency_seconds_count", **echo) == WELL
    mean_s = fleet.value("tarn_inference_latency_seconds_sum", **echo) / WELL
    assert SLOW_S <= mean_s < SLOW_S * 10
    (row,) = fleet.get("/api/v1/models").json()["models"]
    assert (row["name"], row["state"], len(row["instances"])) == ("echo", "READY", 2)
    assert row["requests_per_s"] > 0
    assert row["latency_ms"] == pytest.approx(mean_s * 1000, rel=0.5)


def _found_by_prometheus(fleet: Fleet) -> None:
    targets = [target for one in fleet.get("/api/v1/sd").json() for target in one["targets"]]
    assert len(targets) == 2
    for target in targets:
        text = httpx.get(f"http://{target}/metrics", trust_env=False).text
        assert "nv_inference_request_success" in text


def _killed(fleet: Fleet, victim: dict[str, Any]) -> None:
    assert fleet.value("tarn_container_queue_depth", container_id=victim["container_id"]) == 0
    kill(int(victim["container_id"]), signal.SIGKILL)
    until(
        lambda: fleet.value("tarn_instance_failures_total", reason="signal") == 1, 10, "the failure"
    )
    text = fleet.get("/metrics").text
    assert f'container_id="{victim["container_id"]}"' not in text
    fleet.ready(2)
    assert fleet.value("tarn_inference_requests_total", model="echo") == WELL + WRONG
    assert fleet.value("tarn_start_duration_seconds_count", phase="whole") == 3
    assert fleet.value("tarn_container_asks_total") == 3


def _drained(fleet: Fleet) -> None:
    done = fleet.house.tarn("scale", "1", "-c", NAME)
    assert done.returncode == 0, done.stderr
    fleet.ready(1)
    assert fleet.value("tarn_drains_total", outcome="clean") == 1
    assert fleet.value("tarn_drain_duration_seconds_count") == 1
    assert fleet.value("tarn_decisions_total", by="scale", direction="down") == 1


def _taken_over(fleet: Fleet) -> None:
    """A new master counts from 0: what its instances did before is not counted."""
    pid = fleet.house.ref(NAME)["pid"]
    kill(pid, signal.SIGKILL)
    until(lambda: fleet.house.ref(NAME)["pid"] != pid, 20, "another master")
    until(lambda: _answers(fleet), 20, "its answer")
    fleet.ready(1)
    until(
        lambda: "tarn_inference_requests_total{" in fleet.get("/metrics").text, 10, "its first look"
    )
    assert fleet.value("tarn_inference_requests_total", model="echo") == 0
    assert fleet.value("tarn_start_duration_seconds_count", phase="whole") == 0


def _answers(fleet: Fleet) -> bool:
    try:
        return fleet.get("/api/v1/status").status_code == 200
    except httpx.HTTPError:
        return False
