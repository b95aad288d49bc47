"""`tarn why`, `tarn watch` and `tarn verify` against real Tritons."""

import json
import threading
import urllib.request

import pytest
from house import House, ids, kill, until

pytestmark = pytest.mark.triton


def _slow_request(address: str, delay_s: float) -> threading.Thread:
    """Keep the model at *address* busy for *delay_s*."""
    body = {
        "inputs": [{"name": "IN", "shape": [1], "datatype": "FP32", "data": [1.0]}],
        "parameters": {"delay": str(delay_s)},
    }
    request = urllib.request.Request(
        f"http://{address}/v2/models/echo/infer", json.dumps(body).encode()
    )

    def ask() -> None:
        with urllib.request.urlopen(request, timeout=60) as answer:
            answer.read()

    asking = threading.Thread(target=ask)
    asking.start()
    return asking


def _executed(address: str) -> int:
    """Return how many requests the model at *address* has answered."""
    with urllib.request.urlopen(f"http://{address}/v2/models/echo/stats", timeout=10) as answer:
        (stats,) = json.load(answer)["model_stats"]
    return int(stats["inference_stats"]["success"]["count"])


def test_a_fleet_is_verified_explained_and_watched(house: House) -> None:
    """Canaries reach every instance; a drain loses none and says what it waits for; a kill does."""
    name = "proof"
    # With a policy that wants fewer than the idle fleet has, that would be told, too.
    up = house.tarn("up", "-f", house.spec(name, scaling={"use": "fixed"}))
    assert up.returncode == 0, up.stderr
    assert house.tarn("why", "-c", name).stdout == "proof: 2 of 2 ready; nothing is wrong\n"
    _verify_a_healthy_fleet(house, name)
    _verify_through_a_drain(house, name)
    _verify_through_a_kill(house, name)


def _verify_a_healthy_fleet(house: House, name: str) -> None:
    done = house.tarn("verify", "-c", name, "--rps", "50", "--for", "2s")
    assert (done.returncode, done.stdout.splitlines()[0]) == (
        0,
        "proof: 100 sent in 2 s to echo, 100 answered, 0 lost",
    )
    assert "proof-0001  50    50" in done.stdout
    assert "proof-0002  50    50" in done.stdout


def _verify_through_a_drain(house: House, name: str) -> None:
    """A busy one is told to leave: explained, watched until it is replaced, and none is lost."""
    busy = house.status(name)["instances"][0]
    asking = _slow_request(busy["http"], 6.0)
    verifying = house.start("verify", "-c", name, "--rps", "30", "--for", "12s", "-o", "json")
    assert house.tarn("drain", busy["id"], "--now", "-c", name).returncode == 0

    def waits() -> bool:
        said = house.tarn("why", busy["id"], "-c", name).stdout
        return "a person asked for it" in said  # how long depends on what Triton tells of itself

    until(waits, 5.0, "the drain's explanation")
    watched = house.tarn("watch", "-c", name, "--until", "ready=2", "--timeout", "60s")
    assert watched.returncode == 0, watched.stderr
    assert "proof-0003 ready" in watched.stdout
    asking.join(30.0)
    out, err = verifying.communicate(timeout=60)
    report = json.loads(out)
    assert (verifying.returncode, report["total"]["lost"]) == (0, 0), (out, err)
    assert report["total"]["sent"] == 360


def _verify_through_a_kill(house: House, name: str) -> None:
    """What was lost is told, with the instance and the reason; the fleet heals."""
    victim = house.status(name)["instances"][-1]
    before = _executed(victim["http"])
    verifying = house.start("verify", "-c", name, "--rps", "40", "--for", "4s", "-o", "json")
    until(lambda: _executed(victim["http"]) > before, 30.0, "a canary at the victim")
    kill(int(victim["container_id"]))
    said = until(lambda: house.tarn("why", "-c", name, "-o", "json").stdout, 5.0, "an explanation")
    assert any(victim["id"] in cause["found"] for cause in json.loads(said))
    out, _ = verifying.communicate(timeout=60)
    report = json.loads(out)
    assert verifying.returncode == 1
    assert {error["instance"] for error in report["errors"]} == {victim["id"]}
    assert house.tarn("wait", "-c", name, "--for", "ready=2").returncode == 0
    assert victim["id"] not in ids(house.status(name))
