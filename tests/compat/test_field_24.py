"""Field, row 24: an autoscaler that says "no metrics returned" leaves people alone with it."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from client_stage import asks
from compat.fleets import house
from contract.fake_binary import fake_models, fake_triton
from house import House, until

import tarn.client

__all__ = ["house"]

SCALING = {
    "use": "target",
    "options": {"signal": "in_flight", "target": 2, "panic": 100},
    "up": {"window": "3s"},
    "down": {"window": "10m"},
    "cooldown": "5s",
}


def explained(house: House) -> dict[str, Any]:
    """Return what a program reads."""
    done = house.tarn("scaling", "explain", "-c", "w", "-o", "json")
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def loaded(house: House) -> dict[str, Any] | None:
    """Return the explanation once it has grown, and knows the load of all that are ready."""
    answer = explained(house)
    value = signal(answer, "in_flight")["value"]
    return answer if answer["ready"] == 3 and (value or 0) > 2 else None


def signal(answer: dict[str, Any], name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(one for one in answer["signals"] if one["name"] == name)
    return found


@pytest.mark.timeout(120)
def test_explain_shows_each_signal_with_value_age_and_source_or_why_there_is_none(
    house: House,
) -> None:
    """Five requests of a second each, always; a GPU that no build reports; what comes next."""
    spec = house.spec(
        "w",
        models={"repository": fake_models(house.root).repository},
        triton={"binary": fake_triton(house.root).binary, "env": {"FAKE_TRITON_LATENCY_S": "1"}},
        replicas={"min": 1, "max": 3, "initial": 1},
        scaling=SCALING,
    )
    done = house.tarn("up", "-f", spec)
    assert done.returncode == 0, done.stderr
    assert house.tarn("wait", "-c", "w").returncode == 0
    token = (house.directory("w") / "api_token").read_text().strip()
    over = threading.Event()
    with (
        tarn.client.http(str(house.ref("w")["url"]), api_token=token) as client,
        ThreadPoolExecutor(5) as pool,
    ):

        def ask_on() -> None:
            while not over.is_set():
                asks(client, 1)

        running = [pool.submit(ask_on) for _ in range(5)]
        try:
            grown = until(lambda: loaded(house), 60, "the load at its full size")
            said = house.tarn("scaling", "explain", "-c", "w").stdout
        finally:
            over.set()
        for each in running:
            each.result(timeout=10)
    watched = signal(grown, "in_flight")
    assert (watched["read"], watched["unit"]) == (True, "requests")
    assert 0 <= watched["age_s"] < 10
    assert watched["source"].startswith("metrics of ")
    missing = signal(grown, "gpu_utilization")
    assert (missing["value"], missing["age_s"], missing["read"]) == (None, None, False)
    assert "no nv_gpu_utilization" in missing["reason"]
    assert grown["signals"][0] == watched
    decision = grown["decisions"][-1]
    assert (decision["by"], decision["desired"]) == ("policy target", 3)
    assert "in_flight" in decision["reason"]
    assert said.startswith("3 replicas")
    for word in ("in_flight *", "requests", "metrics of", "unknown", "no nv_gpu_utilization"):
        assert word in said
    check_the_way_down(house)


def check_the_way_down(house: House) -> None:
    """Idle, it stays: `explain`, `why` and `status` say until when, and of what."""
    idle = until(lambda: (a := explained(house))["wanted"] == 1 and a, 30, "the wish to shrink")
    assert idle["desired"] == 3
    assert idle["next"]["replicas"] in {1, 2}  # 2 may have been wanted on the way
    assert 0 < idle["next"]["in_s"] <= 600
    assert idle["held"][0]["by"] == "down_window"
    assert f"it {idle['next']['words']}" in idle["sentence"]
    assert idle["next"]["words"].startswith("shrinks to ")
    for verb in ("why", "status"):
        assert "(scaling.down.window)" in house.tarn(verb, "-c", "w").stdout
