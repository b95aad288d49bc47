"""A real cluster explains its size: with Triton's own numbers."""

import json

import pytest
from house import House, until

pytestmark = pytest.mark.triton


@pytest.mark.timeout(180)
def test_a_real_triton_says_how_many_requests_it_answers(house: House) -> None:
    """Value, unit, age and source of what was asked of it; the size follows; a person is named."""
    scaling = {
        "use": "target",
        "options": {"signal": "requests_per_s", "target": 10},
        "down": {"window": "10m"},
    }
    spec = house.spec("said", replicas={"min": 1, "max": 2, "initial": 1}, scaling=scaling)
    done = house.tarn("up", "-f", spec)
    assert done.returncode == 0, done.stderr
    assert house.tarn("wait", "-c", "said").returncode == 0
    canaries = house.start("verify", "-c", "said", "--rps", "30", "--for", "12s")

    def loaded() -> dict[str, object] | None:
        done = house.tarn("scaling", "explain", "-c", "said", "-o", "json")
        answer = json.loads(done.stdout)
        return answer if (answer["signals"][0]["value"] or 0) > 15 else None

    seen = until(loaded, 20, "the load")["signals"][0]
    out, _ = canaries.communicate(timeout=60)
    assert " 0 lost" in out
    assert (seen["name"], seen["unit"], seen["read"]) == ("requests_per_s", "requests/s", True)
    assert seen["age_s"] < 10
    assert seen["source"].startswith("metrics of ")

    def idle() -> str:
        said = house.tarn("scaling", "explain", "-c", "said").stdout
        return said if "held back by a wish for " in said else ""

    assert until(idle, 20, "the idle seconds after it").startswith("2 replicas")
    assert house.tarn("scale", "1", "-c", "said").returncode == 0
    words = "1 replica, set by a person until `tarn scale --auto`"
    assert until(
        lambda: (
            words in house.tarn("scaling", "explain", "-c", "said").stdout.replace(" (2 ready)", "")
        ),
        20,
        "the person's word",
    )
