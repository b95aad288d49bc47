"""A real cluster that begins asleep: healthy, found by `up`, and woken by a request."""

import sys
import time

import httpx
import numpy as np
import pytest
from house import House, until
from tritonclient.http import InferInput

import tarn.client

pytestmark = pytest.mark.triton


def headers(house: House, name: str) -> dict[str, str]:
    return {"X-TARN-Token": (house.directory(name) / "api_token").read_text().strip()}


@pytest.mark.timeout(180)
def test_a_request_wakes_a_cluster_that_sleeps(
    house: House, capsys: pytest.CaptureFixture[str]
) -> None:
    """`up` does not wait for what nobody wants; the first request is answered, late."""
    spec = house.spec("asleep", replicas={"min": 0, "max": 2, "initial": 0})
    began_s = time.monotonic()
    done = house.tarn("up", "-f", spec)
    assert done.returncode == 0, done.stderr
    up_s = time.monotonic() - began_s
    assert "asleep is ready: 0 of 0 ready" in done.stdout
    url, sent = str(house.ref("asleep")["url"]), headers(house, "asleep")
    assert httpx.get(f"{url}/health").text == "OK\n"
    assert house.tarn("wait", "-c", "asleep", "--timeout", "5s").returncode == 0
    began_s = time.monotonic()
    with tarn.client.http(url, api_token=sent["X-TARN-Token"], wait_s=90) as client:
        one = InferInput("IN", [1], "FP32")
        one.set_data_from_numpy(np.full(1, 7, np.float32))
        answer = client.infer("echo", [one])
        assert float(answer.as_numpy("OUT")[0]) == 7
    woken_s = time.monotonic() - began_s
    status = house.status("asleep")
    assert (status["desired"], status["spec_revision"]) == (1, 1)
    decision = httpx.get(f"{url}/api/v1/decisions", headers=sent).json()["decisions"][-1]
    assert decision["by"] == "demand"
    assert decision["reason"].startswith("1 request waits at client-")
    with capsys.disabled():
        print(
            f"\n  asleep after {up_s:.1f} s; from zero to an answer in {woken_s:.1f} s",
            file=sys.stderr,
        )


@pytest.mark.timeout(120)
def test_a_size_of_zero_by_hand_is_not_woken(house: House) -> None:
    """A person's word is stronger; the answer says so."""
    done = house.tarn("up", "-f", house.spec("told", replicas={"min": 0, "max": 2, "initial": 0}))
    assert done.returncode == 0, done.stderr
    url, sent = str(house.ref("told")["url"]), headers(house, "told")
    assert httpx.put(f"{url}/api/v1/scale", json={"replicas": 0}, headers=sent).status_code == 200
    waits = {"from": "lb1", "waiting": 2}
    said = httpx.put(f"{url}/api/v1/demand", json=waits, headers=sent).json()["message"]
    assert said == "the demand was noted, but a person set 0 replicas"
    shown = until(lambda: house.status("told")["demand"], 10, "the demand")
    assert (shown["from"], shown["waiting"]) == ("lb1", 2)
    assert house.status("told")["desired"] == 0
    why = house.tarn("why", "-c", "told").stdout
    assert "asked for by lb1: 2 requests wait there for an instance" in why
