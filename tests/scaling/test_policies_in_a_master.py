"""Policies in a real master, over fake Tritons: made by their names, and explained to people."""

from importlib.util import find_spec

import pytest
from compat.fleets import house, spec
from house import House, until

__all__ = ["house"]


def explained(house: House) -> str:
    """Return what ``tarn scaling explain`` says."""
    done = house.tarn("scaling", "explain", "-c", "w")
    assert done.returncode == 0, done.stderr
    return " ".join(done.stdout.split())


@pytest.mark.skipif(
    find_spec("cronsim") is None, reason="pip install 'tarn-orchestrator[schedule]'"
)
def test_a_window_grows_the_fleet_and_says_until_when(house: House) -> None:
    """The inner policy is made by the master, and its reason comes first."""
    window = {"cron": "* * * * *", "for": "1h", "min": 2}
    options = {"windows": [window], "zone": "Europe/Paris", "inner": {"use": "target"}}
    file = spec(house, scaling={"use": "schedule", "options": options})
    assert house.tarn("up", "-f", file).returncode == 0
    status = until(lambda: (now := house.status("w"))["ready"] == 2 and now, 60, "two ready")
    assert status["desired"] == 2
    load = "offered_load is 0 (target 10 a replica): 1 replica; "
    said = until(lambda: load in (text := explained(house)) and text, 30, "a known load")
    assert f"{load}the schedule wants at least 2 replicas until " in said


def test_an_old_command_line_scales_by_threshold(house: House) -> None:
    """Fake Tritons have no GPU: it goes by the queue, and says what is missing."""
    old = ["--min-instances", "1", "--max-instances", "3", "--cooldown", "1000"]
    done = house.tarn("up", "-f", spec(house, instances=1), *old)
    assert done.returncode == 0, done.stderr
    assert "no scaling.use is written: 'threshold'" in done.stderr
    said = until(lambda: "load is" in (text := explained(house)) and text, 30, "a wish")
    assert "load is 0% (0 queued where 16 are full, GPU utilization is unknown" in said
    assert "below 20%: the last replica stays" in said
